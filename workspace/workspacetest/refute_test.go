package workspacetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// A recorder is a test whose failures are noted and not reported.
type recorder struct {
	testing.TB

	mu       sync.Mutex
	failures []string
	skipped  string
	cleanups []func()
}

func (r *recorder) note(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, text)
}

func (r *recorder) Helper()                           {}
func (r *recorder) Log(...any)                        {}
func (r *recorder) Logf(string, ...any)               {}
func (r *recorder) Fail()                             { r.note("failed") }
func (r *recorder) Error(args ...any)                 { r.note(fmt.Sprintln(args...)) }
func (r *recorder) Errorf(format string, args ...any) { r.note(fmt.Sprintf(format, args...)) }
func (r *recorder) FailNow()                          { r.Fail(); runtime.Goexit() }
func (r *recorder) Fatal(args ...any)                 { r.Error(args...); runtime.Goexit() }
func (r *recorder) Fatalf(format string, args ...any) { r.Errorf(format, args...); runtime.Goexit() }
func (r *recorder) Skip(args ...any)                  { r.skipped = fmt.Sprint(args...); runtime.Goexit() }
func (r *recorder) Cleanup(f func())                  { r.cleanups = append(r.cleanups, f) }

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.failures) > 0
}

// record runs one check of the suite against a provider.
func record(t *testing.T, h Harness, name string) *recorder {
	t.Helper()
	at := slices.IndexFunc(Checks, func(c Check) bool { return c.Name == name })
	if at < 0 {
		t.Fatalf("there is no check %q", name)
	}
	r := &recorder{TB: t}
	var wg sync.WaitGroup
	wg.Go(func() { // Fatal ends this goroutine, not the test
		env := newSample(r, h).newEnv(r)
		reason, ok := env.needsMet(Checks[at])
		if !ok {
			r.skipped = reason
			return
		}
		Checks[at].Func(r, env)
	})
	wg.Wait()
	for _, f := range slices.Backward(r.cleanups) {
		f()
	}
	return r
}

