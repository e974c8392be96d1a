package snapshot

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/gofrs/flock"
	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/flockfile"
	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/workspace/driver"
)

// plantJournal makes, in a directory, a stage such as a change that was cut short
// leaves.
func plantJournal(t testing.TB, dir string, ops ...op) string {
	t.Helper()
	stage := filepath.Join(dir, stagePrefix+"planted0000000000000")
	must0(t, os.Mkdir(stage, 0o700))
	data, err := encodeJournal(stageJournal{Dir: dir, Ops: ops})
	must0(t, err)
	must0(t, os.WriteFile(filepath.Join(stage, journalName), data, 0o600))
	must0(t, os.WriteFile(filepath.Join(stage, "1"), []byte("evil\n"), 0o755))
	return stage
}

// TestPlantedJournal: who can write to a directory could leave a journal there that
// the next change of the directory carries out.
func TestPlantedJournal(t *testing.T) {
	base, theirs := HostDir(plant(t, map[string]string{"a": "1\n"}), nil), HostDir(plant(t, map[string]string{"a": "2\n"}), nil)
	for _, tt := range []struct {
		name string
		op   op
	}{
		{"removes outside", op{Path: []byte("../victim"), Remove: true}},
		{"puts outside", op{Path: []byte("../victim"), Temp: "1"}},
		{"through a directory", op{Path: []byte("sub/../../victim"), Temp: "1"}},
		{"fetches from outside", op{Path: []byte("stolen"), Temp: "../../victim"}},
		{"an absolute path", op{Path: []byte("/victim"), Temp: "1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			top := plant(t, map[string]string{"victim": "safe\n", "dir/a": "1\n", "dir/sub/": ""})
			dir := filepath.Join(top, "dir")
			plantJournal(t, dir, tt.op)
			want := harvest(t, top)
			if _, err := Recover(t.Context(), dir, "", ""); fault.CauseOf(err) != fault.CauseCorrupt {
				t.Errorf("Recover: %v, want the cause %s", err, fault.CauseCorrupt)
			}
			if diff := cmp.Diff(want, harvest(t, top)); diff != "" {
				t.Errorf("it was carried out:\n%s", diff)
			}
		})
	}
	t.Run("inside", func(t *testing.T) {
		dir, journals := plant(t, map[string]string{"a": "1\n", ".git/hooks/": ""}), filepath.Join(t.TempDir(), "journals")
		stage := plantJournal(t, dir, op{Path: []byte(".git/hooks/pre-commit"), Temp: "1"})
		_, err := Apply(t.Context(), base, theirs, dir, &ApplyOptions{Journals: journals})
		if fault.Of(err) != fault.WrongState {
			t.Errorf("an apply beside it: %v, want %v", err, fault.WrongState)
		}
		if diff := cmp.Diff(map[string]string{"a": "1\n", ".git/hooks/": ""}, harvest(t, dir)); diff != "" {
			t.Errorf("it was carried out:\n%s", diff)
		}
		must0(t, os.Remove(filepath.Join(stage, journalName)))
		if _, err := Apply(t.Context(), base, theirs, dir, &ApplyOptions{Journals: journals}); err != nil {
			t.Errorf("an apply beside a stage without a journal: %v", err)
		}
		if left, err := listStages(dir); err != nil || len(left) > 0 {
			t.Errorf("%q is left, %v", left, err)
		}
		if left, err := os.ReadDir(journals); err != nil || len(left) > 0 {
			t.Errorf("%v is left of journals, %v", left, err)
		}
	})
	t.Run("a symlink", func(t *testing.T) {
		dir, outside := plant(t, map[string]string{"a": "1\n"}), t.TempDir()
		must0(t, os.Symlink(outside, filepath.Join(dir, stagePrefix+"link0000000000000000")))
		if _, err := Apply(t.Context(), base, theirs, dir, nil); err != nil {
			t.Errorf("an apply beside it: %v", err)
		}
		if list, err := os.ReadDir(outside); err != nil || len(list) > 0 {
			t.Errorf("where it leads to there is %v, %v", list, err)
		}
	})
}

