package sandbox

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/egress"
	"github.com/croft-run/croft/internal/egress/proxies"
	"github.com/croft-run/croft/internal/host/cgroup"
	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/internal/host/guest/supervise"
	"github.com/croft-run/croft/internal/host/guestbin"
	"github.com/croft-run/croft/internal/host/wsdir"
	"github.com/croft-run/croft/provider/sandbox/internal/mount"
	"github.com/croft-run/croft/provider/sandbox/internal/protect"
	"github.com/croft-run/croft/provider/sandbox/internal/rootfs"
	"github.com/croft-run/croft/workspace/driver"
)

// Provider opens workspaces whose processes are isolated by the kernel.
type Provider struct {
	store      *wsdir.Store
	log        *slog.Logger
	cfg        Config
	ids        ids
	binary     func() (*guestbin.Binary, error)
	digest     func() (string, error) // hostDigest, once
	sysctlDir  string                 // /proc/sys, or another directory in tests
	proxies    func() *proxies.Set
	layers     *layerStore
	dirs       *hostDirs
	proofs     *proofStore
	ctx        context.Context // of the proxies; cancelled by Close
	cancel     context.CancelFunc
	onlyLevel  driver.Isolation // in tests: a host that has no other level
	beforeTest func()           // in tests: called before a level is tested
	noNotify   error            // in tests: why a guest has no notifications of seccomp
}

var _ driver.Provider = (*Provider)(nil)

// New returns a provider that keeps its workspaces below cfg.Root.
func New(cfg *Config) (*Provider, error) {
	c := Config{}
	if cfg != nil {
		c = *cfg
	}
	ground, err := wsdir.New(&wsdir.Config{Kind: Kind, Root: c.Root, Forbidden: c.Forbidden, Roots: c.Roots, Log: c.Log, BootID: c.BootID})
	if err != nil {
		return nil, err
	}
	if c.UIDBase == 0 {
		c.UIDBase = 1 << 30
	}
	if c.Lease == 0 {
		c.Lease = DefaultLease
	}
	if c.UIDBase < 1<<16 || c.Lease < 0 {
		return nil, fmt.Errorf("sandbox: config: %w: UIDBase %d must be at least 65536, and Lease %v must not be negative",
			fault.InvalidArgument, c.UIDBase, c.Lease)
	}
	if c.Isolation.Rank() < 0 {
		return nil, fault.Advise(fmt.Errorf("sandbox: config: isolation %q: %w", c.Isolation, fault.InvalidArgument),
			"the levels are %v", driver.Isolations)
	}
	p := &Provider{store: ground, log: ground.Log(), cfg: c, ids: ids{root: os.Geteuid() == 0, base: c.UIDBase}, sysctlDir: "/proc/sys"}
	p.ids.userns = &mount.Users{Base: c.UIDBase, Workload: workloadUID}
	p.layers = &layerStore{dir: cmp.Or(c.Layers, ground.Path(".layers")), snapshots: c.Snapshots, store: ground, log: p.log, ids: p.ids}
	p.dirs, p.proofs = &hostDirs{store: ground}, &proofStore{c.Cache, p.log}
	p.ctx, p.cancel = context.WithCancel(context.Background()) //nolint:forbidigo // it ends with Close
	p.proxies = sync.OnceValue(func() *proxies.Set {
		return proxies.New(p.ctx, egress.Options{
			Secrets: p.cfg.Secrets, Credentials: p.cfg.Credentials, Events: p.cfg.Events, Resolver: p.cfg.Resolver,
			RootCAs: p.cfg.RootCAs, Upstream: p.cfg.Upstream, LocalHandler: p.cfg.LocalHandler,
		}, p.log)
	})
	p.binary = sync.OnceValues(func() (*guestbin.Binary, error) { return guestbin.FindCached(c.Guest, c.Cache) })
	p.digest = sync.OnceValues(p.hostDigest)
	return p, nil
}

// Close ends what the provider runs in this process. Guests live on.
func (p *Provider) Close() error {
	p.cancel()
	p.ids.userns.Close()
	return nil
}

// Kind returns "sandbox".
func (p *Provider) Kind() string { return Kind }

