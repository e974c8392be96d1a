package workspacetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// dirs is a plain and honest provider over directories, on which the suite
// itself is tried. Its defects are what the suite must find.
type dirs struct {
	dir     string
	defects defects
}

// defects are the ways in which the provider can be wrong.
type defects struct {
	sharedFiles     bool // all workspaces have the same files
	destroyNothing  bool // Destroy is a no-op
	tornWrites      bool // Write truncates and then writes
	looseRef        bool // the payload of a ref is decoded loosely
	echoes          bool // an error repeats the payload
	takesStale      bool // older revisions are accepted
	forgets         bool // everything is gone in the next process, and the Traits deny it
	typedNil        bool // Shell is a struct around a nil
	losesUpdates    bool // IfMatch is judged, and then written without a lock
	ignoresConfig   bool // unknown keys in the config
	ignoresPolicy   bool // limits that nothing enforces, levels that it lacks
	ignoresReadOnly bool // in every change
	sweepsAll       bool // live ids, too
	sweepsForeign   bool // whatever is in the directory
	hidesHalf       bool // what a crash leaves is named so that nobody finds it
	evictsOnResolve bool // answers Evicted from Resolve
	transientGone   bool // gone files are called transient
	rawErrors       bool // errors have no code
	keepsPartial    bool // a body that fails leaves what it wrote
	leaksEnv        bool // the ref holds the environment
	leaksPolicy     bool // the ref holds a variable of the policy
	wrongDigest     bool // fs.Digest differs from what package workspace computes
	importsNothing  bool // fs.Import says that it was done
	acksEarly       bool // writes are acknowledged before they are done
	noSteps         bool // marks none
	escapes         bool // symlinks may leave
	ignoresCancel   bool // a context that ends is not noticed
	updateNotKept   bool // Update returns a ref and keeps nothing
	neverConverges  bool // Open ignores another policy
	resolvesLess    bool // Resolve builds fewer functions than Open
	wrongMetrics    bool // Metrics measures nothing, and says that it did

	files func(driver.Files) driver.Files // wraps the required functions
}

const dirKind = "dirs"

// guard serialises what the provider changes, in this process.
var guard sync.Mutex

type dirMeta struct {
	ID       string        `json:"id"`
	Revision int64         `json:"revision"`
	Policy   driver.Policy `json:"policy"`
}

type dirPayload struct {
	ID  string   `json:"id"`
	Env []string `json:"env,omitempty"`
}

func (p *dirs) Kind() string { return dirKind }

func (p *dirs) Features() driver.Features { return driver.Features{} }

func (p *dirs) Close() error { return nil }

func (p *dirs) Probe(context.Context) (driver.Traits, error) {
	no := driver.Enforcement{Reason: "there are no processes"}
	return driver.Traits{
		Isolation: driver.IsolationNone, IsolatedBy: no, Network: driver.NetworkNone, NetworkBy: no,
		Limits:     driver.NoLimits(no.Reason),
		ReadOnly:   driver.Enforcement{By: "checks in every call"},
		Durability: driver.DurableProcess,
	}, nil
}

func (p *dirs) root() string          { return filepath.Join(p.dir, "ws") }
func (p *dirs) path(id string) string { return filepath.Join(p.root(), id) }
func (p *dirs) step(ctx context.Context, s string) {
	if !p.defects.noSteps {
		driver.Step(ctx, s)
	}
}

func (p *dirs) Open(ctx context.Context, spec driver.Spec) (*driver.Workspace, error) {
	traits, _ := p.Probe(ctx)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	switch {
	case spec.Kind != dirKind && !p.defects.ignoresPolicy:
		return nil, fmt.Errorf("dirs: open kind %q: %w", spec.Kind, fault.InvalidArgument)
	case !driver.ValidID(spec.ID):
		return nil, fmt.Errorf("dirs: open id %q: %w", spec.ID, fault.InvalidArgument)
	case spec.Dir != "" || spec.From != driver.Source{}:
		return nil, fmt.Errorf("dirs: open: %w", fault.Unsupported)
	}
	if err := driver.DecodeConfig(spec, &struct{}{}); err != nil && !p.defects.ignoresConfig {
		return nil, err
	}
	if err := spec.Policy.Check(traits); err != nil && !p.defects.ignoresPolicy {
		return nil, err
	}
	guard.Lock()
	defer guard.Unlock()
	meta, err := p.meta(spec.ID)
	if errors.Is(err, fs.ErrNotExist) {
		meta = dirMeta{ID: spec.ID, Revision: 1, Policy: spec.Policy}
		err = p.create(ctx, meta)
	}
	if err != nil {
		return nil, fmt.Errorf("dirs: open: %w: %w", codeOf(err), err)
	}
	if !reflect.DeepEqual(meta.Policy, spec.Policy) && !p.defects.neverConverges {
		meta.Revision, meta.Policy = meta.Revision+1, spec.Policy
		if err := p.keep(ctx, meta); err != nil {
			return nil, err
		}
	}
	return p.build(meta)
}

