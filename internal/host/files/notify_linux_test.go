package files

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/workspace/driver"
)

func testSystem(t *testing.T) (system, string) {
	t.Helper()
	dir := t.TempDir()
	s, err := openSystem(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.close() })
	return s, dir
}

func TestTooManyChangesOverflow(t *testing.T) {
	b := newBatch(0)
	for i := range maxPending + 10 {
		b.add(fmt.Sprint(i), driver.OpWrite)
	}
	c, err := b.Next(t.Context())
	if err != nil || !c.Overflow || len(c.Changes) != maxPending {
		t.Errorf("overflow %v with %d changes, %v", c.Overflow, len(c.Changes), err)
	}
	b.add("f", driver.OpWrite)
	if c, err := b.Next(t.Context()); err != nil || c.Overflow || len(c.Changes) != 1 {
		t.Errorf("the next batch: %+v, %v", c, err)
	}
}

// When the kernel drops events, the batch says so, and a directory whose news
// were lost is watched from then on.
func TestKernelOverflow(t *testing.T) {
	s, dir := testSystem(t)
	b := newBatch(0)
	src, err := s.watch(".", true, &driver.WatchOptions{Recursive: true}, b)
	if err != nil {
		t.Fatal(err)
	}
	n := src.(*notifier)
	n.file.Close() // run ends, and the test takes its place
	n.wg.Wait()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	n.file = os.NewFile(uintptr(fd), "inotify")
	n.dirs = map[int32]*watchedDir{}
	if err := os.Mkdir(filepath.Join(dir, "missed"), 0o755); err != nil {
		t.Fatal(err)
	}
	n.handleEvent(-1, unix.IN_Q_OVERFLOW, "")
	if c := b.drain(); !c.Overflow {
		t.Error("the batch does not tell of the overflow")
	}
	n.wg.Go(n.run)
	if err := os.WriteFile(filepath.Join(dir, "missed/f"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := b.Next(t.Context())
	if diff := cmp.Diff([]driver.Change{{Path: "missed/f", Op: driver.OpCreate}}, c.Changes); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if err := n.close(); err != nil {
		t.Error(err)
	}
}

func TestPolling(t *testing.T) {
	s, dir := testSystem(t)
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("same", "x")
	write("gone", "x")
	write("grows", "x")
	write("mode", "x")
	b := newBatch(0)
	p, err := s.watchByPolling(".", true, &driver.WatchOptions{Recursive: true}, b)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "d"), 0o755); err != nil {
		t.Fatal(err)
	}
	write("d/new", "x")
	write("grows", "xx")
	if err := os.Remove(filepath.Join(dir, "gone")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "mode"), 0o600); err != nil {
		t.Fatal(err)
	}
	want := map[string]driver.ChangeOp{
		"d": driver.OpCreate, "d/new": driver.OpCreate, "grows": driver.OpWrite, "gone": driver.OpRemove, "mode": driver.OpChmod,
	}
	got := map[string]driver.ChangeOp{}
	for len(got) < len(want) {
		c, err := b.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, change := range c.Changes {
			if got[change.Path] != driver.OpCreate { // a look may come before it is written to
				got[change.Path] = change.Op
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if err := p.close(); err != nil {
		t.Error(err)
	}
}
