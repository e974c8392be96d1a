package workspacetest

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

var openChecks = []Check{
	{"Probe/answers-the-same-twice", nil, probeTwice},
	{"Open/makes-a-valid-workspace", nil, openValid},
	{"Open/repeated-returns-the-same-workspace", needFS, openRepeated},
	{"Open/concurrently-makes-one-workspace", nil, openConcurrently},
	{"Open/starts-empty", needFS, openEmpty},
	{"Open/refuses-an-unknown-config-key", nil, openBadConfig},
	{"Open/refuses-config-that-is-not-JSON", nil, openGarbageConfig},
	{"Open/refuses-another-kind", nil, openOtherKind},
	{"Open/refuses-an-invalid-id", nil, openInvalidID},
	{"Open/refuses-limits-that-nothing-enforces", nil, openUnenforcedLimits},
	{"Open/takes-limits-as-best-effort", nil, openBestEffort},
	{"Open/refuses-negative-limits", nil, openNegativeLimits},
	{"Open/refuses-isolation-that-it-lacks", nil, openTooMuchIsolation},
	{"Open/refuses-an-unknown-isolation", nil, openUnknownIsolation},
	{"Open/refuses-what-else-it-can't-do", nil, openUnsupported},
	{"Open/refuses-an-unknown-source", nil, openUnknownSource},
	{"Open/refuses-a-directory-that-it-can't-use", needNotInPlace, openDirUnsupported},
	{"Open/in-place-uses-the-directory-and-leaves-it", allNeeds(needInPlace, needFS), openInPlace},
	{"Open/in-place-refuses-a-missing-directory", needInPlace, openInPlaceMissing},
	{"Open/cancelled-before-makes-nothing", nil, openCancelled},
	{"Open/cancelled-at-any-step-can-be-repeated", nil, openCancelledAtSteps},
}

func probeTwice(t testing.TB, e *Env) {
	p := e.sharedProvider(t)
	a, err := p.Probe(t.Context())
	wantNil(t, "Probe", err)
	b, err := p.Probe(t.Context())
	wantNil(t, "second Probe", err)
	if !reflect.DeepEqual(a, b) {
		t.Errorf("Probe answers %+v and then %+v", a, b)
	}
	if a.Isolation.Rank() < 0 {
		t.Errorf("Traits.Isolation is %q, which is no level", a.Isolation)
	}
	for _, r := range driver.Resources {
		if l := a.Limits[r.Name]; !l.Enforced() && l.Reason == "" {
			t.Errorf("Traits.Limits: nothing enforces %s, and no reason is given", r.Name)
		}
	}
	for name := range a.Limits {
		if _, known := name.Info(); !known {
			t.Errorf("Traits.Limits: %q is no resource; there are %s", name, driver.ResourceNames())
		}
	}
	e.wantNothing(t, "after Probe")
}

func openValid(t testing.TB, e *Env) {
	p := e.open(t)
	if got := p.d.Ref.Provider; got != e.Kind {
		t.Errorf("Ref.Provider is %q, want the kind %q", got, e.Kind)
	}
	if got := p.d.Ref.SchemaVersion; got != driver.SchemaVersion {
		t.Errorf("Ref.SchemaVersion is %d, want %d", got, driver.SchemaVersion)
	}
	if p.d.Traits.Isolation.Rank() < 0 {
		t.Errorf("Traits.Isolation is %q, which is no level", p.d.Traits.Isolation)
	}
	p.wantUsable(t)
}

func openRepeated(t testing.TB, e *Env) {
	first := e.open(t)
	first.write(t, "dir/file", "kept")
	again := e.openSpec(t, first.spec)
	again.wantContent(t, "dir/file", "kept")
	if got, want := again.Ref().Revision, first.Ref().Revision; got != want {
		t.Errorf("Open with the same spec moved the revision from %d to %d", want, got)
	}
	again.write(t, "other", "seen by both")
	first.wantContent(t, "other", "seen by both")
	if e.Traits.Persists() {
		e.restartProvider(t)
		e.openSpec(t, first.spec).wantContent(t, "dir/file", "kept")
	}
}

func openConcurrently(t testing.TB, e *Env) {
	const callers = 16
	p, spec := e.sharedProvider(t), e.spec()
	ds, errs := make([]*driver.Workspace, callers), make([]error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() { ds[i], errs[i] = p.Open(t.Context(), spec) })
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			t.Fatalf("caller %d of %d: Open: %v", i, callers, err)
		}
	}
	if ds[0].FS != nil {
		newTestWorkspace(t, spec, ds[0]).write(t, "shared", "by the first")
		for _, d := range ds[1:] {
			newTestWorkspace(t, spec, d).wantContent(t, "shared", "by the first")
		}
	}
	if err := ds[0].Life.Destroy(t.Context()); err != nil {
		t.Errorf("Destroy: %v", err)
	}
	e.wantNothing(t, "after concurrent Opens and one Destroy")
}

