package guest_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/croft-run/croft/guest"
	"github.com/croft-run/croft/workspace/driver"
)

func newSpawner(t *testing.T) *guest.Spawner {
	t.Helper()
	s, err := guest.NewSpawner(binary)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// parent is the process that a process is a child of.
func parent(t *testing.T, pid int) int {
	t.Helper()
	ppid, err := parentOf(pid)
	if err != nil {
		t.Fatal(err)
	}
	return ppid
}

func parentOf(pid int) (int, error) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(data), "PPid:")
	return strconv.Atoi(strings.Fields(rest)[0])
}

// TestSpawnedGuest runs a command in a guest that is another process's child, and
// ends it; none of it is left, not even in the table of processes.
func TestSpawnedGuest(t *testing.T) {
	s := newSpawner(t)
	r := plain(t, func(l *guest.Launch) { l.Spawner = s })
	if got := parent(t, r.HostPID()); got == os.Getpid() {
		t.Error("the guest is a child of this process")
	}
	res := run(t, r, driver.Command{Script: "echo out; exit 3"})
	if res.ExitCode != 3 || string(res.Stdout) != "out\n" {
		t.Errorf("got %+v", res)
	}
	r.End(t.Context())
	select {
	case <-r.Exited():
	default:
		t.Error("End came back before the guest's end")
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if got, err := parentOf(r.HostPID()); err == nil && got != 1 { // whose affair it would be
		t.Errorf("the guest is still in the table of processes, below %d", got)
	}
}

// TestSpawnedGuestOutlivesItsSpawner closes the spawner, after which guests that
// it started live on and further ones are children of this process.
func TestSpawnedGuestOutlivesItsSpawner(t *testing.T) {
	s := newSpawner(t)
	r := plain(t, func(l *guest.Launch) { l.Spawner = s })
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if res := run(t, r, driver.Command{Script: "echo still"}); string(res.Stdout) != "still\n" {
		t.Errorf("got %+v", res)
	}
	own := plain(t, func(l *guest.Launch) { l.Spawner = s })
	if got := parent(t, own.HostPID()); got != os.Getpid() {
		t.Errorf("without a spawner the guest is a child of %d", got)
	}
}

// TestSpawnedGuestThatCantStart says why, in the guest's own words and in the
// kernel's.
func TestSpawnedGuestThatCantStart(t *testing.T) {
	s := newSpawner(t)
	bad := &guest.Launch{Binary: binary, Spawner: s, Config: guest.Config{Version: "test", Workspace: "w", Level: driver.IsolationNone, Root: "/nonexistent", UID: -1, Files: true}}
	if _, err := bad.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "nonexistent") && !strings.Contains(err.Error(), "no such file") {
		t.Errorf("a root that is not there: %v", err)
	}
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("no program"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := (&guest.Launch{Binary: text, Spawner: s}).Start(t.Context()); err == nil || !strings.Contains(err.Error(), "exec format error") {
		t.Errorf("what is no program: %v", err)
	}
	r := plain(t, func(l *guest.Launch) { l.Spawner = s })
	if got := parent(t, r.HostPID()); got == os.Getpid() {
		t.Error("after refusals the spawner is of no use")
	}
}
