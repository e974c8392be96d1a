package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/posix/boundary"
	"github.com/croft-run/croft/workspace/driver"
)

// Kind is the kind of this provider.
const Kind = "local"

// Config says where a provider keeps its workspaces.
type Config struct {
	// Root is the directory that holds them, made where it does not exist. It
	// may be shared with providers of other kinds. Required.
	Root string

	Log *slog.Logger // nil is silent

	// BootID names the present boot of the host; "" is what the kernel says.
	BootID string
}

// Provider opens workspaces that are directories.
type Provider struct {
	root string // absolute, and free of symlinks once it exists
	log  *slog.Logger
	boot string
	turn chan struct{} // held with the lock of the root, so that waiting ends with the context
}

var _ driver.Provider = (*Provider)(nil)

// New returns a provider that keeps its workspaces below cfg.Root.
func New(cfg *Config) (*Provider, error) {
	if cfg == nil || cfg.Root == "" {
		return nil, fmt.Errorf("local: config: %w: Root is missing", fault.InvalidArgument)
	}
	root, err := filepath.Abs(cfg.Root)
	if err != nil {
		return nil, fmt.Errorf("local: config: root %q: %w: %w", cfg.Root, fault.InvalidArgument, err)
	}
	p := &Provider{root: root, log: cfg.Log, boot: cfg.BootID, turn: make(chan struct{}, 1)}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	if p.boot == "" {
		p.boot = bootID()
	}
	return p, nil
}

// bootID is "" where the kernel has none; then no boot differs from another.
func bootID() string {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// Kind returns "local".
func (p *Provider) Kind() string { return Kind }

// Probe makes the root, locks it and opens it as a boundary.
func (p *Provider) Probe(ctx context.Context) (driver.Traits, error) {
	unlock, err := p.lock(ctx)
	if err != nil {
		return driver.Traits{}, openFailed(ctx, "probe", err)
	}
	defer unlock()
	root, err := boundary.Open(p.root, nil)
	if err != nil {
		return driver.Traits{}, openFailed(ctx, "probe", err)
	}
	return traits(), root.Close()
}

func traits() driver.Traits {
	none := driver.Enforcement{Reason: "a local workspace is a plain directory, and nothing runs in it"}
	return driver.Traits{
		Isolation:  driver.IsolationNone,
		IsolatedBy: none,
		Network:    driver.NetworkNone,
		NetworkBy:  driver.Enforcement{By: "nothing runs in a local workspace"},
		Limits: driver.LimitTraits{
			CPU: none, Memory: none, PIDs: none, Wall: none, OpenFiles: none,
			Disk: driver.Enforcement{Reason: "a plain directory has no quota"},
		},
		ReadOnly:   driver.Enforcement{By: "the boundary, which carries out no change"},
		Durability: driver.DurablePower,
		InPlace:    true,
	}
}

var capabilities = driver.NewCapabilities(driver.CapFS)

// Open makes the workspace spec.ID or returns it where it exists.
func (p *Provider) Open(ctx context.Context, spec driver.Spec) (*driver.Workspace, error) {
	if err := check(spec); err != nil {
		return nil, err
	}
	m, err := p.ensure(ctx, spec)
	if err != nil {
		return nil, openFailed(ctx, "open", err)
	}
	return p.attach(ctx, m)
}

// check refuses, before anything is made, what the provider can't do.
func check(spec driver.Spec) error {
	if spec.Kind != Kind {
		return fmt.Errorf("local: open: kind %q: %w: this provider is %q", spec.Kind, fault.InvalidArgument, Kind)
	}
	if !driver.ValidID(spec.ID) {
		return fmt.Errorf("local: open: id %q: %w: an id is %d of [a-z0-9]", spec.ID, fault.InvalidArgument, driver.IDLength)
	}
	if err := driver.DecodeConfig(spec, new(struct{})); err != nil {
		return err
	}
	if spec.From != (driver.Source{}) {
		return fmt.Errorf("local: open: a template or snapshot to start from: %w", fault.Unsupported)
	}
	if missing := capabilities.Missing(spec.Want); len(missing) > 0 {
		return fmt.Errorf("local: open: capabilities %v: %w: there is only %v", missing, fault.Failed, capabilities.Names())
	}
	if err := spec.Policy.Check(traits()); err != nil {
		return fmt.Errorf("local: open: %w", err)
	}
	return nil
}

// ensure makes the workspace or brings the one that is there to the policy.
func (p *Provider) ensure(ctx context.Context, spec driver.Spec) (*meta, error) {
	unlock, err := p.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	m, err := p.readMeta(spec.ID)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return p.create(ctx, spec)
	case err != nil:
		return nil, err
	case m.Dir != cleanDir(spec.Dir):
		return nil, fmt.Errorf("directory %q: %w: the workspace was opened with %q", spec.Dir, fault.InvalidArgument, m.Dir)
	case samePolicy(m.Policy, spec.Policy):
		return m, nil
	}
	return m, p.setPolicy(ctx, m, spec.Policy)
}