func openEmpty(t testing.TB, e *Env) {
	p := e.open(t)
	p.wantNames(t, ".")
}

// wantRefused opens a spec that must be refused before anything is created.
func (e *Env) wantRefused(t testing.TB, what string, spec driver.Spec, codes ...fault.Code) error {
	t.Helper()
	d, err := e.sharedProvider(t).Open(t.Context(), spec)
	wantCode(t, "Open with "+what, err, codes...)
	if fault.IsTransient(err) {
		t.Errorf("Open with %s: is marked transient, but repeating it can't help: %v", what, err)
	}
	if d != nil {
		if err != nil {
			t.Errorf("Open with %s: returns an error and a workspace, too", what)
		}
		d.Life.Destroy(t.Context()) // it should not exist
	}
	e.wantNothing(t, "after Open with "+what)
	return err
}

func openBadConfig(t testing.TB, e *Env) {
	spec := e.spec(func(s *driver.Spec) { s.Config = e.BadConfig })
	err := e.wantRefused(t, "an unknown key in its config", spec, fault.InvalidArgument)
	var keys map[string]json.RawMessage
	if json.Unmarshal(e.BadConfig, &keys) != nil || err == nil {
		return
	}
	for key := range keys {
		if strings.Contains(err.Error(), key) {
			return
		}
	}
	t.Errorf("the error names no key of %s: %v", e.BadConfig, err)
}

func openGarbageConfig(t testing.TB, e *Env) {
	for _, config := range []string{`{`, `nope`, `[]`, `"text"`, `{} {}`} {
		spec := e.spec(func(s *driver.Spec) { s.Config = json.RawMessage(config) })
		e.wantRefused(t, "the config "+config, spec, fault.InvalidArgument)
	}
}

func openOtherKind(t testing.TB, e *Env) {
	spec := e.spec(func(s *driver.Spec) { s.Kind = "no-such-kind" })
	e.wantRefused(t, "another kind", spec, fault.InvalidArgument)
}

func openInvalidID(t testing.TB, e *Env) {
	for _, id := range []string{
		"", "short", "../../../../etc/pass", strings.Repeat("A", driver.IDLength),
		strings.Repeat("a", driver.IDLength+1), "aaaaaaaaaaaaaaaaaaa\x00", "aaaaaaaaaaaaaaaaaaa/",
	} {
		spec := e.spec(func(s *driver.Spec) { s.ID = id })
		e.wantRefused(t, "the id "+quote(id), spec, fault.InvalidArgument)
	}
}

const plenty = 1 << 40 // more of anything than a check uses

func openUnenforcedLimits(t testing.TB, e *Env) {
	for _, name := range unenforcedLimits(e) {
		spec := e.spec(withLimit(name, driver.Limit{Max: plenty}))
		if err := e.wantRefused(t, "limit "+string(name), spec, fault.Unsupported); err != nil && !strings.Contains(err.Error(), string(name)) {
			t.Errorf("the error does not name the limit %s: %v", name, err)
		}
	}
	e.wantRefused(t, "a limit of an unknown resource", e.spec(withLimit("patience", driver.Limit{Max: 1, BestEffort: true})), fault.InvalidArgument)
}

func openBestEffort(t testing.TB, e *Env) {
	for _, name := range unenforcedLimits(e) {
		e.open(t, withLimit(name, driver.Limit{Max: plenty, BestEffort: true})).wantUsable(t)
	}
}

func openNegativeLimits(t testing.TB, e *Env) {
	for _, r := range driver.Resources {
		for _, bestEffort := range []bool{false, true} {
			spec := e.spec(withLimit(r.Name, driver.Limit{Max: -1, BestEffort: bestEffort}))
			e.wantRefused(t, "a negative limit "+string(r.Name), spec, fault.InvalidArgument)
		}
	}
	e.wantRefused(t, "a negative idle time", e.spec(func(s *driver.Spec) { s.Policy.Idle = -1 }), fault.InvalidArgument)
}

func openTooMuchIsolation(t testing.TB, e *Env) {
	traits, err := e.sharedProvider(t).Probe(t.Context())
	if err != nil {
		t.Fatalf("Probe: %v", err)
	}
	for _, level := range driver.Isolations {
		if level.Rank() > traits.Isolation.Rank() {
			e.isolatedOrRefused(t, level)
		}
	}
}

// isolatedOrRefused requests more isolation than the default. The provider may have
// it on demand, and must then report it in the traits of the workspace.
func (e *Env) isolatedOrRefused(t testing.TB, level driver.Isolation) {
	spec := e.spec(func(s *driver.Spec) { s.Policy.Isolation = level })
	ws, err := e.sharedProvider(t).Open(t.Context(), spec)
	if err != nil {
		e.wantRefused(t, "isolation "+string(level), spec, fault.Unsupported)
		return
	}
	if got := ws.Traits.Isolation; got.Rank() < level.Rank() {
		t.Errorf("Open with isolation %s: succeeded with %q, want that level or [%s]", level, got, fault.Unsupported)
	}
	if err := ws.Life.Destroy(t.Context()); err != nil {
		t.Errorf("Destroy: %v", err)
	}
}

