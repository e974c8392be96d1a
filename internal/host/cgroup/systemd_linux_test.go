package cgroup

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
)

// A fakeManager is a stand-in for the systemd user manager: it records what it is asked
// for, and moves a process if it has a parent cgroup.
type fakeManager struct {
	conn   *dbus.Conn
	result string // of each job
	parent string // cgroup of the scopes; "" moves nothing

	mu    sync.Mutex // D-Bus calls come from other goroutines
	name  string
	asked map[string]any
}

func (f *fakeManager) Subscribe() *dbus.Error { return nil }

func (f *fakeManager) StartTransientUnit(name, _ string, properties []unitProperty, _ []auxiliaryUnit) (dbus.ObjectPath, *dbus.Error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.name, f.asked = name, map[string]any{}
	for _, p := range properties {
		f.asked[p.Name] = p.Value.Value()
	}
	if f.parent != "" {
		scope := filepath.Join(f.parent, name)
		pid := strconv.Itoa(int(f.asked["PIDs"].([]uint32)[0]))
		if err := errors.Join(os.Mkdir(scope, 0o755), os.WriteFile(filepath.Join(scope, "cgroup.procs"), []byte(pid), 0o600)); err != nil {
			return "", dbus.MakeFailedError(err)
		}
	}
	job := managerPath + "/job/7"
	for _, j := range []dbus.ObjectPath{managerPath + "/job/6", job} { // one of another unit, too
		if err := f.conn.Emit(managerPath, managerName+".Manager.JobRemoved", uint32(7), j, name, f.result); err != nil {
			return "", dbus.MakeFailedError(err)
		}
	}
	return job, nil
}

// startBus starts a D-Bus daemon with a fakeManager at dir/bus, and returns its address.
func startBus(t *testing.T, f *fakeManager, dir string) string {
	t.Helper()
	if _, err := exec.LookPath("dbus-daemon"); err != nil {
		t.Skip("skipped: program dbus-daemon: not installed")
	}
	cmd := exec.CommandContext(t.Context(), "dbus-daemon", "--session", "--nofork", "--print-address", "--address=unix:path="+filepath.Join(dir, "bus"))
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	address := strings.TrimSpace(line)
	if f.conn, err = dbus.Connect(address); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.conn.Close() })
	if err := f.conn.Export(f, managerPath, managerName+".Manager"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.conn.RequestName(managerName, dbus.NameFlagDoNotQueue); err != nil {
		t.Fatal(err)
	}
	return address
}

func TestScopeIsDelegated(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	f := &fakeManager{result: "done"}
	address := startBus(t, f, t.TempDir())
	if err := startScope(ctx, address, "croft-1-2.scope", 4711); err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	pids, _ := f.asked["PIDs"].([]uint32)
	if f.name != "croft-1-2.scope" || f.asked["Delegate"] != true || len(pids) != 1 || pids[0] != 4711 {
		t.Errorf("systemd was asked for %s with %v", f.name, f.asked)
	}
	f.result = "failed"
	f.mu.Unlock()
	if err := startScope(ctx, address, "croft-1-3.scope", 4711); fault.Of(err) != fault.Unavailable || !strings.Contains(err.Error(), `"failed"`) {
		t.Errorf("a job that fails: %v", err)
	}
	if err := startScope(ctx, "unix:path="+filepath.Join(t.TempDir(), "missing"), "croft-1-4.scope", 4711); fault.Of(err) != fault.Unavailable {
		t.Errorf("without a bus: %v", err)
	}
}

// TestDelegatedHierarchy moves this process into a scope of a cgroup2 file system, as
// systemd would, and probes the hierarchy there.
func TestDelegatedHierarchy(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: user: only root moves processes between cgroups as systemd does")
	}
	mount := t.TempDir()
	if err := unix.Mount("cgroup2", mount, "cgroup2", 0, ""); err != nil {
		t.Skipf("skipped: host: no cgroup2 file system: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(mount, unix.MNT_DETACH) })
	own, _, err := ownV2()
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeManager{result: "done", parent: own}
	dir := t.TempDir()
	startBus(t, f, dir)
	t.Setenv("XDG_RUNTIME_DIR", dir)
	t.Cleanup(func() {
		os.WriteFile(filepath.Join(own, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0o600)
		os.Remove(filepath.Join(own, f.name, hostGroup))
		if err := os.Remove(filepath.Join(own, f.name)); err != nil {
			t.Errorf("remove the scope: %v", err)
		}
	})
	h, err := delegatedV2()
	if err != nil {
		t.Fatal(err)
	}
	if now, _, _ := ownV2(); h.dir != filepath.Join(own, f.name) || now != filepath.Join(h.dir, hostGroup) {
		t.Errorf("cgroups are below %s, and this process is in %s; want the scope %s, and its child %s", h.dir, now, f.name, hostGroup)
	}
	if !h.has(Freezer) {
		t.Errorf("the controllers are %v, want the freezer", h.controllers)
	}
}

func TestMissingControllersHaveARemedy(t *testing.T) {
	h := &hierarchyV2{controllers: []string{PIDs, Freezer}}
	err := h.errMissing()
	if fault.Of(err) != fault.Unsupported || !strings.Contains(err.Error(), "cpu, memory:") || !strings.Contains(err.Error(), "sudo systemctl daemon-reload") {
		t.Errorf("the error is %v", err)
	}
	if err := (&hierarchyV2{controllers: []string{CPU, Memory, PIDs, Freezer}}).errMissing(); err != nil {
		t.Errorf("with all controllers: %v", err)
	}
}