func cleanDir(dir string) string {
	if dir == "" {
		return ""
	}
	return filepath.Clean(dir)
}

// create makes a workspace under a name that says it is new, and then gives it
// its own.
func (p *Provider) create(ctx context.Context, spec driver.Spec) (*meta, error) {
	m := &meta{Version: metaVersion, Kind: Kind, ID: spec.ID, Revision: 1, Policy: spec.Policy, Boot: p.boot}
	if spec.Dir != "" {
		real, err := p.checkDir(spec.Dir)
		if err != nil {
			return nil, err
		}
		m.Dir, m.Real = cleanDir(spec.Dir), real
	}
	fresh := p.path(newPrefix + spec.ID)
	if err := removeTree(fresh); err != nil { // what a crash left
		return nil, err
	}
	if err := m.build(ctx, fresh); err != nil {
		return nil, errors.Join(err, removeTree(fresh))
	}
	if err := os.Rename(fresh, p.path(spec.ID)); err != nil {
		return nil, errors.Join(err, removeTree(fresh))
	}
	driver.Step(ctx, "renamed")
	if m.Policy.Durable {
		return m, syncPath(p.root)
	}
	return m, nil
}

// build fills the directory of a new workspace.
func (m *meta) build(ctx context.Context, dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	driver.Step(ctx, "directory made")
	if m.Dir == "" {
		if err := os.Mkdir(filepath.Join(dir, filesName), 0o755); err != nil {
			return err
		}
		driver.Step(ctx, "files made")
	}
	if err := m.write(dir); err != nil {
		return err
	}
	driver.Step(ctx, "meta written")
	return nil
}

// checkDir judges a directory to be used in place and returns where it really is.
func (p *Provider) checkDir(dir string) (string, error) {
	if !filepath.IsAbs(dir) {
		return "", fmt.Errorf("directory %q: %w: it must be an absolute path", dir, fault.InvalidArgument)
	}
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%w: Workspace path does not exist: %s", fault.NotFound, dir)
	}
	if err != nil {
		return "", fmt.Errorf("directory %q: %w: %w", dir, fault.Of(err), err)
	}
	if !info.IsDir() {
		return "", fmt.Errorf("%w: Workspace path is not a directory: %s", fault.InvalidArgument, dir)
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	root, err := filepath.EvalSymlinks(p.root)
	if err != nil {
		return "", err
	}
	if within(real, root) || within(root, real) {
		return "", fmt.Errorf("directory %q: %w: it holds the files of other workspaces, or is one of them", dir, fault.InvalidArgument)
	}
	return real, nil
}

// within reports whether a path is dir or below it. Both are clean.
func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// payload is all that a ref holds.
type payload struct {
	ID string `json:"id"`
}

// Resolve attaches to the workspace that ref names.
func (p *Provider) Resolve(ctx context.Context, ref driver.Ref) (*driver.Workspace, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("local: resolve: %w", err)
	}
	var pl payload
	if err := driver.DecodeRef(ref, Kind, &pl, p.log); err != nil {
		return nil, err
	}
	if !driver.ValidID(pl.ID) || !ref.Capabilities.Equal(capabilities) {
		return nil, fmt.Errorf("local: the payload or the capabilities of the ref are not valid: %w", fault.Failed)
	}
	m, err := p.readMeta(pl.ID)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, gone()
	}
	if err != nil {
		return nil, openFailed(ctx, "resolve", err)
	}
	if err := driver.CheckRevision(ref, m.Revision); err != nil {
		return nil, err
	}
	if ref.Revision > m.Revision {
		return nil, fmt.Errorf("local: resolve: the ref is newer than the workspace, which has lost a change of policy: %w", fault.Failed)
	}
	return p.attach(ctx, m)
}

// gone says nothing of the ref, which comes from storage that others may write.
func gone() error {
	return fault.WithCause(fmt.Errorf("local: the files of the workspace are gone: %w", fault.Failed), fault.CauseGone)
}

// openFailed makes an error one that Open and Resolve may answer. What may pass
// is transient; what the caller did wrong keeps its code.
func openFailed(ctx context.Context, verb string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("local: %s: %w", verb, ctx.Err())
	}
	var judged fault.Code
	switch code := fault.Of(err); {
	case code == fault.ResourceExhausted, code == fault.Unavailable:
		return fault.Transient(fmt.Errorf("local: %s: %w: %w", verb, fault.Failed, err))
	case errors.As(err, &judged) && code != fault.Internal:
		return fmt.Errorf("local: %s: %w", verb, err)
	}
	return fmt.Errorf("local: %s: %w: %w", verb, fault.Failed, err)
}