func openUnknownIsolation(t testing.TB, e *Env) {
	e.wantRefused(t, "an unknown isolation", e.spec(func(s *driver.Spec) { s.Policy.Isolation = "moat" }), fault.InvalidArgument)
}

func openUnsupported(t testing.TB, e *Env) {
	rules := []driver.NetRule{{Host: "example.com"}}
	if e.Traits.Network != driver.NetworkPolicy {
		e.wantRefused(t, "network rules", e.spec(func(s *driver.Spec) { s.Policy.Network.Allow = rules }), fault.Unsupported)
	}
	if e.Traits.Network == driver.NetworkNone {
		e.wantRefused(t, "an open network", e.spec(func(s *driver.Spec) { s.Policy.Network.Open = true }), fault.Unsupported)
	}
	if e.Traits.Durability != driver.DurablePower {
		e.wantRefused(t, "durability", e.spec(func(s *driver.Spec) { s.Policy.Durable = true }), fault.Unsupported)
	}
	if !e.Traits.ReadOnly.Enforced() {
		e.wantRefused(t, "read-only", e.spec(func(s *driver.Spec) { s.Policy.ReadOnly = true }), fault.Unsupported)
	}
}

func openUnknownSource(t testing.TB, e *Env) {
	codes := []fault.Code{fault.Unsupported, fault.NotFound, fault.InvalidArgument, fault.Failed}
	for _, from := range []driver.Source{{Template: "no-such-template"}, {Snapshot: "no-such-snapshot"}} {
		e.wantRefused(t, "an unknown source", e.spec(func(s *driver.Spec) { s.From = from }), codes...)
	}
}

func openDirUnsupported(t testing.TB, e *Env) {
	dir := t.TempDir()
	e.wantRefused(t, "a directory in place", e.spec(func(s *driver.Spec) { s.Dir = dir }), fault.Unsupported)
}

func openInPlace(t testing.TB, e *Env) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "here"), []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	spec := e.spec(func(s *driver.Spec) { s.Dir = dir })
	p := e.openSpec(t, spec)
	p.wantContent(t, "here", "before")
	p.write(t, "new", "from inside")
	if got, err := os.ReadFile(filepath.Join(dir, "new")); err != nil || string(got) != "from inside" {
		t.Errorf("outside the new file is %q, %v", got, err)
	}
	e.resolve(t, spec, p.Ref()).wantContent(t, "here", "before")
	wantNil(t, "Destroy", p.Destroy(t.Context()))
	wantNil(t, "Sweep", e.sharedProvider(t).Sweep(t.Context(), nil))
	for _, name := range []string{"here", "new"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Errorf("a file of the directory is gone with the workspace: %v", err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("the directory holds %v (%v), want its own file and the new one", entries, err)
	}
	e.wantNothing(t, "after Destroy")
}

func openInPlaceMissing(t testing.TB, e *Env) {
	missing := filepath.Join(t.TempDir(), "missing")
	codes := []fault.Code{fault.NotFound, fault.InvalidArgument, fault.Failed}
	e.wantRefused(t, "a missing directory", e.spec(func(s *driver.Spec) { s.Dir = missing }), codes...)
	if _, err := os.Lstat(missing); err == nil {
		t.Error("the missing directory was made")
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	e.wantRefused(t, "a file as its directory", e.spec(func(s *driver.Spec) { s.Dir = file }), codes...)
	e.wantRefused(t, "a relative directory", e.spec(func(s *driver.Spec) { s.Dir = "relative/dir" }), codes...)
}

func openCancelled(t testing.TB, e *Env) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := e.sharedProvider(t)
	_, err := p.Open(ctx, e.spec())
	wantCode(t, "Open with a cancelled context", err, fault.Canceled)
	e.wantNothing(t, "after a cancelled Open")
	ws := e.open(t)
	_, err = p.Resolve(ctx, ws.Ref())
	wantCode(t, "Resolve with a cancelled context", err, fault.Canceled)
}

// openCancelledAtSteps ends the context between every two effects of Open. Open may
// succeed or fail; repeating it must succeed.
func openCancelledAtSteps(t testing.TB, e *Env) {
	p := e.sharedProvider(t)
	for at := 1; ; at++ {
		ctx, cancel := context.WithCancel(t.Context())
		step := 0
		hooked := driver.WithSteps(ctx, func(string) {
			if step++; step == at {
				cancel()
			}
		})
		spec := e.spec()
		_, err := p.Open(hooked, spec)
		cancel()
		if step < at {
			e.openSpec(t, spec)
			return
		}
		if err != nil {
			wantCode(t, "Open with a context that ended under way", err, fault.Canceled)
		}
		ws := e.openSpec(t, spec)
		ws.wantUsable(t)
		wantNil(t, "Destroy", ws.Destroy(t.Context()))
		e.wantNothing(t, "after Destroy")
	}
}