// Features returns what the provider has besides its workspaces.
func (p *Provider) Features() driver.Features {
	return driver.Features{Capabilities: p.capabilities(), HasWorkspaces: p.store.HasWorkspaces, HostDir: p.store.HostDir, RunningSessions: p.runningSessions, Levels: p.levels}
}

// Probe tests the default level of isolation, from inside a guest, and the cgroup limits.
// Results are cached for the life of this process.
func (p *Provider) Probe(ctx context.Context) (driver.Traits, error) {
	unlock, err := p.store.Lock(ctx)
	if err != nil {
		return driver.Traits{}, p.store.OpenFailed(ctx, "probe", err)
	}
	unlock()
	level, err := p.chooseLevel(ctx, "")
	if err != nil {
		return driver.Traits{}, fmt.Errorf("sandbox: probe: %w", err)
	}
	probeLimits(ctx, driver.Limits{driver.ResourceMemory: {Max: 1}, driver.ResourcePIDs: {Max: 1}, driver.ResourceCPU: {Max: 1}}, p.binary)
	return p.levelTraits(level, diskLimit()), nil
}

// Open creates the workspace spec.ID or returns it if it exists.
func (p *Provider) Open(ctx context.Context, spec driver.Spec) (*driver.Workspace, error) {
	opts, l, err := p.checkSpec(ctx, spec)
	if err != nil {
		return nil, err
	}
	from, err := p.startFrom(ctx, spec, l, opts)
	if err != nil {
		return nil, err
	}
	if err := p.loadSealed(ctx, spec, opts); err != nil {
		return nil, p.store.OpenFailed(ctx, "open", err)
	}
	own, err := json.Marshal(opts)
	if err != nil {
		return nil, fmt.Errorf("sandbox: open: %w: %w", fault.Internal, err)
	}
	m, err := p.store.Ensure(ctx, spec, own, func(dir string) error {
		if err := p.ids.initDir(dir, l); err != nil {
			return err
		}
		if p.ids.hasDiskImage(l, spec.Policy) {
			return mount.MakeImage(filepath.Join(dir, imageName), spec.Policy.Limits[driver.ResourceDisk].Max, spec.Policy.Durable)
		}
		return p.extractOrigin(ctx, from, opts, dir)
	})
	if err != nil {
		return nil, p.store.OpenFailed(ctx, "open", err)
	}
	ws, err := p.attachWorkspace(ctx, m)
	return ws.Only(spec.Want), err
}

// capabilities returns the capabilities of a workspace.
func (p *Provider) capabilities() driver.Capabilities {
	return capabilities.With(driver.CapSnapshot, p.cfg.Snapshots != nil)
}

