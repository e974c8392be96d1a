//go:build unix

package local

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/process"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
	"github.com/croft-run/croft/workspace/workspacetest"
)

// inProcess returns a provider whose commands are children of the test.
func inProcess(t testing.TB, dir string) *Provider {
	t.Helper()
	p, err := New(&Config{
		Root: filepath.Join(dir, "ws"), InProcess: true,
		Snapshots: snapshot.Open(snapshot.Dir(filepath.Join(dir, "store")), &snapshot.Options{CacheDir: filepath.Join(dir, "cache")}),
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestConformanceInProcess runs the suite over workspaces whose commands are children of the
// process, as on systems without guests.
//
//croft:slow
func TestConformanceInProcess(t *testing.T) {
	h := harness
	h.Provider = func(t testing.TB, dir string) driver.Provider { return inProcess(t, dir) }
	workspacetest.Run(t, h)
}

// TestConformanceProcessGroup runs the suite with process groups instead of trees, and
// without the program setsid, as on macOS.
//
//croft:slow
func TestConformanceProcessGroup(t *testing.T) {
	if os.Getenv("CROFT_TEST_NO_SETSID") == "" { // the suite starts this test again
		bin := t.TempDir()
		for _, dir := range []string{"/bin", "/usr/bin"} {
			entries, err := os.ReadDir(dir)
			must(t, err)
			for _, e := range entries {
				if e.Name() != "setsid" {
					_ = os.Symlink(filepath.Join(dir, e.Name()), filepath.Join(bin, e.Name())) // /bin may be /usr/bin
				}
			}
		}
		t.Setenv("CROFT_TEST_NO_SETSID", "1")
		t.Setenv("PATH", bin)
	}
	h := harness
	h.Provider = func(t testing.TB, dir string) driver.Provider {
		p := inProcess(t, dir)
		p.tree = process.Group{}
		return p
	}
	workspacetest.Run(t, h)
}

// startReady starts a session and waits until it says ready.
func startReady(t *testing.T, ws *driver.Workspace, script string) *driver.Session {
	t.Helper()
	ready := make(chan struct{}, 100)
	s, err := ws.Shell.Start(t.Context(), driver.Command{Script: script, Detached: true, OnStdout: func([]byte) error { ready <- struct{}{}; return nil }})
	must(t, err)
	select {
	case <-ready:
	case <-time.After(time.Minute):
		t.Fatal("the session does not start")
	}
	return s
}

// Commands end with the last handle, and their logs are there for the next one.
func TestProcessesEndWithTheLastHandle(t *testing.T) {
	p := inProcess(t, t.TempDir())
	ws := open(t, p)
	if !ws.Traits.SessionsEnd || ws.Shell.Dial != nil {
		t.Errorf("the traits are %+v, with Dial: %v", ws.Traits, ws.Shell.Dial != nil)
	}
	if _, err := ws.Shell.Run(t.Context(), driver.Command{Script: "cat /etc/shadow"}); fault.Of(err) != fault.SandboxViolation {
		t.Errorf("the command policy lets through what it refuses: %v", err)
	}
	other, err := p.Resolve(t.Context(), ws.Ref)
	must(t, err)
	s := startReady(t, ws, "echo $$; sleep 1000")
	info, err := s.State(t.Context())
	must(t, err)
	must(t, ws.Life.Close(t.Context()))
	list, err := p.runningSessions(t.Context(), idOf(t, ws))
	if err != nil || len(list) != 1 || list[0].ID != s.ID() {
		t.Errorf("with another handle open there runs %+v, %v", list, err)
	}
	must(t, other.Life.Close(t.Context()))
	if err := syscall.Kill(info.PID, 0); err == nil {
		t.Errorf("process %d runs after the last Close", info.PID)
	}
	next, err := p.Resolve(t.Context(), ws.Ref)
	must(t, err)
	t.Cleanup(func() { next.Life.Destroy(context.Background()) })
	again, err := next.Shell.Attach(t.Context(), s.ID())
	must(t, err)
	res, err := again.Wait(t.Context())
	if err != nil || res.Cause != driver.CauseDestroyed || !strings.HasSuffix(string(res.Stdout), "\n") {
		t.Errorf("the ended session gives %+v, %v", res, err)
	}
}

// A second process, here a second provider, runs commands while the first does; it sees none
// of its sessions.
func TestProcessesOfASecondProcess(t *testing.T) {
	dir := t.TempDir()
	ws := open(t, inProcess(t, dir))
	t.Cleanup(func() { ws.Life.Destroy(context.Background()) })
	s := startReady(t, ws, "echo up; while ! [ -e go ]; do sleep 0.02; done; exit 9")
	other, err := inProcess(t, dir).Resolve(t.Context(), ws.Ref)
	must(t, err)
	t.Cleanup(func() { other.Life.Close(context.Background()) })
	if _, err := other.Shell.Attach(t.Context(), s.ID()); fault.Of(err) != fault.NotFound {
		t.Errorf("Attach by another process: %v", err)
	}
	if res, err := other.Shell.Run(t.Context(), driver.Command{Script: ": > go"}); err != nil || res.ExitCode != 0 {
		t.Errorf("a command of another process: %+v, %v", res, err)
	}
	if res, err := s.Wait(t.Context()); err != nil || res.ExitCode != 9 {
		t.Errorf("the session gives %+v, %v", res, err)
	}
}

// A change of the policy ends the commands that run under the old one, and only then.
func TestProcessesEndWithTheirPolicy(t *testing.T) {
	ws := open(t, inProcess(t, t.TempDir()))
	t.Cleanup(func() { ws.Life.Destroy(context.Background()) })
	s := startReady(t, ws, "echo up; sleep 1000")
	_, err := ws.Life.Update(t.Context(), driver.Policy{Durable: true})
	must(t, err)
	if info, err := s.State(t.Context()); err != nil || !info.Running {
		t.Errorf("a change that commands do not notice ends them: %+v, %v", info, err)
	}
	_, err = ws.Life.Update(t.Context(), driver.Policy{Env: map[string]string{"A": "b"}})
	must(t, err)
	if res, err := s.Wait(t.Context()); err != nil || res.Cause != driver.CauseDestroyed {
		t.Errorf("the session under the old policy gives %+v, %v", res, err)
	}
	if res, err := ws.Shell.Run(t.Context(), driver.Command{Script: "echo $A"}); err != nil || string(res.Stdout) != "b\n" {
		t.Errorf("under the new policy: %+v, %v", res, err)
	}
}
