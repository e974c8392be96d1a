package driver

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/croft-run/croft/fault"
)

func TestJSONKeepsBytes(t *testing.T) {
	const odd = "caf\xe9"
	for _, in := range []any{
		Info{Path: odd, Type: TypeSymlink, Target: "\xff/x"},
		Info{Path: "plain", Type: TypeFile, Size: 3},
		Listing{Entries: []Info{{Path: odd}}, Next: odd},
		Match{Path: odd, Line: 1, Column: 2, Text: "\xfe", Before: []string{"a", "\xff"}, After: []string{"b"}},
		Skip{Path: odd, Reason: SkipBinary},
		Change{Path: odd, Op: OpWrite},
		Edit{Old: odd, New: "cafe", All: true},
		Edit{Old: "a", New: "\xff"},
	} {
		data, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		if !utf8.Valid(data) {
			t.Errorf("%T: the JSON is not UTF-8: %q", in, data)
		}
		out := reflect.New(reflect.TypeOf(in))
		if err := json.Unmarshal(data, out.Interface()); err != nil {
			t.Fatal(err)
		}
		if got := out.Elem().Interface(); !reflect.DeepEqual(got, in) {
			t.Errorf("%T came back as %+v, want %+v (%s)", in, got, in, data)
		}
	}
	data, err := json.Marshal(Info{Path: "plain"})
	if err != nil || strings.Contains(string(data), "B64") {
		t.Errorf("a plain path became %s, %v", data, err)
	}
	var e Edit
	if err := json.Unmarshal([]byte(`{"old":"a","nwe":"b"}`), &e); fault.Of(err) != fault.InvalidArgument {
		t.Errorf("an unknown key in an edit gives %v, want InvalidArgument", err)
	}
}
