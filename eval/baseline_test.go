package eval

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-run/croft/eval/session"
	"github.com/croft-run/croft/eval/suite"
)

func used(tokens ...float64) []*session.Report {
	var list []*session.Report
	for _, n := range tokens {
		r := session.Empty(session.Runner{}, "")
		r.Usage.TotalTokens = &n
		list = append(list, r)
	}
	return list
}

func TestBaselines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "snapshots.json")
	r := session.NewRunner("claude", session.Agent{Type: "claude-code", Model: "m"})
	open := func(update bool) *baselines {
		s, err := readBaselines(suite.Snapshots{Path: path, Percent: new(5.0), Absolute: new(50.0)}, update)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open(false)
	if why := s.check("one", r, used(90, 110), "now"); why != nil { // the mean is 100
		t.Errorf("the first measure fails: %v", why)
	}
	if err := s.save(); err != nil {
		t.Fatal(err)
	}
	s = open(false)
	for tokens, want := range map[float64]bool{1: true, 105: true, 106: false, 120: false} {
		if why := s.check("one", r, used(tokens), "now"); (why == nil) != want {
			t.Errorf("%v tokens after 100: %v, want %v", tokens, why, want)
		}
	}
	want := "Snapshot mismatch for totalTokens:\nactual 120 > allowed 105\nbaseline 100, +20 tokens (+20.0%)\nkey: one / claude\nRun with --update-snapshots to accept the new baseline."
	if got := s.check("one", r, used(120), "now"); got == nil || got.Message != want {
		t.Errorf("got %v, want %s", got, want)
	}
	if why := open(true).check("one", r, used(500), "now"); why != nil {
		t.Errorf("with --update-snapshots: %v", why)
	}
	unknown := session.Empty(r, "")
	if why := s.check("one", r, []*session.Report{unknown}, "now"); why == nil || !strings.Contains(why.Message, "unavailable for one / claude") {
		t.Errorf("without a count: %v", why)
	}
}

func TestBadBaselinesAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "snapshots.json")
	for _, text := range []string{"{", `{"version":2,"entries":{}}`, `{"version":1}`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readBaselines(suite.Snapshots{Path: path}, false); err == nil {
			t.Errorf("%s is taken", text)
		}
	}
}
