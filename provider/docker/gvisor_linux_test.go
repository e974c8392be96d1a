package docker

import (
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/workspace/driver"
	"github.com/croft-run/croft/workspace/workspacetest"
)

func needRunsc(t testing.TB) {
	t.Helper()
	testenv.NeedsDocker(t)
	if testenv.Runsc() == "" {
		t.Skip("skipped: host: it lacks gVisor's runsc")
	}
}

// TestConformanceGVisor runs the suite with a kernel in user space under the
// containers.
//
//croft:slow
func TestConformanceGVisor(t *testing.T) {
	needRunsc(t)
	h := harness
	h.Provider = func(t testing.TB, dir string) driver.Provider {
		return newProvider(t, dir, func(c *Config) { c.Runtime = gvisorRuntime })
	}
	workspacetest.Run(t, h)
}

// TestPolicyChoosesTheRuntime asks for more isolation than a container gives.
func TestPolicyChoosesTheRuntime(t *testing.T) {
	needRunsc(t)
	p := newProvider(t, t.TempDir())
	ws := open(t, p, func(s *driver.Spec) { s.Policy.Isolation = driver.IsolationGVisor })
	if got := ws.Traits.Isolation; got != driver.IsolationGVisor {
		t.Errorf("the isolation is %q", got)
	}
	if res := script(t, ws, "grep -ci gvisor /proc/version"); string(res.Stdout) != "1\n" {
		t.Errorf("the kernel is not gVisor's: %+v", res)
	}
	away := open(t, newProvider(t, t.TempDir(), far), func(s *driver.Spec) { s.Policy.Isolation = driver.IsolationGVisor })
	write(t, away, "file", "on a volume\n")
	if res := script(t, away, "cat file; grep -ci gvisor /proc/version"); string(res.Stdout) != "on a volume\n1\n" {
		t.Errorf("on an engine elsewhere: %+v", res)
	}
	_, err := p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: Kind, Policy: driver.Policy{Isolation: driver.IsolationVM}})
	if fault.Of(err) != fault.Unsupported {
		t.Errorf("a virtual machine is answered with %v", err)
	}
	_, err = p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: Kind, Config: []byte(`{"runtime":"kata"}`)})
	if fault.Of(err) != fault.Unsupported {
		t.Errorf("a runtime that the engine lacks is answered with %v", err)
	}
}