// refutations are providers that are wrong in one way each, and the check that
// must find out.
var refutations = []struct {
	name  string
	wrong defects
	check string
}{
	{"shared files", defects{sharedFiles: true}, "Sessions/can't-read-each-other"},
	{"shared files at open", defects{sharedFiles: true}, "Sessions/a-new-id-has-nothing-of-an-old-one"},
	{"destroy nothing", defects{destroyNothing: true}, "Destroy/leaves-nothing"},
	{"destroy nothing, resolve", defects{destroyNothing: true}, "Resolve/of-what-was-destroyed-is-gone"},
	{"torn writes", defects{tornWrites: true}, "Write/is-never-seen-half-done"},
	{"loose ref", defects{looseRef: true}, "Resolve/refuses-an-unknown-key-in-the-payload"},
	{"echoes", defects{echoes: true}, "Resolve/refuses-an-unknown-key-in-the-payload"},
	{"echoes provider", defects{echoes: true}, "Resolve/refuses-a-foreign-ref"},
	{"takes stale", defects{takesStale: true}, "Update/refuses-the-older-ref"},
	{"takes stale after open", defects{takesStale: true}, "Open/with-another-policy-refuses-the-older-ref"},
	{"forgets", defects{forgets: true}, "Resolve/from-another-provider-value"},
	{"forgets when killed", defects{forgets: true}, "Resolve/after-the-opener-was-killed"},
	{"typed nil", defects{typedNil: true}, "Capabilities/no-module-is-a-typed-nil"},
	{"loses updates", defects{losesUpdates: true}, "Write/if-match-lets-one-win"},
	{"loses edits", defects{losesUpdates: true}, "Edit/concurrently-loses-none"},
	{"ignores config", defects{ignoresConfig: true}, "Open/refuses-an-unknown-config-key"},
	{"ignores limits", defects{ignoresPolicy: true}, "Open/refuses-limits-that-nothing-enforces"},
	{"ignores isolation", defects{ignoresPolicy: true}, "Open/refuses-isolation-that-it-lacks"},
	{"ignores kind", defects{ignoresPolicy: true}, "Open/refuses-another-kind"},
	{"ignores read-only", defects{ignoresReadOnly: true}, "ReadOnly/refuses-every-change"},
	{"ignores read-only on update", defects{ignoresReadOnly: true}, "Update/is-obeyed-by-the-handle"},
	{"sweeps all", defects{sweepsAll: true}, "Sweep/keeps-what-is-live"},
	{"sweeps foreign", defects{sweepsForeign: true}, "Sweep/never-touches-what-it-did-not-make"},
	{"hides half", defects{hidesHalf: true}, "Crash/in-Open-then-Sweep-leaves-nothing"},
	{"no steps", defects{noSteps: true}, "Crash/in-Open-then-Sweep-leaves-nothing"},
	{"destroy nothing when killed", defects{destroyNothing: true}, "Crash/in-Destroy-then-Destroy-ends-it"},
	{"update lost when killed", defects{updateNotKept: true}, "Crash/in-Update-then-Open-converges"},
	{"evicts on resolve", defects{evictsOnResolve: true}, "Resolve/of-what-was-destroyed-is-gone"},
	{"transient gone", defects{transientGone: true}, "Resolve/of-what-was-destroyed-is-gone"},
	{"raw errors", defects{rawErrors: true}, "Errors/have-codes-of-the-closed-set"},
	{"keeps partial", defects{keepsPartial: true}, "Write/with-a-body-that-fails-changes-nothing"},
	{"leaks environment", defects{leaksEnv: true}, "Ref/holds-no-secret-of-the-process"},
	{"leaks the policy", defects{leaksPolicy: true}, "Ref/holds-no-secret-of-the-policy"},
	{"wrong digest", defects{wrongDigest: true}, "Fallback/of-Digest-is-the-same"},
	{"wrong tree digest", defects{wrongDigest: true}, "Digest/of-a-tree-sees-every-change"},
	{"imports nothing", defects{importsNothing: true}, "Import/brings-a-tree-as-it-is"},
	{"imports whatever", defects{importsNothing: true}, "Import/refuses-what-can't-be"},
	{"imports without limits", defects{importsNothing: true}, "Import/is-all-or-nothing"},
	{"acknowledges early", defects{acksEarly: true}, "Durability/acknowledged-writes-survive-SIGKILL"},
	{"escapes", defects{escapes: true}, "Symlink/that-leaves-is-a-SandboxViolation"},
	{"ignores cancel in the driver", defects{ignoresCancel: true}, "Cancelled/calls-of-the-driver-change-nothing"},
	{"update not kept", defects{updateNotKept: true}, "Update/refuses-the-older-ref"},
	{"never converges", defects{neverConverges: true}, "Open/with-another-policy-converges"},
	{"resolves less", defects{resolvesLess: true}, "Capabilities/are-what-is-built"},
	{"measures nothing", defects{wrongMetrics: true}, "Metrics/count-the-files"},
	{"unsorted", wrap(func(f driver.Files) driver.Files { return unsorted{f} }), "ReadDir/lists-one-level-sorted"},
	{"ignores offset", wrap(func(f driver.Files) driver.Files { return wholeReads{f} }), "Read/takes-ranges"},
	{"always parents", wrap(func(f driver.Files) driver.Files { return eager{f} }), "Write/needs-the-directory-unless-asked"},
	{"always parents in mkdir", wrap(func(f driver.Files) driver.Files { return eager{f} }), "Mkdir/makes-one-directory"},
	{"always recursive", wrap(func(f driver.Files) driver.Files { return eager{f} }), "Remove/recursion-is-opt-in"},
	{"always overwrites", wrap(func(f driver.Files) driver.Files { return eager{f} }), "Write/create-only-refuses-what-exists"},
	{"any size", wrap(func(f driver.Files) driver.Files { return eager{f} }), "Write/beyond-MaxSize-changes-nothing"},
	{"any mode", wrap(func(f driver.Files) driver.Files { return eager{f} }), "Write/keeps-the-mode"},
	{"missing is empty", wrap(func(f driver.Files) driver.Files { return lenient{f} }), "Read/of-what-is-missing-is-NotFound"},
	{"folds case", wrap(func(f driver.Files) driver.Files { return folding{f} }), "Names/that-differ-in-case-are-distinct"},
}

func TestRefute(t *testing.T) {
	for _, tt := range refutations {
		t.Run(tt.name, func(t *testing.T) {
			h := harness(tt.wrong)
			if inChild(t, h) {
				return
			}
			r := record(t, h, tt.check)
			if r.skipped != "" {
				t.Fatalf("%s was skipped: %s", tt.check, r.skipped)
			}
			if !r.Failed() {
				t.Errorf("%s passes a provider that is wrong", tt.check)
			}
			for _, text := range r.failures[:min(3, len(r.failures))] {
				t.Logf("found: %.300s", text)
			}
		})
	}
}

