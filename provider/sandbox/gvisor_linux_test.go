package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
	"github.com/croft-run/croft/workspace/workspacetest"
)

//croft:slow
func TestConformanceGVisor(t *testing.T) {
	needLevel(t, driver.IsolationGVisor)
	workspacetest.Run(t, at(driver.IsolationGVisor))
}

// openAt opens a workspace at a level, or skips where the host lacks it.
func openAt(t *testing.T, level driver.Isolation, mods ...func(*driver.Spec)) (*Provider, *driver.Workspace) {
	t.Helper()
	needLevel(t, level)
	p := newProvider(t, t.TempDir())
	p.onlyLevel, p.cfg.Isolation = level, level
	return p, open(t, p, mods...)
}

func TestGVisorOutOfMemoryIsACauseAndTheWorkspaceGoesOn(t *testing.T) {
	need(t, limitEnforcement("memory"))
	_, ws := openAt(t, driver.IsolationGVisor, limits(driver.Limits{driver.ResourceMemory: {Max: 64 << 20}}))
	if got := output(t, ws, "echo kept > file; echo works"); got != "works" {
		t.Errorf("before: %q", got)
	}
	res := script(t, ws, "head -c 400M /dev/zero | tail > /dev/null")
	if res.Cause != driver.CauseOOM {
		t.Errorf("a memory hog gives %+v, want the cause oom", res)
	}
	var got string
	eventually(t, "the workspace goes on", func() bool { // the first call may be told that the guest is gone
		res, err := ws.Shell.Run(t.Context(), driver.Command{Script: "cat file"})
		got = string(res.Stdout)
		return err == nil
	})
	if got != "kept\n" {
		t.Errorf("after it: %q", got)
	}
}

func TestGVisorLimitOfProcessesIsRefused(t *testing.T) {
	needLevel(t, driver.IsolationGVisor)
	p := newProvider(t, t.TempDir())
	spec := driver.Spec{ID: driver.NewID(), Kind: Kind, Policy: driver.Policy{Isolation: driver.IsolationGVisor}}
	spec.Policy.Limits = driver.Limits{driver.ResourcePIDs: {Max: 10}}
	if _, err := p.Open(t.Context(), spec); fault.Of(err) != fault.Unsupported {
		t.Errorf("a limit of processes gives %v", err)
	}
}

// TestGVisorAsTheOthers runs at gVisor what is tested at namespaces, besides the
// suite.
//
//croft:slow
func TestGVisorAsTheOthers(t *testing.T) {
	atLevel(t, driver.IsolationGVisor, "^Test(TemplateShowsThroughAndStaysAsItIs|InPlaceWithoutTriggers|GuestIsFoundByTheNextProcess|DeadGuestIsEvictedOnceAndItsSessionsAreLost|AllowedHostIsReachedAndNoOther|DiskIsLimited|LayersOfAChangedDirectory)$")
}

// TestConformanceGVisorUnprivileged runs what of the suite is about processes and
// the sandbox; the rest is the same code as at the other levels.
//
//croft:slow
func TestConformanceGVisorUnprivileged(t *testing.T) {
	asNobody(t, "^TestConformanceGVisor$/^(Shell|Isolation|Network|Limits|ReadOnly|Sessions|Life)$")
}

// TestGVisorBringsNoProcessesBack: a checkpoint is refused with its reason, which
// is that of the runsc that is installed.
func TestGVisorBringsNoProcessesBack(t *testing.T) {
	p, ws := openAt(t, driver.IsolationGVisor, func(*driver.Spec) {})
	if s := ws.Life.Snapshot; s == nil || s.Checkpoint != nil || !strings.Contains(s.NoCheckpoint, "rootless") {
		t.Fatalf("the module for snapshots is %+v, want none of processes, with the reason", s)
	}
	runsc, err := p.openRunsc()
	if err != nil {
		t.Fatal(err)
	}
	defer runsc.Close()
	dir := t.TempDir()
	const spec = `{"ociVersion": "1.0.0", "process": {"args": ["true"], "cwd": "/"}, "root": {"path": "/", "readonly": true}}`
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(spec), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), runsc.Name(), "--rootless", "--root", dir, "restore", "--image-path", dir, "--bundle", dir, "x").CombinedOutput()
	if err == nil || !strings.Contains(strings.ToLower(string(out)), "rootless mode not supported") {
		t.Errorf("runsc restore in rootless mode: %v: %s: the reason does not hold any more", err, out)
	}
}
