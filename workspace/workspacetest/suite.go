package workspacetest

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// A Harness creates the provider under test.
type Harness struct {
	// Provider returns a provider over dir, as a new process would create it. It is
	// called several times with one dir, also in other processes. The provider is
	// abandoned without notice, as by a crash.
	Provider func(t testing.TB, dir string) driver.Provider

	// Leftovers lists what is left of any workspace under dir, or in an engine:
	// nothing, after Destroy or Sweep. If it is nil, the checks that need it are
	// skipped.
	Leftovers func(t testing.TB, dir string) []string

	// SessionsEnd means that no other process can use a workspace while this one has
	// it open, so that sessions end with the process: for a provider that is part of
	// a test. Others have Traits.SessionsEnd.
	SessionsEnd bool

	// Secrets are texts that the provider or Config was configured with, such as a
	// password. No ref may hold one.
	Secrets []string

	// Parallel runs the checks at the same time, as many as -parallel of go test allows: for
	// a provider whose workspaces take long to open.
	Parallel bool

	// Only is the area of the checks to run, such as "Dial"; "" means all.
	Only string

	Config    json.RawMessage // Spec.Config for every Open; may be nil
	BadConfig json.RawMessage // must be refused; nil is {"no-such-key":1}
}

// A Check is one promise of the contract and the attempt to refute it.
type Check struct {
	Name string // Area/what-holds

	// Needs reports whether the check applies and, if not, why: an absent module, a
	// property that the Traits do not claim, or a missing facility of the host. A nil
	// Needs always applies.
	Needs func(env *Env) (reason string, ok bool)

	Func func(t testing.TB, env *Env)
}

// Checks is the whole suite, in the order of Run.
var Checks = slices.Concat(
	openChecks, crashChecks, resolveChecks, revisionChecks, capabilityChecks, sessionChecks, lifeChecks, metricsChecks,
	readChecks, writeChecks, treeChecks, moveChecks, importChecks, nameChecks, searchChecks, watchChecks, fallbackChecks,
	refusalChecks, concurrencyChecks, durabilityChecks,
	shellChecks, terminalChecks, dialChecks, isolationChecks, limitChecks, snapshotChecks, codeChecks,
)

// Run checks a provider against the contract, each check as a subtest.
func Run(t *testing.T, h Harness) {
	if inChild(t, h) {
		return
	}
	if h.Parallel {
		t.Setenv(secretVar, canary) // a parallel test can't set it
	}
	sample := newSample(t, h)
	for _, check := range Checks {
		if area, _, _ := strings.Cut(check.Name, "/"); h.Only != "" && area != h.Only {
			continue
		}
		t.Run(check.Name, func(t *testing.T) {
			env := sample.newEnv(t)
			if reason, ok := env.needsMet(check); !ok {
				t.Skip("skipped: " + reason)
			}
			if h.Parallel {
				t.Parallel()
			}
			check.Func(t, env)
		})
	}
}

// An Env is the environment of a check: its own directory, and the modules and traits
// of the provider.
type Env struct {
	Harness
	Dir    string
	Kind   string
	Traits driver.Traits // of a workspace opened with the zero policy

	sample   *driver.Workspace // a workspace that shows which modules and functions are set
	test     string            // name of the test that called Run, for children
	provider driver.Provider
}

// newSample opens one workspace to see its modules and traits. The workspace itself
// is not used afterwards.
func newSample(t testing.TB, h Harness) *Env {
	if h.BadConfig == nil {
		h.BadConfig = json.RawMessage(`{"no-such-key":1}`)
	}
	env := &Env{Harness: h, Dir: t.TempDir(), test: t.Name()}
	env.provider = h.Provider(t, env.Dir)
	env.Kind = env.provider.Kind()
	if _, err := env.provider.Probe(t.Context()); err != nil {
		t.Fatalf("Probe: %v", err)
	}
	d, err := env.provider.Open(t.Context(), env.spec())
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	env.sample, env.Traits = d, d.Traits
	if err := d.Life.Destroy(t.Context()); err != nil {
		t.Errorf("Destroy: %v", err)
	}
	return env
}

// newEnv returns an Env with its own directory.
func (e *Env) newEnv(t testing.TB) *Env {
	env := *e
	env.Dir = t.TempDir()
	env.provider = nil
	return &env
}

// secretVar is a variable of this process that neither a ref nor a command may have.
const secretVar = "CROFT_WORKSPACETEST_SECRET_TOKEN"

func (e *Env) setSecretVar(t testing.TB) {
	if !e.Parallel {
		t.Setenv(secretVar, canary)
	}
}

func (e *Env) needsMet(check Check) (string, bool) {
	if check.Needs == nil {
		return "", true
	}
	return check.Needs(e)
}

// spec returns a spec of a new workspace, changed by each of mods.
func (e *Env) spec(mods ...func(*driver.Spec)) driver.Spec {
	spec := driver.Spec{ID: driver.NewID(), Kind: e.Kind, Config: e.Config}
	for _, mod := range mods {
		mod(&spec)
	}
	return spec
}

// sharedProvider returns the provider of this check, the same one every time.
func (e *Env) sharedProvider(t testing.TB) driver.Provider {
	if e.provider == nil {
		e.provider = e.Provider(t, e.Dir)
	}
	return e.provider
}

// restartProvider abandons the provider and returns a new one over the same directory, like
// the next process.
func (e *Env) restartProvider(t testing.TB) driver.Provider {
	e.provider = nil
	return e.sharedProvider(t)
}

// A testWorkspace is a workspace of a check: its handle of package workspace, and its driver
// side.
type testWorkspace struct {
	*workspace.Workspace
	spec driver.Spec
	d    *driver.Workspace
}

// open opens a new workspace, which is destroyed when the check ends.
func (e *Env) open(t testing.TB, mods ...func(*driver.Spec)) *testWorkspace {
	t.Helper()
	return e.openSpec(t, e.spec(mods...))
}

func (e *Env) openSpec(t testing.TB, spec driver.Spec) *testWorkspace {
	t.Helper()
	d, err := e.sharedProvider(t).Open(t.Context(), spec)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { d.Life.Destroy(context.WithoutCancel(t.Context())) }) // best effort; Destroy has its own checks
	return newTestWorkspace(t, spec, d)
}

// resolve attaches to a workspace by its ref.
func (e *Env) resolve(t testing.TB, spec driver.Spec, ref driver.Ref) *testWorkspace {
	t.Helper()
	d, err := e.sharedProvider(t).Resolve(t.Context(), ref)
	if err != nil {
		t.Fatalf("Resolve: %v", err)
	}
	return newTestWorkspace(t, spec, d)
}

func newTestWorkspace(t testing.TB, spec driver.Spec, d *driver.Workspace) *testWorkspace {
	t.Helper()
	ws, err := workspace.New(spec.ID, d, spec.Want, nil)
	if err != nil {
		t.Fatalf("what the provider returned is not valid: %v", err)
	}
	return &testWorkspace{Workspace: ws, spec: spec, d: d}
}
