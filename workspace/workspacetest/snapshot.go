package workspacetest

import (
	"context"
	"io"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

var snapshotChecks = []Check{
	{"Snapshot/describes", needSnapshots, snapshotDescribes},
	{"Snapshot/fork", needSnapshots, snapshotFork},
	{"Snapshot/outlives", needSnapshots, snapshotOutlives},
	{"Snapshot/fork-of-fork", needSnapshots, snapshotForkOfFork},
	{"Snapshot/sessions", needSnapshots, snapshotSessions},
	{"Snapshot/list-and-delete", needSnapshots, snapshotListDelete},
	{"Snapshot/files", needSnapshots, snapshotFiles},
	{"Snapshot/cancelled", needSnapshots, snapshotCancelled},
	{"Snapshot/rollback", needRollback, snapshotRollback},
	{"Snapshot/rollback-read-only", allNeeds(needRollback, needReadOnly, needUpdate), snapshotRollbackReadOnly},
	{"Snapshot/seal", needSeal, snapshotSeal},
	{"Snapshot/open-again", allNeeds(needSnapshots, needPersistence), snapshotOpenAgain},
}

// openWithTree opens a workspace with a tree in it.
func (e *Env) openWithTree(t testing.TB, mods ...func(*driver.Spec)) *testWorkspace {
	t.Helper()
	p := e.open(t, mods...)
	p.write(t, "a.txt", "one\n")
	p.write(t, "dir/deep/b.txt", "two\n")
	wantNil(t, "Mkdir", p.Mkdir(t.Context(), "empty", nil))
	if p.d.FS.Symlink != nil {
		wantNil(t, "Symlink", p.Symlink(t.Context(), "a.txt", "link"))
	}
	return p
}

func (p *testWorkspace) takeSnapshot(t testing.TB, opts *driver.SnapshotOptions) driver.SnapshotInfo {
	t.Helper()
	info, err := p.Snapshot(t.Context(), opts)
	if err != nil {
		t.Fatalf("Snapshot: %v", err)
	}
	return info
}

func fromSnapshot(id string) func(*driver.Spec) {
	return func(s *driver.Spec) { s.From = driver.Source{Snapshot: id} }
}

func snapshotDescribes(t testing.TB, e *Env) {
	p := e.openWithTree(t, func(s *driver.Spec) { s.Session.ID = "s1" })
	info := p.takeSnapshot(t, &driver.SnapshotOptions{Name: "first", Labels: map[string]string{"why": "test"}})
	if !driver.ValidID(info.ID) || info.Name != "first" || info.Labels["why"] != "test" || info.Provider == "" ||
		info.Workspace != p.spec.ID || info.Session != "s1" || info.Created.IsZero() || info.Digest == "" {
		t.Errorf("the snapshot is described as %+v", info)
	}
	if again := p.takeSnapshot(t, nil); again.ID == info.ID || again.Digest != info.Digest {
		t.Errorf("a second snapshot of the same is %s %s, the first %s %s", again.ID, again.Digest, info.ID, info.Digest)
	}
	p.write(t, "a.txt", "changed\n")
	if changed := p.takeSnapshot(t, nil); changed.Digest == info.Digest {
		t.Error("a snapshot after a change has the same digest")
	}
}

func snapshotFork(t testing.TB, e *Env) {
	p := e.openWithTree(t)
	want := p.treeDigest(t)
	info := p.takeSnapshot(t, nil)
	p.write(t, "a.txt", "later\n")
	fork := e.open(t, fromSnapshot(info.ID))
	if got := fork.treeDigest(t); got != want {
		t.Errorf("the fork has the digest %s, want %s", got, want)
	}
	fork.wantContent(t, "dir/deep/b.txt", "two\n")
	fork.write(t, "only-here", "x")
	fork.write(t, "a.txt", "fork\n")
	wantNil(t, "Remove", fork.Remove(t.Context(), "dir", &driver.RemoveOptions{Recursive: true}))
	p.wantContent(t, "a.txt", "later\n")
	p.wantContent(t, "dir/deep/b.txt", "two\n")
	if _, err := p.Stat(t.Context(), "only-here", nil); fault.Of(err) != fault.NotFound {
		t.Errorf("what the fork wrote is in the workspace it came from: %v", err)
	}
	second := e.open(t, fromSnapshot(info.ID))
	if got := second.treeDigest(t); got != want {
		t.Errorf("a second fork has the digest %s, want %s", got, want)
	}
}

func snapshotOutlives(t testing.TB, e *Env) {
	p := e.openWithTree(t)
	want := p.treeDigest(t)
	info := p.takeSnapshot(t, nil)
	wantNil(t, "Destroy", p.Destroy(t.Context()))
	wantNil(t, "Sweep", e.sharedProvider(t).Sweep(t.Context(), nil))
	if e.Traits.Persists() {
		e.restartProvider(t)
	}
	if got := e.open(t, fromSnapshot(info.ID)).treeDigest(t); got != want {
		t.Errorf("after its end the workspace comes back with the digest %s, want %s", got, want)
	}
}

func snapshotForkOfFork(t testing.TB, e *Env) {
	fork := e.open(t, fromSnapshot(e.openWithTree(t).takeSnapshot(t, nil).ID))
	fork.write(t, "a.txt", "in the fork\n")
	wantNil(t, "Remove", fork.Remove(t.Context(), "dir/deep", &driver.RemoveOptions{Recursive: true}))
	fork.write(t, "new/file", "new\n")
	want := fork.treeDigest(t)
	child := e.open(t, fromSnapshot(fork.takeSnapshot(t, nil).ID))
	if got := child.treeDigest(t); got != want {
		t.Errorf("the fork of the fork has the digest %s, want %s", got, want)
	}
	child.wantContent(t, "a.txt", "in the fork\n")
	if _, err := child.Stat(t.Context(), "dir/deep", nil); fault.Of(err) != fault.NotFound {
		t.Errorf("what was removed in the fork is in its child: %v", err)
	}
}

func snapshotSessions(t testing.TB, e *Env) {
	mine := e.openWithTree(t, func(s *driver.Spec) { s.Session.ID = "mine" })
	theirs := e.open(t, func(s *driver.Spec) { s.Session.ID = "theirs" })
	info := mine.takeSnapshot(t, nil)
	other := func(s *driver.Spec) { s.Session.ID, s.From.Snapshot = "theirs", info.ID }
	if _, err := e.sharedProvider(t).Open(t.Context(), e.spec(other)); fault.Of(err) != fault.PermissionDenied {
		t.Errorf("Open from a snapshot of another session: %v, want PermissionDenied", err)
	}
	if err := theirs.DeleteSnapshot(t.Context(), info.ID, nil); fault.Of(err) != fault.PermissionDenied {
		t.Errorf("deleting a snapshot of another session: %v, want PermissionDenied", err)
	}
	if list, err := theirs.Snapshots(t.Context(), nil); err != nil || len(list) != 0 {
		t.Errorf("the list of another session has %v, %v", list, err)
	}
	e.open(t, other, func(s *driver.Spec) { s.From.CrossSession = true }).wantContent(t, "a.txt", "one\n")
	list, err := theirs.Snapshots(t.Context(), &driver.ListSnapshotsOptions{SnapshotAccess: driver.SnapshotAccess{CrossSession: true}})
	if err != nil || len(list) != 1 || list[0].ID != info.ID {
		t.Errorf("asked for, the list of another session has %v, %v", list, err)
	}
}

func snapshotListDelete(t testing.TB, e *Env) {
	p := e.openWithTree(t)
	first, second := p.takeSnapshot(t, nil), p.takeSnapshot(t, &driver.SnapshotOptions{Name: "second"})
	list, err := p.Snapshots(t.Context(), nil)
	if err != nil || len(list) != 2 || list[0].ID != second.ID || list[1].ID != first.ID {
		t.Fatalf("the list is %+v, %v, want the newest first", list, err)
	}
	if list, err := p.Snapshots(t.Context(), &driver.ListSnapshotsOptions{Limit: 1}); err != nil || len(list) != 1 || list[0].ID != second.ID {
		t.Errorf("the newest one is %+v, %v", list, err)
	}
	wantNil(t, "DeleteSnapshot", p.DeleteSnapshot(t.Context(), first.ID, nil))
	if err := p.DeleteSnapshot(t.Context(), first.ID, nil); fault.Of(err) != fault.NotFound {
		t.Errorf("deleting what is gone: %v, want NotFound", err)
	}
	if _, err := e.sharedProvider(t).Open(t.Context(), e.spec(fromSnapshot(first.ID))); fault.Of(err) != fault.NotFound && fault.Of(err) != fault.Failed {
		t.Errorf("Open from a snapshot that is gone: %v, want NotFound or Failed", err)
	}
	if list, err := p.Snapshots(t.Context(), nil); err != nil || len(list) != 1 {
		t.Errorf("after deleting one the list is %+v, %v", list, err)
	}
}

func snapshotFiles(t testing.TB, e *Env) {
	p := e.openWithTree(t)
	info := p.takeSnapshot(t, &driver.SnapshotOptions{Name: "named"})
	p.write(t, "a.txt", "later\n")
	for id, want := range map[string]string{info.ID: "one\n", "named": "one\n", "": "later\n"} {
		files, err := p.SnapshotFiles(t.Context(), id, nil)
		if err != nil {
			t.Fatalf("SnapshotFiles(%q): %v", id, err)
		}
		r, _, err := files.Read(t.Context(), "a.txt", &driver.ReadOptions{})
		if err != nil {
			t.Fatalf("Read: %v", err)
		}
		got, err := io.ReadAll(r)
		if err != nil || string(got) != want {
			t.Errorf("a.txt of %q is %q, %v, want %q", id, got, err, want)
		}
		wantNil(t, "Close", r.Close())
		if err := files.Remove(t.Context(), "a.txt", &driver.RemoveOptions{}); fault.Of(err) != fault.PermissionDenied {
			t.Errorf("a file of a snapshot could be removed: %v", err)
		}
	}
	now, err := p.SnapshotFiles(t.Context(), "", nil)
	if err != nil {
		t.Fatalf("SnapshotFiles: %v", err)
	}
	p.write(t, "added.txt", "since")
	if _, err := now.Stat(t.Context(), "added.txt", &driver.StatOptions{}); fault.Of(err) != fault.NotFound {
		t.Errorf("the present state changed for its reader: %v, want NotFound", err)
	}
	if _, err := p.SnapshotFiles(t.Context(), "no-such", nil); fault.Of(err) != fault.NotFound {
		t.Errorf("the files of no snapshot: %v, want NotFound", err)
	}
}

func snapshotCancelled(t testing.TB, e *Env) {
	p := e.openWithTree(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.d.Life.Snapshot.Snapshot(ctx, &driver.SnapshotOptions{}); fault.Of(err) != fault.Canceled {
		t.Errorf("a cancelled snapshot: %v, want Canceled", err)
	}
	if list, err := p.Snapshots(t.Context(), nil); err != nil || len(list) != 0 {
		t.Errorf("it left %v, %v", list, err)
	}
}

func snapshotRollback(t testing.TB, e *Env) {
	p := e.openWithTree(t)
	want := p.treeDigest(t)
	info := p.takeSnapshot(t, nil)
	p.write(t, "a.txt", "changed\n")
	p.write(t, "added/file", "x")
	wantNil(t, "Remove", p.Remove(t.Context(), "dir", &driver.RemoveOptions{Recursive: true}))
	p.write(t, "dir", "a file now")
	changed := p.treeDigest(t)
	before, err := p.Rollback(t.Context(), info.ID, nil)
	if err != nil {
		t.Fatalf("Rollback: %v", err)
	}
	if got := p.treeDigest(t); got != want {
		t.Errorf("after Rollback the digest is %s, want %s", got, want)
	}
	if _, err := p.Rollback(t.Context(), before.ID, nil); err != nil {
		t.Fatalf("Rollback to what was before: %v", err)
	}
	if got := p.treeDigest(t); got != changed {
		t.Errorf("after going back again the digest is %s, want %s", got, changed)
	}
	p.wantContent(t, "dir", "a file now")
}

func snapshotRollbackReadOnly(t testing.TB, e *Env) {
	p := e.openWithTree(t)
	info := p.takeSnapshot(t, nil)
	p.write(t, "a.txt", "changed\n")
	if _, err := p.d.Life.Update(t.Context(), driver.Policy{ReadOnly: true}); err != nil {
		t.Fatalf("Update: %v", err)
	}
	if _, err := p.d.Life.Snapshot.Rollback(t.Context(), info.ID, &driver.SnapshotAccess{}); fault.Of(err) != fault.PermissionDenied {
		t.Errorf("Rollback of a read-only workspace: %v, want PermissionDenied", err)
	}
	p.wantContent(t, "a.txt", "changed\n")
}

func snapshotSeal(t testing.TB, e *Env) {
	fork := e.open(t, fromSnapshot(e.openWithTree(t).takeSnapshot(t, nil).ID))
	fork.write(t, "a.txt", "sealed\n")
	want := fork.treeDigest(t)
	info, err := fork.Seal(t.Context(), &driver.SnapshotOptions{Name: "sealed"})
	if err != nil {
		t.Fatalf("Seal: %v", err)
	}
	for range 2 {
		child := e.open(t, fromSnapshot(info.ID))
		if got := child.treeDigest(t); got != want {
			t.Errorf("a child of what was sealed has the digest %s, want %s", got, want)
		}
		child.write(t, "a.txt", "child\n")
	}
	fork.wantContent(t, "a.txt", "sealed\n")
}

// snapshotOpenAgain opens a fork again, as after a crash, after its snapshot was
// deleted, unless the snapshot is kept for it.
func snapshotOpenAgain(t testing.TB, e *Env) {
	p := e.openWithTree(t)
	info := p.takeSnapshot(t, nil)
	fork := e.open(t, fromSnapshot(info.ID))
	if err := p.DeleteSnapshot(t.Context(), info.ID, nil); err != nil && fault.Of(err) != fault.WrongState {
		t.Fatalf("DeleteSnapshot: %v, want none, or %v since a workspace started from it", err, fault.WrongState)
	}
	fork.write(t, "a.txt", "mine\n")
	e.restartProvider(t)
	e.openSpec(t, fork.spec).wantContent(t, "a.txt", "mine\n")
}
