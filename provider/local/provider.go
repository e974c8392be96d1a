package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/internal/host/guestbin"
	"github.com/croft-run/croft/internal/host/process"
	"github.com/croft-run/croft/internal/host/wsdir"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

// Kind is the kind of this provider.
const Kind = "local"

// Config says where a provider keeps its workspaces.
type Config struct {
	// Root is the directory of the workspaces. It is created if it does not exist,
	// and may be shared with providers of other kinds. Required.
	Root string

	// Forbidden are directories, besides Root, that no workspace may use in place,
	// neither they nor a directory in them or above them: Croft's data directories.
	Forbidden []string

	// Roots are the directories of the host in which directories in place must lie.
	// nil allows any; an empty list allows no directory.
	Roots []string

	// Guest is the path of croft-guest, which runs commands; "" looks for it, see
	// package guestbin. Without one, workspaces have files alone, unless commands are
	// children of this process.
	Guest string

	// InProcess runs commands as children of this process, without a guest: they end with
	// the last handle of their workspace. Systems without guests, all but Linux, always do
	// so; on Linux it is for tests.
	InProcess bool

	// SandboxExec is the program that isolates commands of this process where a policy asks
	// for isolation process; "" is that of macOS, and none elsewhere. It is tested before
	// its first use.
	SandboxExec string

	// AllowEnv are variables, or patterns such as "*_API_KEY", that a command may be given
	// although they hold secrets or load code: see cmdpolicy.DefaultEnvDeny.
	AllowEnv []string

	// Lease is how long a guest lives while no process has its workspace open;
	// 0 means 15 minutes.
	Lease time.Duration

	// Snapshots is the store of snapshots; nil means no snapshots.
	Snapshots *snapshot.Store

	Log *slog.Logger // nil is silent

	// BootID identifies the present boot of the host; "" reads it from the kernel.
	BootID string
}

// Provider opens workspaces that are directories.
type Provider struct {
	store       *wsdir.Store
	log         *slog.Logger
	lease       time.Duration
	guestBinary func() (*guestbin.Binary, error)
	allowEnv    []string

	inProcess bool         // commands are children of this process
	tree      process.Tree // of such commands; nil is the default of package process
	processes processSet
	seatbelt  *seatbelt // nil without sandbox-exec

	snapshots *snapshot.Store
}

var (
	_ driver.Provider       = (*Provider)(nil)
	_ snapshot.Configurable = (*Provider)(nil)
)

// New returns a provider that keeps its workspaces below cfg.Root.
func New(cfg *Config) (*Provider, error) {
	if cfg == nil {
		cfg = new(Config)
	}
	ground, err := wsdir.New(&wsdir.Config{Kind: Kind, Root: cfg.Root, Forbidden: cfg.Forbidden, Roots: cfg.Roots, Log: cfg.Log, BootID: cfg.BootID})
	if err != nil {
		return nil, err
	}
	p := &Provider{store: ground, log: ground.Log(), lease: cfg.Lease, snapshots: cfg.Snapshots, allowEnv: slices.Clone(cfg.AllowEnv), inProcess: cfg.InProcess || !hasGuests}
	if p.lease == 0 {
		p.lease = DefaultLease
	}
	p.seatbelt = newSeatbelt(cfg.SandboxExec, append([]string{ground.Path()}, cfg.Forbidden...))
	path := cfg.Guest
	p.guestBinary = sync.OnceValues(func() (*guestbin.Binary, error) { return findGuest(path) })
	return p, nil
}

// SetSnapshots implements snapshot.Configurable.
func (p *Provider) SetSnapshots(store *snapshot.Store) { p.snapshots = store }

// DefaultLease is the default of Config.Lease.
const DefaultLease = 15 * time.Minute

// Kind returns "local".
func (p *Provider) Kind() string { return Kind }

// Close does nothing: the provider runs nothing of its own in this process.
func (p *Provider) Close() error { return nil }