// codeOf keeps a cancelled call apart from one that failed.
func codeOf(err error) fault.Code {
	if c := fault.Of(err); c == fault.Canceled {
		return c
	}
	return fault.Failed
}

func (p *dirs) create(ctx context.Context, meta dirMeta) error {
	tmp := filepath.Join(p.root(), ".new-"+meta.ID)
	if p.defects.hidesHalf {
		tmp = filepath.Join(p.root(), "half-"+meta.ID)
	}
	if err := os.RemoveAll(tmp); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(tmp, "files"), 0o755); err != nil {
		return err
	}
	p.step(ctx, "mkdir")
	if err := writeJSON(filepath.Join(tmp, "meta"), meta); err != nil {
		return err
	}
	p.step(ctx, "meta")
	if err := ctx.Err(); err != nil {
		return errors.Join(err, os.RemoveAll(tmp))
	}
	if err := os.Rename(tmp, p.path(meta.ID)); err != nil {
		return err
	}
	p.step(ctx, "rename")
	return nil
}

func writeJSON(path string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func (p *dirs) meta(id string) (dirMeta, error) {
	var meta dirMeta
	data, err := os.ReadFile(filepath.Join(p.path(id), "meta"))
	if err != nil {
		return meta, err
	}
	return meta, json.Unmarshal(data, &meta)
}

func (p *dirs) keep(ctx context.Context, meta dirMeta) error {
	p.step(ctx, "before meta")
	if err := writeJSON(filepath.Join(p.path(meta.ID), "meta"), meta); err != nil {
		return fmt.Errorf("dirs: update: %w: %w", fault.Failed, err)
	}
	p.step(ctx, "meta")
	return nil
}

func (p *dirs) build(meta dirMeta) (*driver.Workspace, error) {
	payload := dirPayload{ID: meta.ID}
	if p.defects.leaksEnv {
		payload.Env = os.Environ()
	}
	if p.defects.leaksPolicy {
		payload.Env = append(payload.Env, meta.Policy.Env["API_TOKEN"])
	}
	ref, err := driver.NewRef(dirKind, payload, driver.NewCapabilities(driver.CapFS), meta.Revision)
	if err != nil {
		return nil, err
	}
	files := filepath.Join(p.path(meta.ID), "files")
	if p.defects.sharedFiles {
		files = filepath.Join(p.dir, "shared")
		if err := os.MkdirAll(files, 0o755); err != nil {
			return nil, err
		}
	}
	traits, _ := p.Probe(context.TODO())
	f := &dirFiles{p: p, meta: meta, dir: files}
	w := &driver.Workspace{Ref: ref, Traits: traits, FS: &driver.FS{Files: f, Rename: f.rename, Chmod: f.chmod, Symlink: f.symlink}}
	if p.defects.files != nil {
		w.FS.Files = p.defects.files(f)
	}
	if p.defects.wrongDigest {
		w.FS.Digest = func(context.Context, string) (string, error) { return driver.DigestBytes(nil), nil }
	}
	if p.defects.importsNothing {
		w.FS.Import = func(context.Context, string, string, *driver.ImportOptions) (driver.ImportResult, error) {
			return driver.ImportResult{Files: 4, Dirs: 3}, nil
		}
	}
	if p.defects.typedNil {
		w.Shell = &driver.Shell{Starter: (*nilStarter)(nil)}
		w.Ref.Capabilities[driver.CapShell] = true
	}
	w.Life = driver.Life{
		Close:   func(context.Context) error { return nil },
		Destroy: func(ctx context.Context) error { return p.destroy(ctx, meta.ID) },
		Update:  func(ctx context.Context, policy driver.Policy) (driver.Ref, error) { return p.update(ctx, f, policy) },
	}
	if p.defects.wrongMetrics {
		w.Life.Metrics = func(context.Context) (driver.Metrics, error) {
			return driver.Metrics{Time: time.Now(), Disk: new(int64)}, nil
		}
	}
	return w, nil
}

type nilStarter struct{}

func (*nilStarter) Start(context.Context, driver.Command) (*driver.Session, error) {
	return nil, fault.Unsupported
}

func (p *dirs) update(ctx context.Context, f *dirFiles, policy driver.Policy) (driver.Ref, error) {
	traits, _ := p.Probe(ctx)
	if err := policy.Check(traits); err != nil {
		return driver.Ref{}, err
	}
	guard.Lock()
	defer guard.Unlock()
	meta, err := p.meta(f.meta.ID)
	if err != nil {
		return driver.Ref{}, fmt.Errorf("dirs: update: %w: %w", fault.NotFound, err)
	}
	meta.Revision, meta.Policy = meta.Revision+1, policy
	if !p.defects.updateNotKept {
		if err := p.keep(ctx, meta); err != nil {
			return driver.Ref{}, err
		}
	}
	w, err := p.build(meta)
	if err != nil {
		return driver.Ref{}, err
	}
	return w.Ref, nil
}

func (p *dirs) destroy(ctx context.Context, id string) error {
	if p.defects.destroyNothing {
		return nil
	}
	guard.Lock()
	defer guard.Unlock()
	old := filepath.Join(p.root(), ".old-"+id)
	if err := os.Rename(p.path(id), old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("dirs: destroy: %w: %w", fault.Unavailable, err)
	}
	p.step(ctx, "rename")
	if err := errors.Join(os.RemoveAll(old), os.RemoveAll(filepath.Join(p.root(), ".new-"+id))); err != nil {
		return fmt.Errorf("dirs: destroy: %w: %w", fault.Unavailable, err)
	}
	p.step(ctx, "remove")
	return nil
}

func (p *dirs) Resolve(ctx context.Context, ref driver.Ref) (*driver.Workspace, error) {
	if err := ctx.Err(); err != nil && !p.defects.ignoresCancel {
		return nil, err
	}
	var payload dirPayload
	if err := driver.DecodeRef(ref, dirKind, &payload, nil); err != nil {
		switch {
		case p.defects.echoes:
			return nil, fmt.Errorf("dirs: resolve %s %s: %w", ref.Provider, ref.Payload, fault.Failed)
		case !p.defects.looseRef || json.Unmarshal(ref.Payload, &payload) != nil:
			return nil, err
		}
	}
	if !driver.ValidID(payload.ID) {
		return nil, fmt.Errorf("dirs: the payload of the ref is not valid: %w", fault.Failed)
	}
	guard.Lock()
	defer guard.Unlock()
	meta, err := p.meta(payload.ID)
	switch {
	case err != nil && p.defects.evictsOnResolve:
		return nil, fmt.Errorf("dirs: resolve: %w", fault.Evicted)
	case err != nil && p.defects.transientGone:
		return nil, fault.Transient(fmt.Errorf("dirs: resolve: %w", fault.Failed))
	case err != nil:
		return nil, fault.WithCause(fmt.Errorf("dirs: resolve: the files are gone: %w", fault.Failed), fault.CauseGone)
	}
	if err := driver.CheckRevision(ref, meta.Revision); err != nil && !p.defects.takesStale {
		return nil, err
	}
	if err := driver.CheckCapabilities(ref, driver.NewCapabilities(driver.CapFS)); err != nil {
		return nil, err
	}
	w, err := p.build(meta)
	if err == nil && p.defects.resolvesLess {
		w.FS.Chmod = nil
	}
	return w, err
}

func (p *dirs) Sweep(ctx context.Context, live []string) error {
	if p.defects.sweepsAll {
		live = nil
	}
	if p.defects.sweepsForeign {
		return os.RemoveAll(p.dir)
	}
	entries, err := os.ReadDir(p.root())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, entry := range entries {
		id := strings.TrimPrefix(strings.TrimPrefix(entry.Name(), ".new-"), ".old-")
		// A half-made or half-removed one belongs to nobody, whatever its id.
		whole := id == entry.Name()
		if !driver.ValidID(id) || whole && slices.Contains(live, id) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(p.root(), entry.Name())); err != nil {
			return fmt.Errorf("dirs: sweep: %w: %w", fault.Unavailable, err)
		}
	}
	return nil
}

// leftovers lists what is below the directory of workspaces.
func leftovers(t testing.TB, dir string) []string {
	t.Helper()
	matches, err := filepath.Glob(filepath.Join(dir, "ws", "*"))
	hidden, err2 := filepath.Glob(filepath.Join(dir, "ws", ".*"))
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	return append(matches, hidden...)
}

func harness(d defects) Harness {
	return Harness{
		Provider: func(t testing.TB, dir string) driver.Provider {
			if d.forgets { // a place that only this very value knows
				dir = t.TempDir()
			}
			return &dirs{dir: dir, defects: d}
		},
		Leftovers: leftovers,
	}
}

//croft:race ^(Concurrency|Shell|Sessions|Watch)
func TestConformance(t *testing.T)      { Run(t, harness(defects{})) }
func BenchmarkConformance(b *testing.B) { Bench(b, harness(defects{})) }