// checkSpec refuses a spec that the provider can't fulfil, before anything is created. It
// returns the options to record and the level.
func (p *Provider) checkSpec(ctx context.Context, spec driver.Spec) (*Options, *level, error) {
	if err := driver.CheckOpen(spec, Kind, p.capabilities()); err != nil {
		return nil, nil, err
	}
	opts := new(Options)
	if err := driver.DecodeConfig(spec, opts); err != nil {
		return nil, nil, err
	}
	if opts.From != "" || opts.Layers != nil || opts.Sealed != nil || opts.RootfsDir != "" {
		return nil, nil, fmt.Errorf("sandbox: open: config: %w: \"from\", \"layers\", \"sealed\" and \"rootfsDir\" can't be configured; name the snapshot in Spec.From", fault.InvalidArgument)
	}
	if opts.Git != "" && opts.Git != GitPrivate && opts.Git != GitShared {
		return nil, nil, fmt.Errorf("sandbox: open: config: git %q: %w: it is %q or %q", opts.Git, fault.InvalidArgument, GitPrivate, GitShared)
	}
	if err := opts.checkTemplate(spec); err != nil {
		return nil, nil, err
	}
	if opts.Template != "" {
		if _, err := p.store.CheckHost(opts.Template); err != nil { // Croft's data directories can't be templates
			return nil, nil, fmt.Errorf("sandbox: open: template: %w", err)
		}
	}
	if err := errors.Join(checkRealDir(spec.Dir), checkMinimums(spec.Policy.Limits)); err != nil {
		return nil, nil, fmt.Errorf("sandbox: open: %w", err)
	}
	l, err := p.checkPolicy(ctx, spec.Policy)
	for _, check := range []func() error{
		func() error { return opts.checkUser(l) },
		func() error { return opts.checkGuestPath(spec, l) },
		func() error { return p.dirs.checkBinds(spec, opts) },
		func() error { return opts.checkSockets(spec, l) },
		func() error { return p.dirs.checkCaches(spec, opts) },
		func() error { return p.checkVolumes(spec, opts, l) },
		func() error { return p.checkRootfs(ctx, spec, opts, l) },
	} {
		if err == nil {
			err = check()
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("sandbox: open: %w", err)
	}
	if p.ids.hasDiskImage(l, spec.Policy) && spec.Dir != "" {
		return nil, nil, fmt.Errorf("sandbox: open: limit disk: %w: a directory in place has no quota", fault.Unsupported)
	}
	if m, err := p.store.Read(spec.ID); err == nil {
		if err := checkDisk(m, spec.Policy); err != nil {
			return nil, nil, fmt.Errorf("sandbox: open: %w", err)
		}
	}
	return opts, l, nil
}

// checkTemplate checks the template that the workspace is to start from.
func (o *Options) checkTemplate(spec driver.Spec) error {
	if spec.From.Template != "" {
		if o.Template != "" {
			return fmt.Errorf("sandbox: open: %w: the template is given twice, in the configuration and in Spec.From", fault.InvalidArgument)
		}
		o.Template = spec.From.Template
	}
	if o.Template == "" {
		return nil
	}
	if spec.Dir != "" {
		return fmt.Errorf("sandbox: open: a directory in place with a template: %w", fault.Unsupported)
	}
	if !filepath.IsAbs(o.Template) {
		return fmt.Errorf("sandbox: open: template %q: %w: it must be the absolute path of a directory", o.Template, fault.InvalidArgument)
	}
	info, err := os.Stat(o.Template)
	if err != nil {
		return fmt.Errorf("sandbox: open: template: %w: %w", fault.Of(err), err)
	}
	if !info.IsDir() {
		return fmt.Errorf("sandbox: open: template %q: %w: it is not a directory", o.Template, fault.InvalidArgument)
	}
	o.Template = filepath.Clean(o.Template)
	return nil
}

// checkNotSystem refuses directories of the system and of whole homes, which would expose
// or change more than a project.
func checkNotSystem(dir string) error {
	if dir == "" || !filepath.IsAbs(dir) { // package wsdir checks that
		return nil
	}
	clean := filepath.Clean(dir)
	for _, taken := range append([]string{"/etc", "/proc", "/dev", "/sys", "/run", "/boot"}, rootfs.SystemDirs...) {
		if clean == taken || strings.HasPrefix(clean, taken+"/") {
			return fmt.Errorf("directory %q: %w: %s is a system directory", dir, fault.InvalidArgument, taken)
		}
	}
	switch clean {
	case "/", "/tmp", "/var", "/home", "/root", "/var/tmp":
		return fmt.Errorf("directory %q: %w: it contains more than a project; name the directory of the project", dir, fault.InvalidArgument)
	}
	if filepath.Dir(clean) == "/home" {
		return fmt.Errorf("directory %q: %w: it is a home directory, with keys and programs that run at login; name the directory of the project", dir, fault.InvalidArgument)
	}
	return nil
}

// checkRealDir is checkNotSystem for a directory and for its path without symlinks.
func checkRealDir(dir string) error {
	if err := checkNotSystem(dir); err != nil || dir == "" {
		return err
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil || real == filepath.Clean(dir) {
		return nil // package wsdir checks the rest
	}
	return checkLinkTarget(dir, real)
}

// checkLinkTarget is checkNotSystem for the target of a symlink.
func checkLinkTarget(dir, real string) error {
	if err := checkNotSystem(real); err != nil {
		return fmt.Errorf("directory %q: a symlink leads to %w", dir, err)
	}
	return nil
}

// checkMinimums refuses limits that are too low for any process.
func checkMinimums(l driver.Limits) error {
	for _, x := range []struct {
		name  driver.Resource
		least int64
		text  string
	}{
		{driver.ResourceCPU, 10, "0.01 cores"},
		{driver.ResourceMemory, 1 << 20, "1 MiB"},
		{driver.ResourceDisk, mount.MinDisk, "1 MiB"},
		{driver.ResourceOpenFiles, 8, "8"},
	} {
		if most := l[x.name].Max; most > 0 && most < x.least {
			err := fmt.Errorf("limit %s: %w: the minimum is %s", x.name, fault.InvalidArgument, x.text)
			return fault.WithHint(err, fault.HintMinimum, string(x.name))
		}
	}
	return nil
}

// checkPolicy chooses the level for a policy, and checks that it can enforce the policy.
func (p *Provider) checkPolicy(ctx context.Context, policy driver.Policy) (*level, error) {
	l, err := p.chooseLevel(ctx, policy.Isolation)
	if err != nil {
		return nil, err
	}
	if policy.Network.Open { // no level supports it
		return nil, fmt.Errorf("open network: %w: name the hosts that may be reached, or allow the host \"*\"", fault.Unsupported)
	}
	probeLimits(ctx, policy.Limits, p.binary)
	return l, policy.Check(p.levelTraits(l, diskEnforcement(policy, true)))
}

// Names in the directory of a workspace, besides those of package wsdir.
const (
	logName   = "log"
	tmpName   = "tmp"   // temporary files, at isolation process, which has no mounts
	layerName = "layer" // with a template: the directories upper and work of overlayfs
)

// initDir creates the log directory of a new workspace.
func (i ids) initDir(dir string, l *level) error {
	logs := filepath.Join(dir, logName)
	if err := os.Mkdir(logs, 0o700); err != nil {
		return err
	}
	if owner := i.logOwner(l); owner != 0 {
		if err := os.Chown(logs, owner, owner); err != nil {
			return err
		}
	}
	return nil
}

// logOwner returns the uid of the logs at a level; 0 is this process's user.
func (i ids) logOwner(l *level) int {
	if i.root && l.mapsIDs {
		return i.base
	}
	return 0
}

// chownLogs gives the logs to the uid of the guest on the host, which depends on the level.
func (i ids) chownLogs(l *level, logs string) error {
	if !i.root {
		return nil
	}
	owner := i.logOwner(l)
	info, err := os.Stat(logs)
	if err != nil {
		return err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) == owner {
		return nil
	}
	entries, err := os.ReadDir(logs)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.Lchown(filepath.Join(logs, e.Name()), owner, owner); err != nil {
			return err
		}
	}
	return os.Chown(logs, owner, owner)
}

// chownInside gives a directory to a uid inside.
func (i ids) chownInside(dir string, uid int) error {
	if !i.root {
		return nil // the guest is this user
	}
	return os.Chown(dir, i.base+uid, i.base+uid)
}

// resetLayer creates the directories upper and work of an overlayfs. It removes an old
// work directory, which after a crash overlayfs may refuse.
func (i ids) resetLayer(layer string) error {
	work := filepath.Join(layer, "work")
	if err := files.RemoveTree(work); err != nil {
		return err
	}
	for _, d := range []struct {
		path string
		uid  int
	}{{layer, 0}, {work, 0}, {filepath.Join(layer, "upper"), workloadUID}} {
		if os.Mkdir(d.path, 0o755) != nil { // it may be there
			if err := os.MkdirAll(d.path, 0o755); err != nil {
				return err
			}
		}
		if err := i.chownInside(d.path, d.uid); err != nil {
			return err
		}
	}
	return nil
}

// Resolve attaches to the workspace that ref names.
func (p *Provider) Resolve(ctx context.Context, ref driver.Ref) (*driver.Workspace, error) {
	var pl driver.RefID
	m, err := p.store.Resolve(ctx, ref, &pl, &pl.ID, p.capabilities())
	if err != nil {
		return nil, err
	}
	ws, err := p.attachWorkspace(ctx, m)
	return ws.Only(ref.Capabilities), err
}

// attachWorkspace opens an existing workspace, for Open and Resolve.
func (p *Provider) attachWorkspace(ctx context.Context, m *wsdir.State) (*driver.Workspace, error) {
	l, err := p.checkPolicy(ctx, m.Policy)
	if err != nil {
		return nil, p.store.OpenFailed(ctx, "attach", err)
	}
	if m, err = p.completeInterrupted(ctx, m); err != nil {
		return nil, p.store.OpenFailed(ctx, "attach", err)
	}
	h := &handle{p: p, id: m.ID}
	if err := driver.DecodeStrict(m.Own, &h.opts); err != nil {
		return nil, fmt.Errorf("sandbox: attach: the options in the state of the workspace are not valid: %w", fault.Failed)
	}
	wsdir.MakeUsable(p.store.Path(m.ID, layerName, "upper"))
	if h.dir, err = p.store.Attach(ctx, m, wsdir.OpenDirectory); err != nil {
		return nil, err
	}
	h.autorun = &protect.Workspace{
		ID: m.ID, Dir: p.store.Dir(m.ID), Shows: m.Dir != "" || len(h.opts.Binds) > 0, Shared: h.opts.Git == GitShared,
		Context: p.ctx, Log: p.log, Events: p.cfg.Events, OpenDir: p.dirs.open, Freeze: h.acquireFreeze, Behind: h.dir.AfterCrash(),
	}
	h.att = supervise.NewAttachment(h.dir, p.store.Dir(m.ID), h.connectGuest)
	h.viaGuestMount = m.Dir != "" && !l.noMounts || p.ids.hasDiskImage(l, m.Policy)
	h.dir.Via = h.filesModule
	h.canImport = p.canImport(l, m)
	ref, err := p.newRef(m)
	if err != nil {
		return nil, errors.Join(err, h.dir.Close())
	}
	life := driver.Life{Close: h.close, Destroy: h.destroy, Update: h.update, Metrics: h.metrics}
	if life.NoPause = h.noPause(l); life.NoPause == "" {
		life.Pause = func(ctx context.Context) error { return h.setPaused(ctx, "pause", true) }
		life.Resume = func(ctx context.Context) error { return h.setPaused(ctx, "resume", false) }
	}
	if p.cfg.Snapshots != nil {
		life.Snapshot = h.snapshotAdapter(l, m).Module()
		life.Snapshot.NoCheckpoint = fmt.Sprintf("isolation %s runs processes on the kernel of this host, which does not save them", l.name)
		if l.name == driver.IsolationGVisor {
			// It saves processes, but restores none in a user namespace, in which Croft always runs
			// it, so that an escape from gVisor has no rights on the host.
			life.Snapshot.NoCheckpoint = "gVisor restores no processes in rootless mode, in which Croft runs it"
		}
	}
	files := h.dir.FS()
	if h.canImport {
		files.Import, files.Protect = h.importDir(files.Import), h.protectImported
	}
	if h.opts.Template != "" {
		files.ChangedPaths = h.changedPaths
	}
	if h.autorun.Shows && !h.autorun.Shared {
		files.GitDirs = h.gitDirs
	}
	shell := driver.ForwardShell(driver.Ask(h.shell))
	if l.noMounts { // the workload has no sockets but Unix sockets
		shell.Dial = nil
	}
	return &driver.Workspace{
		Ref:    ref,
		Traits: p.workspaceTraits(l, m, h.opts),
		Life:   life,
		FS:     files,
		Shell:  shell,
	}, nil
}

func (p *Provider) newRef(m *wsdir.State) (driver.Ref, error) {
	return driver.NewRef(Kind, driver.RefID{ID: m.ID}, p.capabilities(), m.Revision)
}

func (p *Provider) workspaceTraits(l *level, m *wsdir.State, opts Options) driver.Traits {
	t := p.levelTraits(l, diskEnforcement(m.Policy, opts.Throwaway))
	t.Root = workspaceAt(m.Dir, &opts)
	t.InPlace = len(opts.lowerDirs()) == 0
	if l.noMounts {
		t.Root = p.store.Files(m)
	}
	t.Damaged = p.store.Damaged(m)
	return t
}

// Sweep ends the guests of workspaces that are not in live, and removes their directories,
// stale cgroups, unused layers and other leftovers of crashes. Directories of providers of
// other kinds stay.
func (p *Provider) Sweep(ctx context.Context, live []string) error {
	return errors.Join(p.store.Sweep(ctx, live, p.endGuest), cleanProbes(), cgroup.RemoveStale(time.Now()), p.layers.sweep(ctx, live))
}
