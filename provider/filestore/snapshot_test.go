package filestore

import (
	"strings"
	"testing"

	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

// TestOldDatabase opens a database of version 1, whose workspaces go on.
func TestOldDatabase(t *testing.T) {
	dir := t.TempDir()
	p := newProvider(t, &Config{Dir: dir})
	ws := open(t, p)
	if _, err := ws.FS.Write(t.Context(), "f", strings.NewReader("text"), &driver.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	err := p.opened.change(t.Context(), true, func(t *tx) error {
		return t.exec("ALTER TABLE workspace DROP COLUMN session; ALTER TABLE workspace DROP COLUMN origin; PRAGMA user_version = 1")
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	p = newProvider(t, &Config{Dir: dir, Snapshots: snapshot.Open(snapshot.Dir(t.TempDir()), nil)})
	again, err := p.Resolve(t.Context(), ws.Ref)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := again.FS.Stat(t.Context(), "f", &driver.StatOptions{}); err != nil || info.Size != 4 {
		t.Errorf("after the change of version: %+v, %v", info, err)
	}
	if again.Life.Snapshot != nil {
		t.Error("a ref without snapshots has them")
	}
	fresh := open(t, p)
	if _, err := fresh.Life.Snapshot.Snapshot(t.Context(), &driver.SnapshotOptions{}); err != nil {
		t.Error(err)
	}
}

// TestSnapshotWhileWritten takes a snapshot of large files that are replaced
// meanwhile: it is of one moment, and leaves nothing in the bucket.
func TestSnapshotWhileWritten(t *testing.T) {
	store := snapshot.Open(snapshot.Dir(t.TempDir()), nil)
	p := newProvider(t, &Config{Dir: t.TempDir(), InlineThreshold: -1, Snapshots: store})
	ws := open(t, p)
	write := func(text string) error {
		for _, name := range []string{"a", "b"} {
			if _, err := ws.FS.Write(t.Context(), name, strings.NewReader(strings.Repeat(text, 1000)), &driver.WriteOptions{}); err != nil {
				return err
			}
		}
		return nil
	}
	if err := write("0"); err != nil {
		t.Fatal(err)
	}
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			if err := write(string(rune('a' + i%20))); err != nil {
				done <- err
				return
			}
		}
	}()
	for range 10 {
		info, err := ws.Life.Snapshot.Snapshot(t.Context(), &driver.SnapshotOptions{})
		if err != nil {
			t.Error(err)
			break
		}
		if !info.Frozen || info.Files != 2 || info.Bytes != 2000 {
			t.Errorf("the snapshot is %+v", info)
		}
	}
	close(stop)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := p.Sweep(t.Context(), []string{strings.Trim(string(ws.Ref.Payload[7:27]), `"`)}); err != nil {
		t.Fatal(err)
	}
	var nodes, garbage int
	if err := p.opened.view(t.Context(), func(t *tx) error {
		if err := t.QueryRowContext(t.ctx, "SELECT count(*) FROM node").Scan(&nodes); err != nil {
			return err
		}
		return t.QueryRowContext(t.ctx, "SELECT count(*) FROM garbage").Scan(&garbage)
	}); err != nil {
		t.Fatal(err)
	}
	if nodes != 3 || garbage != 0 {
		t.Errorf("%d rows and %d objects to delete are left, want the root, two files and none", nodes, garbage)
	}
}