// Features returns what the provider has besides its workspaces.
func (p *Provider) Features() driver.Features {
	return driver.Features{Capabilities: p.capabilities(), OnlyNamed: true, HasWorkspaces: p.store.HasWorkspaces, HostDir: p.store.HostDir, RunningSessions: p.runningSessions}
}

// Probe creates the root, locks it and opens it.
func (p *Provider) Probe(ctx context.Context) (driver.Traits, error) {
	unlock, err := p.store.Lock(ctx)
	if err != nil {
		return driver.Traits{}, p.store.OpenFailed(ctx, "probe", err)
	}
	defer unlock()
	root, err := files.Open(p.store.Path(), nil)
	if err != nil {
		return driver.Traits{}, p.store.OpenFailed(ctx, "probe", err)
	}
	t := p.hostTraits(p.capabilitiesFor(nil))
	if p.seatbelt != nil && p.inProcess {
		more := "; a policy can ask for isolation process, by sandbox-exec, which was tested"
		if err := p.seatbelt.prove(ctx); err != nil {
			more = "; isolation process does not work: " + err.Error()
		}
		t.IsolatedBy.Reason += more
	}
	return t, root.Close()
}

// hostTraits returns the traits of workspaces with the given capabilities.
func (p *Provider) hostTraits(caps driver.Capabilities) driver.Traits {
	none := driver.Enforcement{Reason: "a local workspace is a plain directory, and nothing runs in it"}
	t := driver.Traits{
		Isolation:  driver.IsolationNone,
		IsolatedBy: none,
		Network:    driver.NetworkNone,
		NetworkBy:  driver.Enforcement{By: "nothing runs in a local workspace"},
		Limits:     driver.NoLimits(none.Reason),
		ReadOnly:   driver.Enforcement{By: "checks before each change"},
		Durability: driver.DurablePower,
		InPlace:    true,
	}
	quota := driver.Enforcement{Reason: "a plain directory has no quota"}
	t.Limits[driver.ResourceDisk] = quota
	if !caps.Has(driver.CapShell) {
		return t
	}
	open := driver.Enforcement{Reason: "commands run as Croft's user; the command policy checks only how they are called"}
	t.IsolatedBy, t.NetworkBy, t.Network = open, open, driver.NetworkOpen
	t.Limits = driver.NoLimits(open.Reason)
	t.Limits[driver.ResourceDisk] = quota
	t.Limits[driver.ResourceWall] = driver.Enforcement{By: "the guest, which kills the whole process tree"}
	if p.inProcess {
		t.Limits[driver.ResourceWall] = driver.Enforcement{By: "croft, which kills the process tree"}
		if runtime.GOOS != "linux" {
			t.Limits[driver.ResourceWall] = driver.Enforcement{By: "croft, which kills the process group; a process that leaves the group is not found"}
		}
		t.SessionsEnd = true
	}
	t.Limits[driver.ResourceOpenFiles] = driver.Enforcement{By: "a hard resource limit of each process"}
	t.ReadOnly = driver.Enforcement{By: "checks before each change, and no command is run"}
	t.Streaming = true
	return t
}

// capabilities returns the capabilities of a workspace, unless the spec wants fewer.
func (p *Provider) capabilities() driver.Capabilities { return p.capabilitiesFor(nil) }

// canRun returns why there are no commands: they require a guest, or run in this process.
func (p *Provider) canRun() error {
	if p.inProcess {
		return nil
	}
	_, err := p.guestBinary()
	return err
}

// capabilitiesFor returns the capabilities of a workspace whose spec wants want.
func (p *Provider) capabilitiesFor(want driver.Capabilities) driver.Capabilities {
	wants := func(c driver.Capability) bool { return len(want.Names()) == 0 || want.Has(c) }
	caps := driver.NewCapabilities(driver.CapFS).With(driver.CapShell, wants(driver.CapShell) && p.canRun() == nil)
	return caps.With(driver.CapSnapshot, wants(driver.CapSnapshot) && p.snapshots != nil)
}

