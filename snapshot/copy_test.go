package snapshot

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// TestCopy copies a snapshot over two layers to another store, where it is whole
// and lacks what is known to hold credentials, unless that is asked for.
func TestCopy(t *testing.T) {
	bottom := plant(t, map[string]string{"keep": "1", "gone": "2", "dir/under": "3", "dir/other": "4"})
	middle := plant(t, map[string]string{"dir/under": "changed", "new": "5"})
	must0(t, makeWhiteoutAt(middle, "gone"))
	upper := plant(t, map[string]string{"top": "6", ".env": "SECRET=1"})
	from, to := Open(Memory(), nil), Open(Memory(), nil)
	base := DirsBase([]string{middle, bottom})
	m := take(t, from, upper, &TakeOptions{Base: base, Info: driver.SnapshotInfo{Name: "n", Workspace: "w"}})
	want := plant(t, map[string]string{"keep": "1", "dir/under": "changed", "dir/other": "4", "new": "5", "top": "6"})
	for _, credentials := range []bool{false, true} {
		got, err := from.Copy(t.Context(), m.ID, to, &CopyOptions{Credentials: credentials})
		must0(t, err)
		if got.ID == m.ID || got.Base != (Base{}) || got.Name != "n" {
			t.Errorf("the copy is %+v", got)
		}
		if credentials {
			must0(t, os.WriteFile(filepath.Join(want, ".env"), []byte("SECRET=1"), 0o644))
		}
		digest, err := Digest(t.Context(), HostDir(want, nil))
		must0(t, err)
		if got.Digest != digest {
			t.Errorf("with credentials %v the copy has another digest: %q", credentials, describe(t, to.StoredTree(got.Root)))
		}
		if (len(got.LeftOut) == 0) != credentials {
			t.Errorf("with credentials %v: left out %q", credentials, got.LeftOut)
		}
	}
	sound(t, to)
	if _, err := from.Copy(t.Context(), driver.NewID(), to, nil); fault.Of(err) != fault.NotFound {
		t.Errorf("one that is not there: %v", err)
	}
	must0(t, os.RemoveAll(middle))
	if _, err := from.Copy(t.Context(), m.ID, to, nil); fault.Of(err) != fault.NotFound {
		t.Errorf("one whose layer is gone: %v", err)
	}
}

func makeWhiteoutAt(dir, name string) error {
	fd, err := openRetry(-100, dir, 0)
	if err != nil {
		return err
	}
	return makeWhiteout(fd, name)
}

// TestPruneEach keeps so many of each workspace, and all templates.
func TestPruneEach(t *testing.T) {
	s := Open(Memory(), nil)
	dir := plant(t, map[string]string{"f": "x"})
	want := map[string]int{}
	for _, ws := range []string{"a", "b"} {
		for i := range 4 {
			labels := map[string]string{}
			if i == 0 {
				labels[TemplateLabel] = "base-" + ws
			}
			take(t, s, dir, &TakeOptions{Info: driver.SnapshotInfo{Workspace: ws, Labels: labels}})
			time.Sleep(time.Millisecond)
		}
		want[ws] = 1 + 2 // a template, and the newest two
	}
	gone, err := s.PruneEach(t.Context(), Retention{Keep: 2}, nil)
	must0(t, err)
	if len(gone) != 2 {
		t.Errorf("it forgot %d, want 2", len(gone))
	}
	left, err := s.List(t.Context())
	must0(t, err)
	got := map[string]int{}
	for _, m := range left {
		got[m.Workspace]++
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("left of each -want +got:\n%s", diff)
	}
	if gone, err := s.PruneEach(t.Context(), Retention{MaxAge: time.Nanosecond}, func(m *Manifest) bool { return m.Workspace == "a" }); err != nil || len(gone) != 2 {
		t.Errorf("by age it forgot %d of a, %v, want 2", len(gone), err)
	}
}

func TestBaseNamesDirectories(t *testing.T) {
	for _, dirs := range [][]string{{"/a"}, {"/a:b", "/c,d"}, {"/\"[", "/\n", "/z"}} {
		got, err := DirsBase(dirs).Dirs()
		must0(t, err)
		if diff := cmp.Diff(dirs, got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
	for _, b := range []Base{{Kind: "dir", Name: "relative"}, {Kind: "dir", Name: `["x"]`}, {Kind: "dir", Name: `[`}, {Kind: "dir", Name: `[]`}, {Kind: "other", Name: "/x"}} {
		if _, err := b.Dirs(); fault.Of(err) != fault.Unsupported {
			t.Errorf("%+v: %v, want Unsupported", b, err)
		}
	}
}

func TestPathSet(t *testing.T) {
	s := newPathSet([]string{"a/b", "c", "a.x"})
	for name, want := range map[string][2]bool{
		"a": {false, true}, "a/b": {true, false}, "a/b/c": {true, false}, "a/bc": {false, false}, "c": {true, false}, "c/d": {true, false}, "a.x": {true, false}, "b": {false, false},
	} {
		if got := [2]bool{s.contains(name), s.hasBelow(name)}; got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// TestLayersManyAtOnce takes a tree of layers in which many directories are opened
// at the same time.
//
//croft:race
func TestLayersManyAtOnce(t *testing.T) {
	files := map[string]string{}
	for i := range 300 {
		files[fmt.Sprintf("d%d/f%d", i%60, i)] = fmt.Sprint(i)
	}
	dirs := []string{plant(t, map[string]string{"d1/new": "x"}), plant(t, map[string]string{"d2/new": "y"}), plant(t, files)}
	tree, err := DirsBase(dirs).Tree()
	must0(t, err)
	for range 5 {
		s := Open(Memory(), nil)
		m, err := s.Take(t.Context(), Layer(tree, Empty), nil)
		must0(t, err)
		if m.Files != 302 {
			t.Errorf("it has %d files, want 302", m.Files)
		}
	}
}
