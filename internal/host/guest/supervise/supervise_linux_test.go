package supervise

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/wsdir"
	"github.com/croft-run/croft/workspace/driver"
)

// child starts a process that lasts, and returns the record of it.
func child(t *testing.T) (*Record, *exec.Cmd) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	start, err := StartTime(cmd.Process.Pid)
	if err != nil || start == "" {
		t.Fatalf("StartTime = %q, %v", start, err)
	}
	return &Record{Key: "k", PID: cmd.Process.Pid, Start: start}, cmd
}

// workspace makes the directory of a workspace.
func workspace(t *testing.T) wsdir.Dir {
	t.Helper()
	g, err := wsdir.New(&wsdir.Config{Kind: "test", Root: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	id := driver.NewID()
	if _, err := g.Ensure(t.Context(), driver.Spec{ID: id, Kind: "test"}, nil, nil); err != nil {
		t.Fatal(err)
	}
	return g.Dir(id)
}

func TestRecordIsReadAsItWasWritten(t *testing.T) {
	dir := workspace(t)
	if got := ReadRecord(dir); got != nil {
		t.Errorf("Read of none: %v", got)
	}
	want := &Record{Key: "k", PID: 7, Start: "123", Mount: 9, Groups: []string{"/a", "/b"}}
	if err := want.Write(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, ReadRecord(dir)); diff != "" {
		t.Errorf("the record differs (-want +got):\n%s", diff)
	}
	for _, torn := range []string{"", `{"key":"k","pi`, `{"key":"k","colour":1}`} {
		if err := os.WriteFile(filepath.Join(dir.Path, wsdir.StateName(dir.Kind)), []byte(torn), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := ReadRecord(dir); got != nil {
			t.Errorf("Read of %q = %+v; want none", torn, got)
		}
	}
}

func TestKillEndsTheProcessOfTheRecordAlone(t *testing.T) {
	rec, cmd := child(t)
	other := *rec
	other.Start += "0" // the number was used again
	if err := other.Kill(t.Context(), 0); err != nil || !rec.Alive() {
		t.Fatalf("Kill of one that ended: %v, and the process that has its number lives: %v", err, rec.Alive())
	}
	waited := make(chan error, 1)
	go func() { waited <- cmd.Wait() }()
	if err := rec.Kill(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; err == nil || cmd.ProcessState.ExitCode() != -1 {
		t.Errorf("it ended by itself: %v", err)
	}
	for _, gone := range []*Record{rec, {}} {
		if err := gone.Kill(t.Context(), time.Second); err != nil {
			t.Errorf("Kill again: %v", err)
		}
	}
}

// TestKillOfANumberThatIsAThreadsNow: numbers are used again, for threads as well.
func TestKillOfANumberThatIsAThreadsNow(t *testing.T) {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	tid, self := 0, strconv.Itoa(os.Getpid())
	for _, task := range tasks {
		if task.Name() != self {
			tid, err = strconv.Atoi(task.Name())
		}
	}
	if err != nil || tid == 0 {
		t.Fatalf("there is no thread among %v: %v", tasks, err)
	}
	if err := (&Record{PID: tid, Start: "1"}).Kill(t.Context(), 0); err != nil {
		t.Errorf("got %v, want that it has ended", err)
	}
}

func TestOneAtATimeHasTheGuest(t *testing.T) {
	dir := t.TempDir()
	first, err := Lock(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := Lock(ctx, dir); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a second Lock: %v, want the end of its context", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Lock(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(t.Context(), dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Lock of a workspace that is gone: %v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Lock brought the directory back: %v", err)
	}
}

// TestEndWithoutAnswer ends a guest that does not listen, by force, and removes
// what it left; After is asked first, and its error keeps the record.
func TestEndWithoutAnswer(t *testing.T) {
	dir := workspace(t)
	rec, cmd := child(t)
	waited := make(chan error, 1)
	go func() { waited <- cmd.Wait() }()
	if err := rec.Write(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if err := LockAndEnd(t.Context(), dir, nil); err != nil || !rec.Alive() {
		t.Errorf("EndIn where no lock was ever taken: %v, the process lives: %v", err, rec.Alive())
	}
	lock, err := Lock(t.Context(), dir.Path)
	if err != nil {
		t.Fatal(err)
	}
	lock.Close()
	failing := errors.New("not yet")
	err = LockAndEnd(t.Context(), dir, &Hooks{After: func(context.Context, *Record) error { return failing }})
	if !errors.Is(err, failing) {
		t.Errorf("EndIn: %v, want what After answers", err)
	}
	<-waited
	if ReadRecord(dir) == nil {
		t.Error("the record is gone before all is")
	}
	if err := LockAndEnd(t.Context(), dir, nil); err != nil {
		t.Errorf("EndIn again: %v", err)
	}
	if got := ReadRecord(dir); got != nil {
		t.Errorf("the record is still there: %v", got)
	}
	if err := LockAndEnd(t.Context(), wsdir.Dir{Path: filepath.Join(dir.Path, "none"), Kind: dir.Kind}, nil); err != nil {
		t.Errorf("EndIn of no workspace: %v", err)
	}
}

// TestAdoptWithoutDescriptors: a host that can't open a descriptor does not take a guest for
// one that has ended.
func TestAdoptWithoutDescriptors(t *testing.T) {
	dir := workspace(t)
	rec, _ := child(t)
	if err := rec.Write(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	adopt := func() error {
		c, _, err := Adopt(t.Context(), dir, rec.Key, "test", "w")
		if c != nil {
			t.Error("connected to a guest that does not listen")
		}
		return err
	}
	if err := adopt(); err != nil {
		t.Errorf("without a listener: %v", err)
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	err := adopt()
	if rerr := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); rerr != nil {
		t.Fatal(rerr)
	}
	if fault.Of(err) != fault.ResourceExhausted {
		t.Errorf("without descriptors: got %v, want %s", err, fault.ResourceExhausted)
	}
	dial := &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("socket", unix.EMFILE)}
	if err := HostError(t.Context(), fmt.Errorf("guest: %w: %w", fault.Evicted, dial)); fault.Of(err) != fault.ResourceExhausted {
		t.Errorf("got %v, want %s", err, fault.ResourceExhausted)
	}
}
