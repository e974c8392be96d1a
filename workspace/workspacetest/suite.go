package workspacetest

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// A Harness says how to make the provider that is tested.
type Harness struct {
	// Provider returns a provider over dir, as a process that starts would
	// build it. It is called several times with one dir, also from other
	// processes; what it returns is given up without notice, as by a crash.
	Provider func(t testing.TB, dir string) driver.Provider

	// Leftovers lists what is left under dir, or in an engine, of any
	// workspace: nothing, after Destroy or Sweep. Where it is nil the checks
	// that need it say so and are skipped.
	Leftovers func(t testing.TB, dir string) []string

	// SessionsEnd says that sessions end with the process that started them, and
	// that no other can hold the workspace meanwhile: for a provider that is part
	// of a test.
	SessionsEnd bool

	Config    json.RawMessage // Spec.Config for every Open; may be nil
	BadConfig json.RawMessage // must be refused; nil is {"no-such-key":1}
}

// A Check is one promise of the contract and the attempt to refute it.
type Check struct {
	Name string // Area/what-holds

	// Needs reports whether the check applies and, where it does not, why: an
	// absent module, a property that the Traits do not claim, or a facility
	// that the host lacks. A nil Needs always applies.
	Needs func(env *Env) (reason string, ok bool)

	Func func(t testing.TB, env *Env)
}

// Checks is the whole suite, in the order in which Run goes through it.
var Checks = slices.Concat(
	openChecks, crashChecks, resolveChecks, revisionChecks, capabilityChecks, sessionChecks, lifeChecks,
	readChecks, writeChecks, treeChecks, moveChecks, importChecks, nameChecks, searchChecks, watchChecks, fallbackChecks,
	refusalChecks, concurrencyChecks, durabilityChecks,
	shellChecks, terminalChecks, isolationChecks, limitChecks, snapshotChecks, codeChecks,
)

// Run holds a provider against the contract, each check as a subtest.
func Run(t *testing.T, h Harness) {
	if inChild(t, h) {
		return
	}
	sample := newSample(t, h)
	for _, check := range Checks {
		t.Run(check.Name, func(t *testing.T) {
			env := sample.fresh(t)
			if reason, ok := env.applies(check); !ok {
				t.Skip("skipped: " + reason)
			}
			check.Func(t, env)
		})
	}
}

// An Env is what a check works with: a directory of its own, and what the
// provider has and claims.
type Env struct {
	Harness
	Dir    string
	Kind   string
	Traits driver.Traits // of a workspace opened with the zero policy

	sample   *driver.Workspace // of that workspace: which modules and functions are set
	test     string            // name of the test that called Run, for children
	provider driver.Provider
}

// newSample opens one workspace to see what there is. Only what it has and
// claims is used afterwards, never the workspace itself.
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

// fresh returns an Env over a directory of its own.
func (e *Env) fresh(t testing.TB) *Env {
	env := *e
	env.Dir = t.TempDir()
	env.provider = nil
	return &env
}

func (e *Env) applies(check Check) (string, bool) {
	if check.Needs == nil {
		return "", true
	}
	return check.Needs(e)
}

// spec returns a wish for a new workspace, changed by each of mods.
func (e *Env) spec(mods ...func(*driver.Spec)) driver.Spec {
	spec := driver.Spec{ID: driver.NewID(), Kind: e.Kind, Config: e.Config}
	for _, mod := range mods {
		mod(&spec)
	}
	return spec
}

// use returns the provider of this check, the same one every time.
func (e *Env) use(t testing.TB) driver.Provider {
	if e.provider == nil {
		e.provider = e.Provider(t, e.Dir)
	}
	return e.provider
}

// restart gives up the provider and returns a new one over the same directory,
// as the next process would have it.
func (e *Env) restart(t testing.TB) driver.Provider {
	e.provider = nil
	return e.use(t)
}

// A place is a workspace as a check holds it: with the portable API over it,
// and the driver's own side for what the contract says to drivers.
type place struct {
	*workspace.Workspace
	spec driver.Spec
	d    *driver.Workspace
}

// open opens a new workspace, which is destroyed when the check ends.
func (e *Env) open(t testing.TB, mods ...func(*driver.Spec)) *place {
	t.Helper()
	return e.openSpec(t, e.spec(mods...))
}

func (e *Env) openSpec(t testing.TB, spec driver.Spec) *place {
	t.Helper()
	d, err := e.use(t).Open(t.Context(), spec)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { d.Life.Destroy(context.WithoutCancel(t.Context())) }) // best effort; checks of Destroy are their own
	return hold(t, spec, d)
}

// resolve attaches to a workspace by its ref.
func (e *Env) resolve(t testing.TB, spec driver.Spec, ref driver.Ref) *place {
	t.Helper()
	d, err := e.use(t).Resolve(t.Context(), ref)
	if err != nil {
		t.Fatalf("Resolve: %v", err)
	}
	return hold(t, spec, d)
}

func hold(t testing.TB, spec driver.Spec, d *driver.Workspace) *place {
	t.Helper()
	ws, err := workspace.New(spec.ID, d, spec.Want, nil)
	if err != nil {
		t.Fatalf("what the provider returned is not valid: %v", err)
	}
	return &place{Workspace: ws, spec: spec, d: d}
}
