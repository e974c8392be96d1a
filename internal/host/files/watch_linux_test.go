package files_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/workspace/driver"
)

func watch(t *testing.T, r *files.Root, name string, opts *driver.WatchOptions) driver.Watcher {
	t.Helper()
	w, err := r.Watch(t.Context(), name, opts)
	must(t, err)
	t.Cleanup(func() { must(t, w.Close()) })
	return w
}

// until gathers changes until the mark has been written, and leaves it out. What
// follows a creation is part of it, in whichever batch it comes.
func until(t *testing.T, r *files.Root, w driver.Watcher, mark string) map[string]driver.ChangeOp {
	t.Helper()
	put(t, r, mark, "")
	got := map[string]driver.ChangeOp{}
	for {
		c, err := w.Next(t.Context())
		must(t, err)
		if c.Overflow {
			t.Fatal("overflow")
		}
		seen := false
		for _, change := range c.Changes {
			if change.Path == mark {
				seen = true
				continue
			}
			if got[change.Path] != driver.OpCreate || change.Op == driver.OpRemove {
				got[change.Path] = change.Op
			}
		}
		if seen {
			return got
		}
	}
}

// TestWatchWithoutInstance watches in a user namespace whose users have no inotify instance.
func TestWatchWithoutInstance(t *testing.T) {
	const limit = "/proc/sys/user/max_inotify_instances"
	if os.Getenv("CROFT_TEST_CHILD") == "" {
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestWatchWithoutInstance$")
		cmd.Env = append(os.Environ(), "CROFT_TEST_CHILD=1")
		ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: ids}
		if out, err := cmd.CombinedOutput(); errors.Is(err, syscall.EPERM) {
			t.Skip("skipped: host: it refuses user namespaces")
		} else if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	must(t, os.WriteFile(limit, []byte("0"), 0))
	if fd, err := unix.InotifyInit1(unix.IN_CLOEXEC); !errors.Is(err, unix.EMFILE) {
		t.Fatalf("an inotify instance: got %d, %v, want EMFILE", fd, err)
	}
	r, _ := open(t, nil)
	put(t, r, "old", "x")
	w := watch(t, r, ".", &driver.WatchOptions{Recursive: true})
	put(t, r, "old", "longer")
	put(t, r, "new", "x")
	want := map[string]driver.ChangeOp{"old": driver.OpWrite, "new": driver.OpCreate}
	if diff := cmp.Diff(want, until(t, r, w, "mark")); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

func TestWatch(t *testing.T) {
	r, dir := open(t, nil)
	put(t, r, "old", "x")
	put(t, r, "d/gone", "x")
	put(t, r, "mode", "x")
	w := watch(t, r, ".", &driver.WatchOptions{Recursive: true})
	ctx := t.Context()
	put(t, r, "old", "y") // atomically: the name gets another file
	put(t, r, "new", "x")
	must(t, os.WriteFile(filepath.Join(dir, "d/plain"), []byte("x"), 0o644))
	must(t, r.Remove(ctx, "d/gone", nil))
	must(t, r.Chmod(ctx, "mode", 0o600))
	put(t, r, "fresh/deep/er/file", "x") // directories that were not there
	must(t, r.Symlink(ctx, "new", "link"))
	want := map[string]driver.ChangeOp{
		"old": driver.OpWrite, "new": driver.OpCreate, "d/plain": driver.OpCreate, "d/gone": driver.OpRemove, "mode": driver.OpChmod,
		"fresh": driver.OpCreate, "fresh/deep": driver.OpCreate, "fresh/deep/er": driver.OpCreate, "fresh/deep/er/file": driver.OpCreate, "link": driver.OpCreate,
	}
	if diff := cmp.Diff(want, until(t, r, w, "mark1")); diff != "" {
		t.Error(diff)
	}
	must(t, r.Rename(ctx, "fresh/deep", "moved", nil))
	want = map[string]driver.ChangeOp{"fresh/deep": driver.OpRemove, "moved": driver.OpCreate, "moved/er": driver.OpCreate, "moved/er/file": driver.OpCreate}
	if diff := cmp.Diff(want, until(t, r, w, "mark2")); diff != "" {
		t.Error(diff)
	}
	put(t, r, "moved/er/file", "y") // it is still watched, under its new name
	if diff := cmp.Diff(map[string]driver.ChangeOp{"moved/er/file": driver.OpWrite}, until(t, r, w, "mark3")); diff != "" {
		t.Error(diff)
	}
	must(t, r.Remove(ctx, "moved", &driver.RemoveOptions{Recursive: true}))
	want = map[string]driver.ChangeOp{"moved": driver.OpRemove, "moved/er": driver.OpRemove, "moved/er/file": driver.OpRemove}
	if diff := cmp.Diff(want, until(t, r, w, "mark4")); diff != "" {
		t.Error(diff)
	}
}

func TestWatchOneLevelAndOneFile(t *testing.T) {
	r, _ := open(t, nil)
	put(t, r, "d/sub/f", "x")
	put(t, r, "d/f", "x")
	flat := watch(t, r, "d", nil)
	file := watch(t, r, "d/f", nil)
	put(t, r, "d/sub/f", "y")
	put(t, r, "d/g", "x")
	put(t, r, "d/f", "z")
	want := map[string]driver.ChangeOp{"d/g": driver.OpCreate, "d/f": driver.OpWrite}
	if diff := cmp.Diff(want, until(t, r, flat, "d/mark")); diff != "" {
		t.Error(diff)
	}
	c, err := file.Next(t.Context())
	if diff := cmp.Diff([]driver.Change{{Path: "d/f", Op: driver.OpWrite}}, c.Changes); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestWatchBatches(t *testing.T) {
	r, _ := open(t, nil)
	w := watch(t, r, ".", &driver.WatchOptions{Debounce: 300 * time.Millisecond})
	for range 20 {
		put(t, r, "f", "x")
	}
	c, err := w.Next(t.Context())
	if diff := cmp.Diff([]driver.Change{{Path: "f", Op: driver.OpCreate}}, c.Changes); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestWatchEnds(t *testing.T) {
	r, _ := open(t, nil)
	w, err := r.Watch(t.Context(), ".", nil)
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = w.Next(ctx)
	wantCode(t, err, fault.Canceled)
	waiting := make(chan error)
	go func() {
		_, err := w.Next(context.WithoutCancel(ctx))
		waiting <- err
	}()
	must(t, w.Close())
	if err := <-waiting; !errors.Is(err, io.EOF) {
		t.Errorf("Next after Close: %v", err)
	}
	must(t, w.Close())
	_, err = r.Watch(t.Context(), "none", nil)
	wantCode(t, err, fault.NotFound)
}

// TestWatchTooDeep: directories that lie too deep to have a name do not keep the
// others from being watched.
func TestWatchTooDeep(t *testing.T) {
	r, dir := open(t, nil)
	at, err := os.OpenRoot(dir)
	must(t, err)
	name := strings.Repeat("n", 250)
	for range 20 { // beyond what a path may have
		must(t, at.Mkdir(name, 0o755))
		next, err := at.OpenRoot(name)
		must(t, err)
		must(t, at.Close())
		at = next
	}
	must(t, at.Close())
	w := watch(t, r, ".", &driver.WatchOptions{Recursive: true})
	put(t, r, "f", "x")
	if diff := cmp.Diff(map[string]driver.ChangeOp{"f": driver.OpCreate}, until(t, r, w, "mark")); diff != "" {
		t.Error(diff)
	}
}

// A root has a bounded number of watchers, and they work also where the host has fewer inotify
// instances, which all workspaces share.
func TestManyWatchers(t *testing.T) {
	const most = 256
	r, _ := open(t, nil)
	first := watch(t, r, ".", nil)
	for range most - 2 {
		watch(t, r, ".", nil)
	}
	last, err := r.Watch(t.Context(), ".", nil)
	must(t, err)
	if _, err := r.Watch(t.Context(), ".", nil); fault.Of(err) != fault.ResourceExhausted {
		t.Errorf("watcher %d: %v, want %v", most+1, err, fault.ResourceExhausted)
	}
	for _, w := range []driver.Watcher{first, last} {
		put(t, r, "f", "x")
		until(t, r, w, "mark")
	}
	must(t, last.Close())
	watch(t, r, ".", nil)
}
