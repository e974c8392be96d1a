package guest

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMountsAreReadAsTheyWereWritten fills every field of a Mount, also one that is
// added later.
func TestMountsAreReadAsTheyWereWritten(t *testing.T) {
	full := Mount{}
	v := reflect.ValueOf(&full).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.String:
			f.SetString("text of " + v.Type().Field(i).Name)
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Uint32:
			f.SetUint(0o1777)
		case reflect.Slice:
			f.Set(reflect.ValueOf([]string{"one", "", "three"}))
		default:
			t.Fatalf("the test does not know fields such as %s", v.Type().Field(i).Name)
		}
	}
	want := Config{Mounts: Mounts{full, {}, {Kind: MountDir, Target: "/a"}, {ReadOnly: true}, {NoExec: true}, {Dev: true}, {Optional: true}}}
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Config
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("they differ (-want +got):\n%s", diff)
	}
}

func FuzzMounts(f *testing.F) {
	text, err := Mounts{{Kind: MountBind, Target: "/usr", Source: "/usr", ReadOnly: true}, {Kind: MountOverlay, Lower: []string{"a"}, Mode: 0o700}}.MarshalText()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte("////"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var ms, again Mounts
		if ms.UnmarshalText(text) != nil {
			return
		}
		text, err := ms.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		if err := again.UnmarshalText(text); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(ms, again); diff != "" {
			t.Errorf("they differ (-first +second):\n%s", diff)
		}
	})
}
