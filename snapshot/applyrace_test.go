package snapshot

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
)

// openTree calls opened each time a file of it is opened, and counts listings.
type openTree struct {
	Tree
	opened   func()
	listings int
}

func (t *openTree) Root(ctx context.Context) (Directory, error) {
	dir, err := t.Tree.Root(ctx)
	return &openDirectory{dir, t}, err
}

type openDirectory struct {
	Directory
	t *openTree
}

func (d *openDirectory) Open(ctx context.Context, n *Node) (io.ReadCloser, error) {
	d.t.opened()
	return d.Directory.Open(ctx, n)
}

func (d *openDirectory) Nodes(ctx context.Context) ([]Node, error) {
	d.t.listings++
	return d.Directory.Nodes(ctx)
}

func (d *openDirectory) Dir(ctx context.Context, n *Node) (Directory, error) {
	sub, err := d.Directory.Dir(ctx, n)
	return &openDirectory{sub, d.t}, err
}

// TestApplyDuringEdit edits the destination at each moment of an apply at which a file of
// the workspace is read: the edit is merged, or the apply is a conflict that writes
// nothing.
func TestApplyDuringEdit(t *testing.T) {
	const text = "1\n2\n3\n4\n5\n"
	base := map[string]string{"aa": text, "d/x": "1", "z": "1"}
	theirs := map[string]string{"aa": "AGENT\n2\n3\n4\n5\n", "z": "2"} // d is removed
	edits := map[string]struct{ name, text string }{
		"of a file that is merged":           {"aa", "1\n2\n3\n4\nHOST EDIT\n"},
		"in a directory that is removed":     {"d/new", "HOST EDIT"},
		"of a file that is replaced at last": {"z", "HOST EDIT"},
	}
	for what, edit := range edits {
		t.Run(what, func(t *testing.T) {
			conflicts := 0
			for at := 1; ; at++ {
				dir := plant(t, base)
				opens := 0
				tree := &openTree{Tree: HostDir(plant(t, theirs), nil), opened: func() {
					if opens++; opens == at {
						must0(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, edit.name)), 0o755))
						must0(t, os.WriteFile(filepath.Join(dir, edit.name), []byte(edit.text), 0o644))
					}
				}}
				s := Open(Dir(t.TempDir()), nil)
				res, err := Apply(t.Context(), HostDir(plant(t, base), nil), tree, dir, &ApplyOptions{Undo: s})
				if opens < at {
					break // the edit did not take place
				}
				got := harvest(t, dir)
				if !strings.Contains(got[edit.name], "HOST EDIT") {
					t.Errorf("after file %d: %v, and the edit is lost: %v", at, err, got)
				}
				wrote := got["aa"] == theirs["aa"] || strings.HasPrefix(got["aa"], "AGENT")
				if failed := err != nil || !res.Done; failed == wrote {
					t.Errorf("after file %d: %v, %+v, with %v", at, err, res, got)
				}
				if err == nil {
					continue
				}
				conflicts++
				list, _ := s.List(t.Context())
				if fault.Of(err) != fault.Conflict || !strings.Contains(err.Error(), edit.name) || len(list) > 0 {
					t.Errorf("after file %d: %v, want %v of %s; %d snapshots are left", at, err, fault.Conflict, edit.name, len(list))
				}
			}
			if conflicts == 0 {
				t.Errorf("no edit was late enough to be a conflict")
			}
		})
	}
}

// TestApplyWhileTheWorkspaceChanges changes files of the workspace at each moment of an apply
// at which one is read: what was shown is applied, or it is a conflict that writes nothing.
func TestApplyWhileTheWorkspaceChanges(t *testing.T) {
	base := map[string]string{"aa": "1\n2\n3\n4\n5\n", "z": "1"}
	theirs := map[string]string{"aa": "GOOD\n2\n3\n4\n5\n", "n": "GOOD", "z": "GOOD"}
	shown := map[string]*Side{}
	d, err := Diff(t.Context(), HostDir(plant(t, base), nil), HostDir(plant(t, theirs), nil), nil)
	must0(t, err)
	for _, ch := range d.Changes {
		shown[ch.Path] = ch.New
	}
	for name := range theirs {
		t.Run(name, func(t *testing.T) {
			conflicts := 0
			for at := 0; ; at++ {
				ours := map[string]string{"aa": "1\n2\n3\n4\nHOST\n", "z": "1"} // aa is merged
				dir, work, opens := plant(t, ours), plant(t, theirs), 0
				change := func() {
					must0(t, os.WriteFile(filepath.Join(work, name), []byte("EVIL\n2\n3\n4\n5\n")[:len(theirs[name])], 0o644))
				}
				if at == 0 { // after it was shown
					change()
				}
				tree := &openTree{Tree: HostDir(work, nil), opened: func() {
					if opens++; opens == at {
						change()
					}
				}}
				res, err := Apply(t.Context(), HostDir(plant(t, base), nil), tree, dir, &ApplyOptions{MergeOptions: MergeOptions{Expect: shown}})
				if opens < at {
					break
				}
				got := harvest(t, dir)
				if strings.Contains(fmt.Sprint(got), "EVIL") || err == nil && (!res.Done || strings.Count(fmt.Sprint(got), "GOOD") != len(theirs)) {
					t.Errorf("after file %d: %v, %v", at, err, got)
				}
				if err != nil {
					conflicts++
					if fault.Of(err) != fault.Conflict || strings.Contains(fmt.Sprint(got), "GOOD") {
						t.Errorf("after file %d: %v, %v", at, err, got)
					}
				}
			}
			if conflicts == 0 {
				t.Error("no change was a conflict")
			}
		})
	}
}

