package quote

import (
	"encoding/json"
	"strings"
	"testing"
)

// checkMembers holds what was split against encoding/json.
func checkMembers(t *testing.T, data string) {
	t.Helper()
	list, ok := Members(nil, []byte(data))
	if !ok {
		return
	}
	want := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(data), &want); err != nil {
		t.Fatalf("%q is split into %d members, but is not valid: %v", data, len(list), err)
	}
	got := map[string]string{}
	for _, m := range list {
		got[m.Key] = string(m.Value)
		s, plain := String(m.Value)
		var decoded string
		if plain && (json.Unmarshal(m.Value, &decoded) != nil || decoded != s) {
			t.Errorf("%s is the string %q, want %q", m.Value, s, decoded)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%q has the members %q, want %q", data, got, want)
	}
	for k, v := range want {
		if got[k] != string(v) {
			t.Errorf("%q: member %q is %q, want %q", data, k, got[k], v)
		}
	}
}

func TestMembers(t *testing.T) {
	for _, tt := range []struct {
		data string
		ok   bool
	}{
		{`{}`, true},
		{` { "a" : 1 , "b":[1,-0.5e+3,{"c":null}], "d":"x\n\u00e4\"y", "ä":true } `, true},
		{`{"a":1,"a":2}`, true},
		{`{"deep":` + strings.Repeat("[", 20) + strings.Repeat("]", 20) + `}`, true},
		{`{"deep":` + strings.Repeat("[", 500) + strings.Repeat("]", 500) + `}`, false}, // left to a decoder
		{`{"a\u0062":1}`, false},
		{`{"a":1} x`, false},
		{`{"a":01}`, false},
		{`{"a":1.}`, false},
		{`{"a":-}`, false},
		{`{"a":"x` + "\n" + `"}`, false},
		{`{"a":"\x"}`, false},
		{`{"a":"\u12g4"}`, false},
		{`{"a":tru}`, false},
		{`{"a":1,}`, false},
		{`{"a" 1}`, false},
		{`{"a":[1,]}`, false},
		{`{a:1}`, false},
		{`[1]`, false},
		{`{"a":1`, false},
		{``, false},
	} {
		if _, ok := Members(nil, []byte(tt.data)); ok != tt.ok {
			t.Errorf("Members of %q: %v, want %v", tt.data, ok, tt.ok)
		}
		checkMembers(t, tt.data)
	}
}

func FuzzMembers(f *testing.F) {
	f.Add(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"Read","arguments":{"file_path":"a\tb"}}}`)
	f.Add(`{"a":[1e9,-0,"\ud83d\ude00",{"b":[]}]}`)
	f.Fuzz(checkMembers)
}
