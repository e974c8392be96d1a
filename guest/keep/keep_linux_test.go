package keep

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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

func alive(r *Record) bool {
	start, err := StartTime(r.PID)
	return err == nil && start == r.Start
}

func TestRecordIsReadAsItWasWritten(t *testing.T) {
	dir := t.TempDir()
	if _, err := Read(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Read of none: %v", err)
	}
	want := &Record{Key: "k", PID: 7, Start: "123", Mount: 9, Groups: []string{"/a", "/b"}}
	if err := want.Write(dir); err != nil {
		t.Fatal(err)
	}
	got, err := Read(dir)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("the record differs, %v (-want +got):\n%s", err, diff)
	}
	for _, torn := range []string{"", `{"key":"k","pi`, `{"key":"k","colour":1}`} {
		if err := os.WriteFile(filepath.Join(dir, RecordName), []byte(torn), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := Read(dir); got != nil || err != nil {
			t.Errorf("Read of %q = %+v, %v; want none", torn, got, err)
		}
	}
}

func TestKillEndsTheProcessOfTheRecordAlone(t *testing.T) {
	rec, cmd := child(t)
	other := *rec
	other.Start += "0" // the number was used again
	if err := other.Kill(t.Context(), 0); err != nil || !alive(rec) {
		t.Fatalf("Kill of one that ended: %v, and the process that has its number lives: %v", err, alive(rec))
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
	if _, err := Lock(t.Context(), dir); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("Lock before Prepare: %v", err)
	}
	if err := Prepare(dir); err != nil {
		t.Fatal(err)
	}
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
	dir := t.TempDir()
	rec, cmd := child(t)
	waited := make(chan error, 1)
	go func() { waited <- cmd.Wait() }()
	if err := errors.Join(Prepare(dir), rec.Write(dir)); err != nil {
		t.Fatal(err)
	}
	failing := errors.New("not yet")
	err := EndIn(t.Context(), dir, &Hooks{After: func(*Record) error { return failing }})
	if !errors.Is(err, failing) {
		t.Errorf("EndIn: %v, want what After answers", err)
	}
	<-waited
	if got, err := Read(dir); got == nil || err != nil {
		t.Errorf("the record is gone before all is: %v", err)
	}
	if err := EndIn(t.Context(), dir, nil); err != nil {
		t.Errorf("EndIn again: %v", err)
	}
	if _, err := Read(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the record is still there: %v", err)
	}
	if err := EndIn(t.Context(), filepath.Join(dir, "none"), nil); err != nil {
		t.Errorf("EndIn of no workspace: %v", err)
	}
}
