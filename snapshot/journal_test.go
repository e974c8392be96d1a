package snapshot

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/croft-run/croft/fault"
)

// TestRollbackJournal: a journal is found by the process that comes after one that
// died, and by no other.
func TestRollbackJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rollback")
	find := func(want bool) *Rollback {
		t.Helper()
		r, err := FindRollback(path)
		if err != nil || (r != nil) != want {
			t.Fatalf("FindRollback = %v, %v; want one: %v", r, err, want)
		}
		return r
	}
	find(false)
	first, err := BeginRollback(path, &RollbackTarget{Target: "t", Before: "b"})
	must0(t, err)
	find(false)
	if _, err := BeginRollback(path, &RollbackTarget{}); fault.Of(err) != fault.Conflict {
		t.Errorf("a second rollback: %v, want %v", err, fault.Conflict)
	}
	first.Release()
	second := find(true)
	if second.Target() != "t" || second.to.Before != "b" {
		t.Errorf("the journal says %+v", second.to)
	}
	must0(t, second.End())
	find(false)
	for _, torn := range []string{"", "croft-journal 1 blake3:00\n{\"target", "\x00\x00\x00"} {
		must0(t, os.WriteFile(path, []byte(torn), 0o600))
		find(false)
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("a journal that is not whole stays: %v", err)
		}
	}
}

// TestRollbackWithoutTarget goes back to what was there where the target was
// deleted.
func TestRollbackWithoutTarget(t *testing.T) {
	s := Open(Memory(), nil)
	before, target := take(t, s, plant(t, map[string]string{"a": "1"}), nil), take(t, s, plant(t, map[string]string{"a": "2"}), nil)
	r, err := BeginRollback(filepath.Join(t.TempDir(), "rollback"), &RollbackTarget{Target: target.ID, Before: before.ID})
	must0(t, err)
	defer r.Release()
	for _, want := range []*Manifest{target, before} {
		tree, err := r.Tree(t.Context(), s)
		must0(t, err)
		if got, err := Digest(t.Context(), tree); err != nil || got != want.Digest {
			t.Errorf("the tree is %s, %v; want %s", got, err, want.Digest)
		}
		must0(t, s.Delete(t.Context(), want.ID))
	}
}
