package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// mounts reports whether what is imported can be a mount here.
func mounts() bool { return os.Getuid() == 0 && here(driver.IsolationNamespaces) }

func bringIn(t testing.TB, ws *driver.Workspace, dir, name string, opts driver.ImportOptions) driver.ImportResult {
	t.Helper()
	res, err := ws.FS.Import(t.Context(), dir, name, &opts)
	if err != nil {
		t.Fatal(err)
	}
	want := driver.ImportCopy
	if mounts() && opts.Mount {
		want = driver.ImportMount
	}
	if res.Method != want {
		t.Errorf("imported by %s, want %s", res.Method, want)
	}
	return res
}

func TestImportByMountKeepsTheSourceAsItIs(t *testing.T) {
	source, data := t.TempDir(), t.TempDir()
	put(t, filepath.Join(source, "a/one"), "1")
	put(t, filepath.Join(source, "a/two"), "2")
	put(t, filepath.Join(source, "run.sh"), "echo ran\n")
	if err := os.Symlink("a/one", filepath.Join(source, "link")); err != nil {
		t.Fatal(err)
	}
	before := digest(t, source)
	p := newProvider(t, data)
	ws := open(t, p)
	if res := bringIn(t, ws, source, "lib", driver.ImportOptions{Mount: true}); res.Files != 3 || res.Symlinks != 1 || res.Dirs != 1 {
		t.Errorf("%+v", res)
	}
	if got := output(t, ws, "cat lib/a/one lib/link; sh lib/run.sh; echo changed > lib/a/one; rm lib/a/two; echo new > lib/new; ls lib/a"); got != "11ran\none" {
		t.Errorf("a command sees %q", got)
	}
	if err := write(ws, t, "lib/a/three", "3"); err != nil {
		t.Fatal(err)
	}
	if got := read(t, ws, "lib/a/one"); got != "changed\n" {
		t.Errorf("what a command wrote is %q", got)
	}
	if err := write(ws, t, "outside", "o"); err != nil {
		t.Fatal(err)
	}
	// A name that is the mount's, or of what holds it, can be changed.
	for _, move := range [][2]string{{"lib", "moved"}, {"moved/a/three", "three"}, {"outside", "moved/outside"}} {
		if err := ws.FS.Rename(t.Context(), move[0], move[1], &driver.RenameOptions{}); err != nil {
			t.Errorf("rename %v: %v", move, err)
		}
	}
	if got := output(t, ws, "cat moved/a/one three moved/outside moved/new; mkdir dir"); got != "changed\n3onew" {
		t.Errorf("after it was renamed a command sees %q", got)
	}
	if err := ws.FS.Rename(t.Context(), "moved", "dir/lib", &driver.RenameOptions{}); err != nil {
		t.Fatal(err)
	}
	output(t, ws, "mv dir elsewhere") // the guest's own processes can move what holds a mount
	if err := ws.Life.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	next, err := newProvider(t, data).Resolve(t.Context(), ws.Ref)
	if err != nil {
		t.Fatal(err)
	}
	if got := read(t, next, "elsewhere/lib/a/one"); got != "changed\n" {
		t.Errorf("another process reads %q", got)
	}
	if err := guestOf(t, p, next).Kill(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if mounts() {
		eventually(t, "noticed", func() bool {
			_, err := next.FS.Stat(t.Context(), "elsewhere/lib", &driver.StatOptions{})
			return fault.Of(err) == fault.Evicted
		})
	}
	if got := read(t, next, "elsewhere/lib/new"); got != "new\n" {
		t.Errorf("after the guest was killed: %q", got)
	}
	if err := next.FS.Remove(t.Context(), "elsewhere", &driver.RemoveOptions{Recursive: true}); err != nil {
		t.Fatal(err)
	}
	bringIn(t, next, source, "again", driver.ImportOptions{Mount: true})
	if got := read(t, next, "again/a/two"); got != "2" {
		t.Errorf("imported again: %q", got)
	}
	if after := digest(t, source); after != before {
		t.Errorf("the source was changed: %s", after)
	}
	if mounts() {
		if left, err := os.ReadDir(p.store.Path(idOf(t, next), importsName)); err != nil || len(left) != 1 { // one layer
			t.Errorf("what was removed left %v, %v", left, err)
		}
	}
	if err := next.Life.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := digest(t, source); after != before {
		t.Errorf("the source was changed when the workspace ended: %s", after)
	}
}

func TestImportReadOnlyHoldsAgainstChmod(t *testing.T) {
	if !mounts() {
		t.Skip("skipped: host: read-only by mode alone: it, or this level, has no mounts for that")
	}
	source := t.TempDir()
	put(t, filepath.Join(source, "f"), "x")
	for _, mount := range []bool{false, true} {
		ws := open(t, newProvider(t, t.TempDir()))
		bringIn(t, ws, source, "lib", driver.ImportOptions{ReadOnly: true, Mount: mount})
		res := script(t, ws, "chmod u+w lib lib/f; echo y > lib/f; rm -rf lib; cat lib/f")
		if string(res.Stdout) != "x" || !strings.Contains(string(res.Stderr), "Read-only file system") {
			t.Errorf("mount %v: %+v", mount, res)
		}
		if err := write(ws, t, "lib/f", "y"); fault.Of(err) != fault.PermissionDenied && fault.Of(err) != fault.Unsupported {
			t.Errorf("mount %v: a write gives %v", mount, err)
		}
		if err := ws.FS.Remove(t.Context(), "lib", &driver.RemoveOptions{Recursive: true}); err != nil {
			t.Errorf("mount %v: the host can't remove it: %v", mount, err)
		}
		if got := output(t, ws, "ls"); got != "" {
			t.Errorf("mount %v: after it was removed there is %q", mount, got)
		}
	}
}

// What was written read-only entry by entry, as an archive is, is held likewise.
func TestProtectHoldsAgainstChmod(t *testing.T) {
	if !mounts() {
		t.Skip("skipped: host: read-only by mode alone: it, or this level, has no mounts for that")
	}
	ws := open(t, newProvider(t, t.TempDir()))
	if err := ws.FS.Mkdir(t.Context(), "lib", &driver.MkdirOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := write(ws, t, "lib/f", "x"); err != nil {
		t.Fatal(err)
	}
	if err := ws.FS.Protect(t.Context(), "lib"); err != nil {
		t.Fatal(err)
	}
	if err := ws.FS.Rename(t.Context(), "lib", "moved", &driver.RenameOptions{}); err != nil {
		t.Fatal(err)
	}
	res := script(t, ws, "chmod u+w moved moved/f; echo y > moved/f; rm -rf moved; cat moved/f")
	if string(res.Stdout) != "x" || !strings.Contains(string(res.Stderr), "Read-only file system") {
		t.Errorf("%+v", res)
	}
}

func TestSnapshotHasWhatMountsShow(t *testing.T) {
	source := t.TempDir()
	put(t, filepath.Join(source, "f"), "x")
	p := newProvider(t, t.TempDir())
	ws := open(t, p)
	bringIn(t, ws, source, "lib", driver.ImportOptions{Mount: true})
	if err := write(ws, t, "lib/g", "y"); err != nil {
		t.Fatal(err)
	}
	snap, err := ws.Life.Snapshot.Snapshot(t.Context(), &driver.SnapshotOptions{})
	if err != nil {
		t.Fatal(err)
	}
	fork := open(t, p, func(s *driver.Spec) { s.From.Snapshot, s.From.CrossSession = snap.ID, true })
	if got := read(t, fork, "lib/f") + read(t, fork, "lib/g"); got != "xy" {
		t.Errorf("a fork has %q", got)
	}
	if err := write(ws, t, "lib/f", "changed"); err != nil {
		t.Fatal(err)
	}
	if _, err := ws.Life.Snapshot.Rollback(t.Context(), snap.ID, &driver.SnapshotAccess{}); err != nil {
		t.Fatal(err)
	}
	if got := read(t, ws, "lib/f"); got != "x" {
		t.Errorf("rolled back: %q", got)
	}
}
