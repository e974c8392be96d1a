package workcmd

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/internal/daemon/cli/console"
)

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
		if got := console.RefusalText(tt.at+":443", tt.reason, "--allow-net %s"); tt.run != "" && got != tt.run {
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