// TestApplyTwice applies a change again to a file that has another change of the user as well:
// there is nothing to write, and nothing to undo.
func TestApplyTwice(t *testing.T) {
	base, dir := HostDir(plant(t, map[string]string{"a": "1\n2\n3\n4\n5\n"}), nil), plant(t, map[string]string{"a": "HOST\n2\n3\n4\n5\n"})
	theirs, s := HostDir(plant(t, map[string]string{"a": "1\n2\n3\n4\nAGENT\n"}), nil), Open(Dir(t.TempDir()), nil)
	for i, want := range []int{1, 0} {
		res, err := Apply(t.Context(), base, theirs, dir, &ApplyOptions{Undo: s})
		must0(t, err)
		if len(res.Applied) != want || !res.Done || (res.Undo != "") != (want > 0) {
			t.Errorf("apply %d: %+v, %+v", i, res, res.Merged)
		}
	}
}

// TestApplyAsRoot applies to a directory of another user as root, and takes it back: the files
// are that user's.
func TestApplyAsRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: user: it is not root")
	}
	const uid = 4711
	base, dir := HostDir(plant(t, map[string]string{"a": "1", "b": "1"}), nil), plant(t, map[string]string{"a": "1", "b": "1"})
	for _, name := range []string{".", "a", "b"} {
		must0(t, os.Chown(filepath.Join(dir, name), uid, uid))
	}
	s := Open(Dir(t.TempDir()), nil)
	owned := func(names ...string) {
		t.Helper()
		for _, name := range names {
			var st unix.Stat_t
			if err := unix.Lstat(filepath.Join(dir, name), &st); err != nil || st.Uid != uid || st.Gid != uid {
				t.Errorf("%s has the owner %d:%d, %v", name, st.Uid, st.Gid, err)
			}
		}
	}
	res, err := Apply(t.Context(), base, HostDir(plant(t, map[string]string{"a": "2", "d/n": "2"}), nil), dir, &ApplyOptions{Undo: s})
	must0(t, err)
	owned("a", "d", "d/n")
	_, err = Undo(t.Context(), s, res.Undo, dir, nil)
	must0(t, err)
	owned("a", "b")
}

// TestDiffListsOnce compares the texts of many files of one directory: the number of listings
// does not grow with the number of files.
func TestDiffListsOnce(t *testing.T) {
	counted := func(files int) int {
		added := map[string]string{}
		for i := range files {
			added[fmt.Sprintf("d/%d", i)] = "1\n"
		}
		to := &openTree{Tree: HostDir(plant(t, added), nil), opened: func() {}}
		d, err := Diff(t.Context(), Empty, to, &DiffOptions{Text: true})
		if err != nil || d.Stats.LinesAdded != files {
			t.Errorf("%+v, %v", d.Stats, err)
		}
		return to.listings
	}
	if few, many := counted(5), counted(100); few != many {
		t.Errorf("%d listings for 5 files, %d for 100", few, many)
	}
}

// TestApplyListsOnce changes many files of one directory in trees that are listed over
// the network: the number of listings does not grow with the number of files.
func TestApplyListsOnce(t *testing.T) {
	counted := func(files int) int {
		base, theirs := map[string]string{}, map[string]string{}
		for i := range files {
			base[fmt.Sprintf("d/%d", i)], theirs[fmt.Sprintf("d/%d", i)] = "1\n", "2\n"
		}
		from, to := &openTree{Tree: HostDir(plant(t, base), nil), opened: func() {}}, &openTree{Tree: HostDir(plant(t, theirs), nil), opened: func() {}}
		dir := plant(t, base)
		_, err := Apply(t.Context(), from, to, dir, nil)
		must0(t, err)
		if got := harvest(t, dir)["d/1"]; got != "2\n" {
			t.Errorf("d/1 became %q", got)
		}
		return from.listings + to.listings
	}
	if few, many := counted(5), counted(100); few != many {
		t.Errorf("%d listings for 5 files, %d for 100", few, many)
	}
}