// TestHonest records a few checks on the provider without defects: what makes
// the others fail is the defect, not that they are recorded.
func TestHonest(t *testing.T) {
	for _, check := range []string{
		"Crash/in-Destroy-then-Destroy-ends-it", "Resolve/after-the-opener-was-killed", "Ref/holds-no-secret-of-the-process",
		"Write/is-never-seen-half-done", "Sessions/can't-read-each-other",
	} {
		t.Run(check, func(t *testing.T) {
			h := harness(defects{})
			if inChild(t, h) {
				return
			}
			r := record(t, h, check)
			if r.skipped != "" || r.Failed() {
				t.Errorf("skipped: %q; failures: %q", r.skipped, r.failures)
			}
		})
	}
}

func wrap(f func(driver.Files) driver.Files) defects { return defects{files: f} }

type unsorted struct{ driver.Files }

func (f unsorted) ReadDir(ctx context.Context, name string) ([]driver.Info, error) {
	infos, err := f.Files.ReadDir(ctx, name)
	slices.Reverse(infos)
	return infos, err
}

type wholeReads struct{ driver.Files }

func (f wholeReads) Read(ctx context.Context, name string, _ *driver.ReadOptions) (io.ReadCloser, driver.Info, error) {
	return f.Files.Read(ctx, name, &driver.ReadOptions{})
}

// eager does more than it is asked to.
type eager struct{ driver.Files }

func (f eager) Write(ctx context.Context, name string, body io.Reader, opts *driver.WriteOptions) (driver.WriteResult, error) {
	return f.Files.Write(ctx, name, body, &driver.WriteOptions{Parents: true, Mode: opts.Mode, SetMode: true})
}

func (f eager) Mkdir(ctx context.Context, name string, _ *driver.MkdirOptions) error {
	return f.Files.Mkdir(ctx, name, &driver.MkdirOptions{Parents: true})
}

func (f eager) Remove(ctx context.Context, name string, _ *driver.RemoveOptions) error {
	return f.Files.Remove(ctx, name, &driver.RemoveOptions{Recursive: true})
}

// lenient takes what is missing for empty.
type lenient struct{ driver.Files }

func (f lenient) Read(ctx context.Context, name string, opts *driver.ReadOptions) (io.ReadCloser, driver.Info, error) {
	body, info, err := f.Files.Read(ctx, name, opts)
	if errors.Is(err, fault.NotFound) {
		return io.NopCloser(strings.NewReader("")), driver.Info{Path: name}, nil
	}
	return body, info, err
}

// folding does not tell upper case from lower.
type folding struct{ driver.Files }

func (f folding) Write(ctx context.Context, name string, body io.Reader, opts *driver.WriteOptions) (driver.WriteResult, error) {
	return f.Files.Write(ctx, strings.ToLower(name), body, opts)
}

func (f folding) Read(ctx context.Context, name string, opts *driver.ReadOptions) (io.ReadCloser, driver.Info, error) {
	return f.Files.Read(ctx, strings.ToLower(name), opts)
}

// TestChecks holds the list itself against its rules.
func TestChecks(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Checks {
		area, sentence, ok := strings.Cut(c.Name, "/")
		if !ok || area == "" || sentence == "" || strings.ContainsAny(c.Name, " \t") {
			t.Errorf("check %q has no name of the form Area/what-holds", c.Name)
		}
		if seen[c.Name] {
			t.Errorf("check %q is there twice", c.Name)
		}
		seen[c.Name] = true
		if c.Func == nil {
			t.Errorf("check %q does nothing", c.Name)
		}
	}
}

// TestSecretsOfHarness has a provider whose refs hold what it was configured with.
func TestSecretsOfHarness(t *testing.T) {
	t.Setenv("DATABASE_PASSWORD", "correct-horse")
	h := harness(defects{leaksEnv: true})
	if inChild(t, h) {
		return
	}
	h.Secrets = []string{"correct-horse"}
	const check = "Ref/holds-no-secret-of-the-process"
	r := record(t, h, check)
	if !slices.ContainsFunc(r.failures, func(text string) bool { return strings.Contains(text, "Secrets[0]") }) {
		t.Errorf("failures of %s are %q, want one that names Secrets[0]", check, r.failures)
	}
}
