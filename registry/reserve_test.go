package registry

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/sqlitetx"
	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// TestDiskFull proves that a store without room says so, and goes on once there
// is some.
func TestDiskFull(t *testing.T) {
	dir := testenv.NeedsTmpfs(t, 3<<20)
	provider := new(memory.Provider)
	store, reg := reopen(t, dir, provider)
	spec := driver.Spec{Kind: provider.Kind(), Labels: map[string]string{"k": "v"}}
	for range 20 {
		if _, err := reg.Create(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
	}
	filler := filepath.Join(dir, "filler")
	fillUp(t, filler)
	var err error
	for range 200 { // the log of the database has some room left
		if _, err = reg.Create(t.Context(), spec); err != nil {
			break
		}
	}
	if fault.Of(err) != fault.ResourceExhausted {
		t.Errorf("Create on a full disk: %v, want ResourceExhausted", err)
	}
	closeStore(t, store)
	fillUp(t, filler)

	// Whoever comes next can read, and remove.
	store, reg = reopen(t, dir, provider)
	recs, err := reg.List(t.Context(), Filter{})
	if err != nil || len(recs) == 0 {
		t.Fatalf("List on a full disk: %d records, %v", len(recs), err)
	}
	for _, rec := range recs {
		if err := reg.Destroy(t.Context(), rec.ID); err != nil {
			t.Fatalf("Destroy on a full disk: %v", err)
		}
	}
	closeStore(t, store)
	fillUp(t, filler)
	store, reg = reopen(t, dir, provider) // by the reserve, which is back
	defer closeStore(t, store)
	if _, err := reg.List(t.Context(), Filter{}); err != nil {
		t.Errorf("List on a disk that is still full: %v", err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if _, err := reg.Create(t.Context(), spec); err != nil {
		t.Errorf("Create once there is room: %v", err)
	}
}

func reopen(t *testing.T, dir string, provider driver.Provider) (Store, *Registry) {
	t.Helper()
	store, err := OpenStore(t.Context(), "sqlite:"+filepath.Join(dir, "croft.db"))
	if err != nil {
		t.Fatal(err)
	}
	reg, err := New(t.Context(), store, workspace.NewMux(provider), nil)
	if err != nil {
		t.Fatal(err)
	}
	return store, reg
}

// fillUp has a file grow until the disk is full.
func fillUp(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	for err == nil {
		_, err = f.Write(make([]byte, 4<<10))
	}
	f.Close()
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk does not fill up: %v", err)
	}
}

func closeStore(t *testing.T, store Store) {
	t.Helper()
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestNoRoomAtAll proves that a store that can't be opened for want of room says
// just that.
func TestNoRoomAtAll(t *testing.T) {
	dir := testenv.NeedsTmpfs(t, 1<<20) // less than a reserve and a database take
	store, _ := reopen(t, dir, new(memory.Provider))
	closeStore(t, store)
	fillUp(t, filepath.Join(dir, "filler"))
	_, err := OpenStore(t.Context(), "sqlite:"+filepath.Join(dir, "croft.db"))
	wantCode(t, "open without room", err, fault.ResourceExhausted)
}

// TestDamagedStore proves that a file that is no database is a lasting failure
// which names it, and that it is left as it is.
func TestDamagedStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "croft.db")
	junk := bytes.Repeat([]byte("no database. "), 1000)
	if err := os.WriteFile(path, junk, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := OpenStore(t.Context(), "sqlite:"+path)
	wantCode(t, "open what is no database", err, fault.Failed)
	if fault.IsTransient(err) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v, want a lasting failure that names the file", err)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, junk) {
		t.Errorf("the file has changed: %v", err)
	}
}

// TestStoreFilesAreTheOwners proves it also for files that were others' to read.
func TestStoreFilesAreTheOwners(t *testing.T) {
	dir := t.TempDir()
	store, _ := reopen(t, dir, new(memory.Provider))
	closeStore(t, store)
	if err := os.Chmod(filepath.Join(dir, "croft.db"), 0o644); err != nil {
		t.Fatal(err)
	}
	store, _ = reopen(t, dir, new(memory.Provider))
	defer closeStore(t, store)
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) < 3 {
		t.Fatalf("%d files, %v", len(entries), err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, %v; want 0600", e.Name(), info.Mode(), err)
		}
	}
}

// TestShutdownOfALockedStore has another program keep the database locked: a
// registry that goes is not held up, and has nothing to complain of.
func TestShutdownOfALockedStore(t *testing.T) {
	for name, hold := range map[string]bool{"held nothing": false, "held a workspace": true} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, nil)
			if id := g.create(nil); hold {
				g.acquireOK(id)
			}
			other, err := sql.Open("sqlite", sqliteDSN(strings.TrimPrefix(g.url, "sqlite:")))
			if err != nil {
				t.Fatal(err)
			}
			defer other.Close()
			tx, err := other.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback()
			ctx, cancel := context.WithTimeout(t.Context(), sqlitetx.MaxWait)
			defer cancel()
			if err := g.Shutdown(ctx); err != nil || ctx.Err() != nil {
				t.Errorf("shut down: %v, %v", err, ctx.Err())
			}
		})
	}
}

// TestHeldByOneWhoDied proves that the message does not name a process that
// nobody will find.
func TestHeldByOneWhoDied(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if got := (Holder{Host: host, PID: cmd.Process.Pid}).describe(); !strings.Contains(got, "died") {
		t.Errorf("one who died: %q", got)
	}
	for _, h := range []Holder{{Host: host, PID: os.Getpid()}, {Host: "elsewhere", PID: cmd.Process.Pid}} {
		if got := h.describe(); strings.Contains(got, "died") {
			t.Errorf("one of whom that is not known: %q", got)
		}
	}
}
