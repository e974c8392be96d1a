package eval

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestCaseKeys(t *testing.T) {
	got := caseKeys([]string{"plain", "a b/c", "a-b-c", "..", "", "workspaces", "ümlaut", "x", "x"})
	want := []string{"plain", "a-b-c", "a-b-c--cbd2be7b", "--", "case", "workspaces--6e8d7998", "-mlaut", "x", "x--2d711642"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestRunDirsOfOneMillisecondDiffer(t *testing.T) {
	now := time.Date(2026, 11, 15, 0, 33, 39, 597e6, time.UTC)
	out := t.TempDir()
	a, err := newRunDir(out, now)
	if err != nil {
		t.Fatal(err)
	}
	b, err := newRunDir(out, now)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := filepath.Base(a), "2026-11-15T00-33-39-597Z"; got != want {
		t.Errorf("the directory is %s, want %s", got, want)
	}
	if a == b {
		t.Errorf("both runs have %s", a)
	}
}

func TestSessionDirs(t *testing.T) {
	if got, want := sessionDir("/x", 2, 1), "/x/repeat-2"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := sessionDir("/x", 2, 3), "/x/repeat-2/session-3"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
