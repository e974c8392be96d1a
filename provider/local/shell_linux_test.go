package local

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/workspace/driver"
	"github.com/croft-run/croft/workspace/workspacetest"
)

// guestVar tells processes that a test starts where croft-guest is.
const guestVar = "CROFT_TEST_GUEST"

// needGuest builds croft-guest, once for a test and the processes it starts.
func needGuest(t *testing.T) {
	t.Helper()
	if os.Getenv(guestVar) != "" {
		return
	}
	t.Setenv(guestVar, testenv.BuildGuest(t.TempDir()))
}

func withShell(t testing.TB, dir string) *Provider {
	t.Helper()
	p, err := New(&Config{Root: filepath.Join(dir, "ws"), Guest: os.Getenv(guestVar), Lease: 2 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestConformanceShell runs the suite over workspaces with commands.
//
//croft:race ^(Concurrency|Shell|Sessions|Watch)
func TestConformanceShell(t *testing.T) {
	needGuest(t)
	h := harness
	h.Provider = func(t testing.TB, dir string) driver.Provider { return withShell(t, dir) }
	workspacetest.Run(t, h)
}

func TestCommandsAreGuardedAndCrossRestarts(t *testing.T) {
	needGuest(t)
	dir := t.TempDir()
	ws := open(t, withShell(t, dir))
	t.Cleanup(func() { ws.Life.Destroy(context.Background()) })
	for text, code := range map[string]fault.Code{"sudo id": fault.SandboxViolation, "cat /etc/shadow": fault.SandboxViolation, "cat ../../../etc/passwd": fault.SandboxViolation} {
		if _, err := ws.Shell.Run(t.Context(), driver.Command{Script: text}); fault.Of(err) != code {
			t.Errorf("%q gives %v, want %v", text, err, code)
		}
	}
	s, err := ws.Shell.Start(t.Context(), driver.Command{Script: "while ! [ -e go ]; do sleep 0.02; done; exit 9", Detached: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := ws.Life.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	next, err := withShell(t, dir).Resolve(t.Context(), ws.Ref)
	if err != nil {
		t.Fatal(err)
	}
	again, err := next.Shell.Attach(t.Context(), s.ID())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := next.FS.Write(t.Context(), "go", strings.NewReader(""), &driver.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if res, err := again.Wait(t.Context()); err != nil || res.ExitCode != 9 {
		t.Errorf("the session gives %+v, %v", res, err)
	}
}

func TestFilesAloneWhereCommandsAreNotDeclared(t *testing.T) {
	needGuest(t)
	dir := t.TempDir()
	ws := open(t, withShell(t, dir), func(s *driver.Spec) {
		s.Want = driver.NewCapabilities(driver.CapFS)
		s.Policy.ReadOnly = true
	})
	if ws.Shell != nil || !ws.Traits.ReadOnly.Enforced() {
		t.Errorf("the workspace has %v, read-only by %+v", ws.Built().Names(), ws.Traits.ReadOnly)
	}
	if _, err := newProvider(t, dir).Resolve(t.Context(), ws.Ref); err != nil {
		t.Errorf("a croft without a guest does not resolve it: %v", err)
	}
}