// TestChangeThatFailsHalfWay: a step that can't be done leaves the directory as it
// was, not with some of the steps.
func TestChangeThatFailsHalfWay(t *testing.T) {
	old := map[string]string{"a": "1\n", "b/c": "1\n", "gone": "1\n", "swap/x": "1\n", "file": "1\n", "mode": "1\n", "z/f": "1\n"}
	theirs := plant(t, map[string]string{"a": "2\n", "b/c": "2\n", "new/d": "2\n", "swap": "2\n", "file/x": "2\n", "mode": "1\n", "z/f": "2\n"})
	must0(t, os.Chmod(filepath.Join(theirs, "mode"), 0o755))
	base := plant(t, old)
	for _, tt := range []struct {
		name string
		hurt func(dir string) error
		mend func(dir string) error
	}{
		{"a move", func(dir string) error { return os.Rename(dir+"/z", dir+"/elsewhere") }, func(dir string) error { return os.Rename(dir+"/elsewhere", dir+"/z") }},
		{"an attribute", func(dir string) error { return os.Rename(dir+"/mode", dir+"/elsewhere") }, func(dir string) error { return os.Rename(dir+"/elsewhere", dir+"/mode") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := plant(t, old)
			want, err := Digest(t.Context(), HostDir(dir, nil))
			must0(t, err)
			ctx := driver.WithSteps(t.Context(), func(step string) {
				if step == "journal" {
					must0(t, tt.hurt(dir))
				}
			})
			if res, err := Apply(ctx, HostDir(base, nil), HostDir(theirs, nil), dir, nil); err == nil {
				t.Fatalf("it was applied: %+v", res)
			}
			must0(t, tt.mend(dir))
			got, err := Digest(t.Context(), HostDir(dir, nil))
			must0(t, err)
			if got != want {
				t.Errorf("the directory is not as it was:\n%s", cmp.Diff(old, harvest(t, dir)))
			}
			if left, err := listStages(dir); err != nil || len(left) > 0 {
				t.Errorf("%q is left, %v", left, err)
			}
			res, err := Apply(t.Context(), HostDir(base, nil), HostDir(theirs, nil), dir, nil)
			if err != nil || !res.Done {
				t.Errorf("applied afterwards: %+v, %v", res, err)
			}
			if diff := cmp.Diff(harvest(t, theirs), harvest(t, dir)); diff != "" {
				t.Errorf("it is not what was applied:\n%s", diff)
			}
		})
	}
}

// TestAttributesOfOthers: a store of another author could give files
// attributes with a meaning for the kernel, such as capabilities.
func TestAttributesOfOthers(t *testing.T) {
	for _, name := range []string{"security.capability", "trusted.overlay.redirect", "system.posix_acl_access", "user.overlay.opaque", ""} {
		data := encodeTree([]Node{{Name: "f", Type: driver.TypeFile, Mode: 0o755, Xattrs: []Xattr{{Name: name, Value: []byte("v")}}}})
		if _, err := decodeTree(data); err == nil {
			t.Errorf("a tree whose file has the attribute %q can be read", name)
		}
	}
	data := encodeTree([]Node{{Name: "f", Type: driver.TypeFile, Xattrs: []Xattr{{Name: "user.x", Value: []byte("v")}}}})
	if _, err := decodeTree(data); err != nil {
		t.Errorf("a tree whose file has an attribute of the user: %v", err)
	}
}

// TestNamesLikeTemps keeps files whose names only begin like those of temporary
// ones: they are in a snapshot, come back, and go where they are not in it.
func TestNamesLikeTemps(t *testing.T) {
	ours := files.TempPrefix + "0123456789abc"
	want := map[string]string{files.TempPrefix + "notes": "1", files.TempPrefix + "stage-mine": "2", "d/" + files.StagePrefix + "x": "3"}
	dir := plant(t, want)
	must0(t, os.WriteFile(filepath.Join(dir, ours), []byte("half"), 0o600))
	s := Open(Memory(), nil)
	m, err := s.Take(t.Context(), HostDir(dir, nil), nil)
	must0(t, err)
	to := plant(t, map[string]string{files.TempPrefix + "other": "4"})
	_, err = Restore(t.Context(), s.StoredTree(m.Root), to, nil)
	must0(t, err)
	got := map[string]string{}
	must0(t, filepath.WalkDir(to, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		rel, _ := filepath.Rel(to, path)
		got[rel] = string(data)
		return err
	}))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("restored (-want +got):\n%s", diff)
	}
}

// TestUnfinishedJournals checks that RecoverAll removes journals that a killed process was
// writing, but not while another process writes one.
func TestUnfinishedJournals(t *testing.T) {
	journals := t.TempDir()
	left := filepath.Join(journals, "."+stagePrefix+"x.tmp-1")
	must0(t, os.WriteFile(left, []byte("{"), 0o600))
	lock, err := flockfile.RLock(t.Context(), journals, flock.SetFlag(os.O_RDONLY))
	must0(t, err)
	recoverAll(t, journals)
	if _, err := os.Lstat(left); err != nil {
		t.Errorf("while a journal is written: %v", err)
	}
	must0(t, lock.Close())
	recoverAll(t, journals)
	if _, err := os.Lstat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is left: %v", err)
	}
}