// Open creates the workspace spec.ID or returns it if it exists.
func (p *Provider) Open(ctx context.Context, spec driver.Spec) (*driver.Workspace, error) {
	caps := p.capabilitiesFor(spec.Want)
	if err := p.checkSpec(ctx, spec, caps); err != nil {
		return nil, err
	}
	own, err := p.encodeOwn(spec)
	if err != nil {
		return nil, err
	}
	m, err := p.store.Ensure(ctx, spec, own, p.extractOrigin(ctx, spec))
	if err != nil {
		return nil, p.store.OpenFailed(ctx, "open", err)
	}
	ws, err := p.attachWorkspace(ctx, m, caps)
	return ws.Only(spec.Want), err
}

// checkSpec refuses a spec that the provider can't fulfil, before anything is created.
func (p *Provider) checkSpec(ctx context.Context, spec driver.Spec, caps driver.Capabilities) error {
	if err := driver.CheckOpen(spec, Kind, spec.Want); err != nil { // what is missing is checked below, with the reason
		return err
	}
	if spec.From.Template != "" {
		return fmt.Errorf("local: open: a template to start from: %w", fault.Unsupported)
	}
	if spec.From.Snapshot != "" && (p.snapshots == nil || spec.Dir != "") {
		return fmt.Errorf("local: open: a snapshot to start from: %w: there is no snapshot store, or the directory is in place", fault.Unsupported)
	}
	if missing := caps.Missing(spec.Want); len(missing) > 0 {
		return fmt.Errorf("local: open: capabilities %v: %w: there is only %v%s", missing, fault.Failed, caps.Names(), reasonSuffix(p.canRun()))
	}
	if err := p.checkPolicy(ctx, spec.Policy, caps); err != nil {
		return fmt.Errorf("local: open: %w", err)
	}
	return nil
}

// checkPolicy refuses a policy that can't be enforced.
func (p *Provider) checkPolicy(ctx context.Context, policy driver.Policy, caps driver.Capabilities) error {
	if caps.Has(driver.CapShell) {
		if err := p.isolationError(ctx, policy); err != nil {
			return err
		}
	}
	return policy.Check(p.policyTraits(ctx, policy, caps))
}

// policyTraits returns the traits of workspaces with a policy.
func (p *Provider) policyTraits(ctx context.Context, policy driver.Policy, caps driver.Capabilities) driver.Traits {
	t := p.hostTraits(caps)
	if caps.Has(driver.CapShell) && isolated(policy) && p.seatbelt != nil && p.seatbelt.prove(ctx) == nil {
		p.seatbelt.addTraits(&t, policy.Network)
	}
	return t
}

func reasonSuffix(err error) string {
	if err == nil {
		return ""
	}
	return "; " + err.Error()
}

// Resolve attaches to the workspace that ref names.
func (p *Provider) Resolve(ctx context.Context, ref driver.Ref) (*driver.Workspace, error) {
	var pl driver.RefID
	has := p.capabilities()
	has[driver.CapShell] = true // its absence is an error of its own, with the reason
	m, err := p.store.Resolve(ctx, ref, &pl, &pl.ID, has)
	if err != nil {
		return nil, err
	}
	if ref.Capabilities.Has(driver.CapShell) {
		if err := p.canRun(); err != nil {
			return nil, fmt.Errorf("local: resolve: the workspace was opened with commands: %w: %w", fault.Failed, err)
		}
	}
	ws, err := p.attachWorkspace(ctx, m, p.capabilitiesFor(ref.Capabilities))
	return ws.Only(ref.Capabilities), err
}

