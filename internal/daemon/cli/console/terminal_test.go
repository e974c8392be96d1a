package console

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
		{[]string{"a\x1b[93;5ub"}, "a", true},
		{[]string{"\x1b[27;5;93~"}, "", true},
		{[]string{"\x1b[93;6u"}, "\x1b[93;6u", false},
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

func TestTerminalModes(t *testing.T) {
	for _, tt := range []struct {
		output []string
		want   string
	}{
		{[]string{"plain \x1b[1;31mred\x1b[m\n"}, ""},
		{[]string{"\x1b[?1049h\x1b[?25l", "text\x1b[?1000;1006h"}, "\x1b[?1000l\x1b[?1006l\x1b[?1049l\x1b[?25h\x1b[m"},
		{[]string{"\x1b[?1049h\x1b[?25l\x1b[?25h\x1b[?1049l"}, ""},
		{[]string{"\x1b", "[?20", "04h", "x"}, "\x1b[?2004l\x1b[m"},
		{[]string{"\x1b[>1u\x1b[>3u\x1b[<u\x1b[>4;2m"}, "\x1b[<1u\x1b[>4m\x1b[m"},
		{[]string{"\x1b[>1u\x1b[<u\x1b[>4;2m\x1b[>4;0m"}, ""},
		{[]string{"\x1b[?9999h\x1b[?1h\x1b"}, "\x1b[?1l\x1b[m"},
	} {
		var m terminalModes
		for _, data := range tt.output {
			m.observe([]byte(data))
		}
		if got := m.reset(); got != tt.want {
			t.Errorf("after %q the modes are reset by %q, want %q", tt.output, got, tt.want)
		}
		var again terminalModes
		again.observe([]byte(m.set()))
		if got := again.reset(); got != tt.want {
			t.Errorf("%q sets modes that %q resets, want %q", m.set(), got, tt.want)
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
		got, err := ParseRule("--allow-net", in)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", in, err, diff)
		}
	}
	for _, in := range []string{"", ":80", "a:0", "a:70000", "a:b", "https://a", "a/b"} {
		if _, err := ParseRule("--allow-net", in); err == nil {
			t.Errorf("%q is taken", in)
		}
	}
}
