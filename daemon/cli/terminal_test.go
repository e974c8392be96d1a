package cli

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/workspace"
)

func TestEscapes(t *testing.T) {
	for _, tt := range []struct {
		keys  []string
		want  string
		leave bool
	}{
		{[]string{"ls\r"}, "ls\r", false},
		{[]string{"a\x1db"}, "a", true},
		{[]string{"~."}, "", true},
		{[]string{"~", "."}, "", true},
		{[]string{"ls\r~."}, "ls\r", true},
		{[]string{"ls ~/x\r"}, "ls ~/x\r", false},
		{[]string{"~~.\r"}, "~.\r", false},
		{[]string{"~", "/x"}, "~/x", false},
		{[]string{"a~."}, "a~.", false},
	} {
		e := newEscapes()
		got, left := "", false
		for _, keys := range tt.keys {
			var out []byte
			out, left = e.filter([]byte(keys))
			got += string(out)
		}
		if got != tt.want || left != tt.leave {
			t.Errorf("%q gives %q, %v; want %q, %v", tt.keys, got, left, tt.want, tt.leave)
		}
	}
}

func TestRules(t *testing.T) {
	for in, want := range map[string]workspace.NetRule{
		"example.com":      {Host: "example.com"},
		"*.example.com:80": {Host: "*.example.com", Ports: []int{80}},
		"[::1]":            {Host: "::1"},
		"fd00::80":         {Host: "fd00::80"},
		"[::1]:8080":       {Host: "::1", Ports: []int{8080}},
	} {
		got, err := parseRule("--allow-net", in)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", in, err, diff)
		}
	}
	for _, in := range []string{"", ":80", "a:0", "a:70000", "a:b", "https://a", "a/b"} {
		if _, err := parseRule("--allow-net", in); err == nil {
			t.Errorf("%q is taken", in)
		}
	}
}