// attachWorkspace opens an existing workspace, for Open and Resolve.
func (p *Provider) attachWorkspace(ctx context.Context, m *wsdir.State, caps driver.Capabilities) (*driver.Workspace, error) {
	h := &handle{p: p, caps: caps}
	err := p.recoverRollback(ctx, m)
	if err != nil {
		return nil, p.store.OpenFailed(ctx, "attach", err)
	}
	if h.dir, err = p.store.Attach(ctx, m, wsdir.OpenDirectory); err != nil {
		return nil, err
	}
	ws := &driver.Workspace{Life: driver.Life{Close: h.close, Destroy: h.destroy, Update: h.update, Metrics: h.metrics}, FS: h.dir.FS(), Traits: p.workspaceTraits(ctx, m, caps)}
	if caps.Has(driver.CapSnapshot) {
		ws.Life.Snapshot = h.snapshotAdapter(m).Module()
	}
	if ws.Ref, err = newRef(m, caps); err == nil && caps.Has(driver.CapShell) {
		h.shell = p.newShell(h.dir, m)
		ws.Shell = h.shell.shellModule()
	}
	if fault.Of(err) == fault.NotFound { // destroyed since it was read
		err = p.store.Gone()
	}
	if err != nil {
		return nil, errors.Join(p.store.OpenFailed(ctx, "attach", err), h.dir.Close())
	}
	return ws, nil
}

func newRef(m *wsdir.State, caps driver.Capabilities) (driver.Ref, error) {
	return driver.NewRef(Kind, driver.RefID{ID: m.ID}, caps.Clone(), m.Revision)
}

func (p *Provider) workspaceTraits(ctx context.Context, m *wsdir.State, caps driver.Capabilities) driver.Traits {
	t := p.policyTraits(ctx, m.Policy, caps)
	t.Root = p.store.Files(m)
	if m.Dir != "" && !caps.Has(driver.CapShell) {
		t.Root = m.Dir
	}
	t.Damaged = p.store.Damaged(m)
	return t
}

// A handle is an open workspace.
type handle struct {
	p     *Provider
	caps  driver.Capabilities
	dir   *wsdir.Handle
	shell *shell // nil without commands
	disk  wsdir.DiskUse
}

// update changes the policy. It ends a guest, or commands, that can't apply the new one.
func (h *handle) update(ctx context.Context, policy driver.Policy) (driver.Ref, error) {
	if err := h.p.checkPolicy(ctx, policy, h.caps); err != nil {
		return driver.Ref{}, fmt.Errorf("local: update: %w", err)
	}
	m, err := h.dir.Update(ctx, policy)
	if err == nil && h.shell != nil {
		err = h.shell.update(context.WithoutCancel(ctx), m)
	}
	if err != nil {
		return driver.Ref{}, fmt.Errorf("local: update: %w", err)
	}
	return newRef(m, h.caps)
}

// metrics measures the processes that the guest has started, where there are commands, and the
// files by a walk.
func (h *handle) metrics(ctx context.Context) (driver.Metrics, error) {
	out := driver.Metrics{Time: time.Now().UTC()}
	if h.shell != nil {
		h.shell.measure(&out)
	}
	if m := h.dir.State(); m.Dir == "" { // one of the user may be large
		out.Disk = h.disk.Bytes(ctx, h.p.store.Dir(m.ID).Path)
	}
	return out, nil
}

// close closes the workspace. Its guest lives on; commands of this process end with the last
// handle.
func (h *handle) close(ctx context.Context) error {
	h.disk.Stop()
	if h.shell != nil {
		if err := h.shell.close(ctx); err != nil {
			return err
		}
	}
	return h.dir.Close()
}

// destroy ends what runs and removes the workspace. A directory in place stays.
func (h *handle) destroy(ctx context.Context) error {
	h.disk.Stop()
	if h.shell != nil {
		if err := h.shell.ExpectEnd(ctx); err != nil {
			return err
		}
	}
	if err := h.dir.Destroy(ctx, h.p.endCommands); err != nil {
		return fmt.Errorf("local: destroy: %w", err)
	}
	if h.shell != nil {
		return h.shell.close(ctx)
	}
	return nil
}

// Sweep ends what runs in workspaces that are not in live, and removes their directories and
// leftovers of crashes. Directories of providers of other kinds stay.
func (p *Provider) Sweep(ctx context.Context, live []string) error {
	return p.store.Sweep(ctx, live, p.endCommands)
}
