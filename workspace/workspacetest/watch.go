package workspacetest

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

var watchChecks = []Check{
	{"Watch/reports-what-happens", needFunc("Watch"), watchReports},
	{"Watch/goes-deep-on-request", needFunc("Watch"), watchRecursive},
	{"Watch/sees-what-was-made-after-it", needFunc("Watch"), watchNewDirectory},
	{"Watch/does-not-report-the-past", needFunc("Watch"), watchPast},
	{"Watch/ends-with-EOF-when-closed", needFunc("Watch"), watchClosed},
	{"Watch/obeys-the-context", needFunc("Watch"), watchCancelled},
	{"Watch/of-what-is-missing-is-NotFound", needFunc("Watch"), watchMissing},
}

// waitLimit bounds how long a check waits. It affects only checks that fail.
const waitLimit = 2 * time.Minute

// startWatch starts a watcher that is closed when the check ends.
func (p *testWorkspace) startWatch(t testing.TB, name string, opts *workspace.WatchOptions) driver.Watcher {
	t.Helper()
	w, err := p.Watch(t.Context(), name, opts)
	if err != nil {
		t.Fatalf("Watch: %v", err)
	}
	t.Cleanup(func() { w.Close() }) // closing twice is fine
	return w
}

// waitChanges reads batches until each path was reported with one of its operations.
func waitChanges(t testing.TB, w driver.Watcher, want map[string][]driver.ChangeOp) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	for len(want) > 0 {
		batch, err := w.Next(ctx)
		if err != nil {
			t.Errorf("Next: %v; still waiting for %v", err, want)
			return
		}
		seen := map[string]bool{}
		for _, c := range batch.Changes {
			if seen[c.Path] {
				t.Errorf("a batch lists %q twice: %+v", c.Path, batch.Changes)
			}
			seen[c.Path] = true
			for _, op := range want[c.Path] {
				if c.Op == op {
					delete(want, c.Path)
				}
			}
		}
		if batch.Overflow {
			t.Error("a few changes overflow the watcher")
		}
	}
}

var (
	made    = []driver.ChangeOp{driver.OpCreate, driver.OpWrite} // within one batch the latest is reported
	changed = []driver.ChangeOp{driver.OpCreate, driver.OpWrite} // a write is a rename over the old file
	removed = []driver.ChangeOp{driver.OpRemove}
)

func watchReports(t testing.TB, e *Env) {
	p := e.open(t)
	p.write(t, "old", "x")
	w := p.startWatch(t, ".", nil)
	p.write(t, "new", "x")
	waitChanges(t, w, map[string][]driver.ChangeOp{"new": made})
	p.write(t, "old", "y")
	waitChanges(t, w, map[string][]driver.ChangeOp{"old": changed})
	wantNil(t, "Remove", p.Remove(t.Context(), "new", nil))
	waitChanges(t, w, map[string][]driver.ChangeOp{"new": removed})
	wantNil(t, "Rename", p.Rename(t.Context(), "old", "moved", nil))
	waitChanges(t, w, map[string][]driver.ChangeOp{"old": removed, "moved": made})
	wantNil(t, "Mkdir", p.Mkdir(t.Context(), "dir", nil))
	waitChanges(t, w, map[string][]driver.ChangeOp{"dir": made})
}

func watchRecursive(t testing.TB, e *Env) {
	p := e.open(t)
	p.write(t, "a/b/file", "x")
	flat := p.startWatch(t, ".", nil)
	deep := p.startWatch(t, ".", &workspace.WatchOptions{Recursive: true})
	below := p.startWatch(t, "a/b", &workspace.WatchOptions{Recursive: true})
	p.write(t, "a/b/file", "y")
	waitChanges(t, deep, map[string][]driver.ChangeOp{"a/b/file": changed})
	waitChanges(t, below, map[string][]driver.ChangeOp{"a/b/file": changed})
	p.write(t, "top", "x")
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	for {
		batch, err := flat.Next(ctx)
		if !wantNil(t, "Next", err) {
			return
		}
		for _, c := range batch.Changes {
			switch c.Path {
			case "a/b/file":
				t.Error("a watcher that is not recursive reports what is two levels down")
			case "top":
				return
			}
		}
	}
}

func watchNewDirectory(t testing.TB, e *Env) {
	p := e.open(t)
	w := p.startWatch(t, ".", &workspace.WatchOptions{Recursive: true})
	p.write(t, "new/deep/file", "x")
	waitChanges(t, w, map[string][]driver.ChangeOp{"new/deep/file": made})
	p.write(t, "new/deep/second", "x")
	waitChanges(t, w, map[string][]driver.ChangeOp{"new/deep/second": made})
}

func watchPast(t testing.TB, e *Env) {
	p := e.open(t)
	p.write(t, "past", "x")
	w := p.startWatch(t, ".", nil)
	p.write(t, "present", "x")
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	batch, err := w.Next(ctx)
	if !wantNil(t, "Next", err) {
		return
	}
	for _, c := range batch.Changes {
		if c.Path == "past" {
			t.Error("the watcher reports what happened before it")
		}
	}
}

func watchClosed(t testing.TB, e *Env) {
	p := e.open(t)
	w := p.startWatch(t, ".", nil)
	var wg sync.WaitGroup
	var err error
	wg.Go(func() {
		for err == nil {
			_, err = w.Next(t.Context())
		}
	})
	wantNil(t, "Close", w.Close())
	wg.Wait()
	if !errors.Is(err, io.EOF) {
		t.Errorf("Next under way when the watcher is closed gives %v, want io.EOF", err)
	}
	if _, err := w.Next(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("Next after Close gives %v, want io.EOF", err)
	}
	wantNil(t, "second Close", w.Close())
}

func watchCancelled(t testing.TB, e *Env) {
	p := e.open(t)
	w := p.startWatch(t, ".", nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := w.Next(ctx)
	wantCode(t, "Next with a cancelled context", err, fault.Canceled)
	p.write(t, "later", "x")
	waitChanges(t, w, map[string][]driver.ChangeOp{"later": made})
}

func watchMissing(t testing.TB, e *Env) {
	p := e.open(t)
	_, err := p.Watch(t.Context(), "missing", nil)
	wantCode(t, "Watch of what is missing", err, fault.NotFound)
}
