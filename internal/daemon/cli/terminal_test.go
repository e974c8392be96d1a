package cli

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/event"
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

// TestAllowHint: a host that was refused is named with the command that allows it, and the
// address of a cloud's metadata service without.
func TestAllowHint(t *testing.T) {
	for at, want := range map[string]string{
		"example.com": "; croft work allow example.com lets it through", "198.51.100.7:8080": "; croft work allow 198.51.100.7:8080 lets it through",
		"169.254.169.254": "", "169.254.169.254:8080": "", "fe80::1": "", "[fe80::1]:81": "", "::ffff:169.254.169.254": "",
		"2001:db8::1": "; croft work allow 2001:db8::1 lets it through", `"x; id"`: "", `"x":<nil>`: "", "x:<nil>": "", "x;id": "", "--yes": "", "*": "", "": "",
	} {
		if got := allowHint(at); got != want {
			t.Errorf("%s: %q, want %q", at, got, want)
		}
	}
}

// TestRefusalHint: a command that allows a host is named where that helps, and for every other
// reason there is the reason, and a remedy if there is one.
func TestRefusalHint(t *testing.T) {
	const rule = "; a rule of croft.yaml reaches it: network: {rules: {NAME: [{host: a.test, private: true}]}}, with "
	for _, tt := range []struct{ at, reason, work, run string }{
		{"a.test", "no rule allows it; allowed are b.test", "; croft work allow a.test lets it through", "a.test:443: no rule allows it; allowed are b.test; --allow-net a.test"},
		{"a.test", "its address is private", ": its address is private" + rule + "croft work allow @NAME; of a registry, network.mirrors", "a.test:443: its address is private" + rule + "--allow-net @NAME; of a registry, network.mirrors"},
		{"a.test", "its address is a metadata service", ": its address is a metadata service", "a.test:443: its address is a metadata service"},
		{"a.test", "a credential is sent over TLS only; use https", ": a credential is sent over TLS only; use https", "a.test:443: a credential is sent over TLS only; use https"},
		{"a.test", "a rule denies it", ": a rule denies it", "a.test:443: a rule denies it"},
		{"10.0.0.1", "its address is private", ": its address is private", "10.0.0.1:443: its address is private"},
		{"x;id", "its address is private", ": its address is private", ""},
	} {
		if got := refusalHint(tt.at, tt.reason); got != tt.work {
			t.Errorf("%s, %s: in a work %q, want %q", tt.at, tt.reason, got, tt.work)
		}
		if got := refusalText(tt.at+":443", tt.reason, "--allow-net %s"); tt.run != "" && got != tt.run {
			t.Errorf("%s, %s: %q, want %q", tt.at, tt.reason, got, tt.run)
		}
	}
}

// TestHostsOfAWork: a malformed request has no port, and what was allowed was not always reached.
func TestHostsOfAWork(t *testing.T) {
	all := map[string]*hostUse{}
	for _, line := range []string{
		`{"host":"\"x; id\"","verdict":"deny","code":"E_INVALID_ARGUMENT"}`,
		`{"host":"a.test","port":443,"verdict":"allow","bytes_in":5}`,
		`{"host":"a.test","port":443,"verdict":"allow","bytes_in":5,"code":"E_UNAVAILABLE"}`,
		`{"host":"none.invalid","port":81,"verdict":"allow","bytes_in":0,"code":"E_UNAVAILABLE","status":503}`,
	} {
		e, err := event.Unmarshal([]byte(`{"event":"egress.request","sequence":1,"ts":"2026-01-01T00:00:00Z","fields":` + line + `}`))
		if err != nil {
			t.Fatal(err)
		}
		addRequest(all, e)
	}
	want := map[string]*hostUse{
		`"x; id"`: {Host: `"x; id"`, Refused: 1}, "a.test": {Host: "a.test", Reached: 2}, "none.invalid:81": {Host: "none.invalid:81", Failed: 1},
	}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Errorf("the hosts differ (-want +got):\n%s", diff)
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
