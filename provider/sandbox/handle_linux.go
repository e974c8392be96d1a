package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/egress/proxies"
	"github.com/croft-run/croft/internal/host/cgroup"
	"github.com/croft-run/croft/internal/host/guest/supervise"
	"github.com/croft-run/croft/internal/host/wsdir"
	"github.com/croft-run/croft/provider/sandbox/internal/gitdir"
	"github.com/croft-run/croft/provider/sandbox/internal/protect"
	"github.com/croft-run/croft/workspace/driver"
)

// A handle is an open workspace: its files, and its guest once one was needed.
type handle struct {
	p   *Provider
	id  string
	dir *wsdir.Handle

	att *supervise.Attachment[*guestConn]

	canImport     bool        // directories may be imported by mount, as long as the files are no overlayfs
	viaGuestMount bool        // files are always reached through the guest's mount
	proxy         proxies.Ref // used while att is locked
	autorun       *protect.Workspace
	disk          wsdir.DiskUse

	mu        sync.Mutex
	opts      Options   // guarded by mu
	nextCheck time.Time // guarded by mu: of the mounts, for calls of module FS, at the earliest
}

// currentOptions returns the options of the workspace, which Seal changes.
func (h *handle) currentOptions() Options {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.opts
}

// filesInMount reports whether files are reached through the guest's mount.
func (h *handle) filesInMount() bool {
	o := h.currentOptions()
	return h.viaGuestMount || len(o.lowerDirs()) > 0 || h.hasImports()
}

// filesModule returns the module that serves calls for files: see the package doc.
func (h *handle) filesModule(ctx context.Context) (*driver.FS, error) {
	if !h.filesInMount() {
		return h.dir.Direct(), nil
	}
	g, err := h.guestForFiles(ctx)
	if err != nil {
		return nil, err
	}
	if h.hasImports() {
		return h.importsModule(g), nil
	}
	return g.files, nil
}

// connectGuest adopts or starts the guest of the workspace; see supervise.Attachment.
func (h *handle) connectGuest(ctx context.Context) (*guestConn, error) {
	m := h.dir.State()
	l, err := h.p.checkPolicy(ctx, m.Policy)
	if err != nil {
		return nil, fmt.Errorf("sandbox: start the guest: %w", err)
	}
	want, err := h.p.newLaunchSpec(l, &m, h.currentOptions())
	if err != nil {
		return nil, err
	}
	want.commitGuard = h.dir.CommitGuard(&m)
	if !l.noMounts { // there, no port inside reaches a proxy
		if err := h.proxy.Acquire(ctx, h.p.proxies(), h.id, h.p.proxyPaths(h.id), m.Policy.Network); err != nil {
			return nil, fmt.Errorf("sandbox: %w", err)
		}
	}
	if _, err := h.thawUnused(ctx, supervise.ReadRecord(h.att.Dir)); err != nil {
		return nil, err
	}
	g, err := h.adoptOrStart(ctx, want, h.autorun.Watch(want.writableDirs()))
	if err != nil {
		return nil, err
	}
	if err := h.completeRollback(ctx, g); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	if l.gvisor {
		g.Relay(func(ctx context.Context) (net.Conn, error) { return h.p.proxies().Dial(ctx, h.id) })
	}
	h.watchFreeze(g)
	g.autorun.Start()
	return g, nil
}

// adoptOrStart adopts the guest, or starts it, and mounts the imports in it. It requires
// the guest lock.
func (h *handle) adoptOrStart(ctx context.Context, want *launchSpec, autorun *protect.Guest) (g *guestConn, err error) {
	defer func() {
		if g == nil {
			autorun.Close()
		}
	}()
	if !want.throwaway {
		if g, err = h.p.adoptGuest(ctx, h.att.Dir, want); err != nil {
			return nil, fmt.Errorf("sandbox: %w", err)
		}
	}
	if g == nil {
		h.autorun.ReportLeftovers()
		if g, err = h.p.startGuest(ctx, h.att.Dir, want); err != nil {
			return nil, err
		}
		h.autorun.Started(want.autorun.State, want.throwaway)
	}
	g.autorun = autorun
	if !want.level.noMounts && want.showsHostDirs() {
		err = autorun.Attach(g.Client, &want.autorun, func() (int, error) { return g.pid(h.att.Dir, want) })
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("sandbox: open the files: %w: %w", fault.Failed, err), g.Close())
	}
	if h.hasImports() {
		if err := h.restoreImports(ctx, g); err != nil {
			return nil, errors.Join(err, g.Close())
		}
	}
	return g, nil
}

// update changes the policy. It ends a guest that can't apply the new one.
func (h *handle) update(ctx context.Context, policy driver.Policy) (driver.Ref, error) {
	l, err := h.p.checkPolicy(ctx, policy)
	if now := h.dir.State(); err == nil {
		if err = checkMinimums(policy.Limits); err == nil {
			err = checkDisk(&now, policy)
		}
	}
	if err != nil {
		return driver.Ref{}, fmt.Errorf("sandbox: update: %w", err)
	}
	m, err := h.dir.Update(ctx, policy)
	if err != nil {
		return driver.Ref{}, fmt.Errorf("sandbox: update: %w", err)
	}
	if err := h.endOutdatedGuest(ctx, l, m); err != nil {
		return driver.Ref{}, fmt.Errorf("sandbox: update: %w", err)
	}
	return h.p.newRef(m)
}

// endOutdatedGuest ends the guest if its launch spec differs from that of m.
func (h *handle) endOutdatedGuest(ctx context.Context, l *level, m *wsdir.State) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), supervise.EndTimeout)
	defer cancel()
	unlock, err := h.att.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := h.p.proxies().Update(h.id, m.Policy.Network); err != nil {
		return err
	}
	want, err := h.p.newLaunchSpec(l, m, h.currentOptions())
	if err != nil {
		return err
	}
	return h.att.EndIfChanged(ctx, want.key, hooks)
}

// close closes the workspace. Its guest lives on.
func (h *handle) close(ctx context.Context) error {
	h.disk.Stop()
	h.autorun.QueueLast()
	return errors.Join(h.releaseGuest(context.WithoutCancel(ctx)), h.dir.Close())
}

func (h *handle) releaseGuest(ctx context.Context) error {
	return h.att.Close(ctx, func() error {
		h.proxy.Release(ctx)
		return nil
	})
}

// destroy ends the guest and removes the workspace. A directory in place stays.
func (h *handle) destroy(ctx context.Context) error {
	h.disk.Stop()
	h.autorun.Changes(true)
	if err := h.att.ExpectEnd(ctx); err != nil {
		return err
	}
	if err := h.dir.Destroy(ctx, h.p.endGuest); err != nil {
		return fmt.Errorf("sandbox: destroy: %w", err)
	}
	return h.releaseGuest(ctx)
}

// noPause says why the workspace has no cgroup freezer, "" if it has one.
func (h *handle) noPause(l *level) string {
	switch err := cgroup.Find(cgroup.Freezer).Err; {
	case l.gvisor:
		return "what runs in gVisor is not frozen"
	case h.opts.Throwaway:
		return "the workspace is for one command"
	case err != nil:
		return "this user has no control group to freeze processes in: " + err.Error()
	}
	return ""
}

// lockUnfrozen waits until no process has a reference on the freeze, and returns with the
// guest lock: the last unfreeze would thaw a paused workspace.
func (h *handle) lockUnfrozen(ctx context.Context, verb string) (io.Closer, error) {
	for {
		lock, err := supervise.Lock(ctx, h.att.Dir.Path)
		if err != nil {
			return nil, fmt.Errorf("sandbox: %s: lock the guest: %w", verb, err)
		}
		inUse, err := h.thawUnused(ctx, supervise.ReadRecord(h.att.Dir))
		if err == nil && !inUse {
			return lock, nil
		}
		if err = errors.Join(err, lock.Close()); err != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("sandbox: %s: %w", verb, ctx.Err())
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// setPaused freezes the cgroup of the workspace, whose files can still be used, or thaws it. It
// records the pause in the state before that. A crash
// in between leaves a workload that runs, or one that the next process thaws.
func (h *handle) setPaused(ctx context.Context, verb string, frozen bool) error {
	if err := h.dir.Current(); err != nil {
		return err
	}
	lock, err := h.lockUnfrozen(ctx, verb)
	if err != nil {
		return err
	}
	defer lock.Close()
	rec := supervise.ReadRecord(h.att.Dir)
	if rec == nil {
		return nil // nothing runs
	}
	group, ok := cgroup.FreezerOf(rec.Groups)
	if !ok {
		return nil
	}
	rec.Paused = frozen
	if err := rec.Write(ctx, h.att.Dir); err != nil {
		return fmt.Errorf("sandbox: %s: %w: %w", verb, fault.Of(err), err)
	}
	if err := cgroup.SetFrozen(ctx, group, frozen); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("sandbox: %s: %w: %w", verb, fault.Of(err), err)
	}
	return nil
}

// gitDirs lists the private copies of the workspace.
func (h *handle) gitDirs(ctx context.Context) ([]driver.GitDir, error) {
	if _, err := h.att.Guest(ctx); err != nil { // which makes them
		return nil, err
	}
	m, err := h.att.Dir.Read()
	if err != nil {
		return nil, fmt.Errorf("sandbox: read the private Git directories: %w", err)
	}
	copies, err := gitdir.From(h.att.Dir, m)
	if err != nil {
		return nil, err
	}
	return copies.Dirs(), nil
}

// metrics measures the processes by their cgroups, and the files by a walk.
func (h *handle) metrics(ctx context.Context) (driver.Metrics, error) {
	out := driver.Metrics{Time: time.Now().UTC(), CPUTime: new(0.0), Memory: new(int64(0)), PIDs: new(int64(0))}
	if rec := supervise.ReadRecord(h.att.Dir); rec != nil { // else nothing runs
		use := cgroup.MeasureUsage(rec.Groups)
		out.CPUTime, out.Memory, out.PIDs = nil, use.Memory, use.PIDs
		if use.CPU != nil {
			out.CPUTime = new(use.CPU.Seconds())
		}
	}
	if dir := h.dir.State().Dir; dir != "" {
		return out, nil // a directory of the user, which may be large
	}
	out.Disk = h.disk.Bytes(ctx, h.att.Dir.Path)
	return out, nil
}

// The cgroup freezer stops the processes of a workspace for a moment, such as for a
// snapshot. Freezes are counted across processes by a shared flock on the file
// "freeze". A process that gets the flock exclusively is the last user, and thaws. The
// kernel drops the flock of a process that dies. Then a process that is connected to the
// guest, or the next one that connects, finds a frozen cgroup that is neither paused nor
// locked, and thaws it. Taking or testing the flock requires the guest lock.
const freezeName = "freeze"

// A freezeRef is one reference on the cgroup freeze of a workspace.
type freezeRef struct {
	frozen bool         // the processes are frozen, or there are no processes
	lock   *flock.Flock // nil where there is nothing to thaw
}

// acquireFreeze freezes the cgroup of the workspace until done is called. frozen is
// false where the workspace has no freezer, and true where no guest runs. A nil done
// means that there is nothing to thaw.
func (h *handle) acquireFreeze(ctx context.Context) (frozen bool, done func(), err error) {
	lock, err := supervise.Lock(ctx, h.att.Dir.Path)
	if err != nil {
		if cerr := h.dir.Current(); cerr != nil {
			return false, nil, cerr
		}
		return false, nil, fmt.Errorf("sandbox: freeze: lock the guest: %w", err)
	}
	defer lock.Close() //nolint:errcheck // the lock ends with the descriptor
	s, err := h.acquireFreezeLocked(ctx)
	if err != nil || s.lock == nil {
		return s.frozen, nil, err
	}
	return s.frozen, func() { h.unfreeze(ctx, s) }, nil
}

// acquireFreezeLocked is acquireFreeze for a caller that has the guest lock.
func (h *handle) acquireFreezeLocked(ctx context.Context) (s freezeRef, err error) {
	rec := supervise.ReadRecord(h.att.Dir)
	if rec == nil {
		return freezeRef{frozen: true}, nil
	}
	group, ok := cgroup.FreezerOf(rec.Groups)
	if !ok {
		return s, nil
	}
	if rec.Paused {
		return freezeRef{frozen: true}, nil
	}
	s = freezeRef{frozen: true, lock: h.freezeLock()}
	if _, err := s.lock.TryRLock(); err != nil {
		return freezeRef{}, fmt.Errorf("sandbox: freeze: %w: %w", fault.Of(err), err)
	}
	if err := cgroup.SetFrozen(ctx, group, true); err != nil {
		h.unfreezeLocked(ctx, s)
		// The guest has ended, or its cgroup can't be frozen: the snapshot records which.
		return freezeRef{frozen: errors.Is(err, os.ErrNotExist)}, nil
	}
	driver.Step(ctx, "frozen")
	return s, nil
}

func (h *handle) freezeLock() *flock.Flock {
	return flock.New(filepath.Join(h.att.Dir.Path, freezeName), flock.SetPermissions(0o600))
}

// unfreeze drops a reference. The last one thaws the cgroup.
func (h *handle) unfreeze(ctx context.Context, s freezeRef) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), supervise.EndTimeout)
	defer cancel()
	lock, err := supervise.Lock(ctx, h.att.Dir.Path)
	if err != nil {
		s.lock.Close()                       //nolint:errcheck // the lock ends with the descriptor
		if !errors.Is(err, os.ErrNotExist) { // a workspace that was removed has no processes
			h.p.log.Warn("sandbox: a workspace stays frozen until a connected process finds the freeze", "workspace", h.id, "error", err)
		}
		return
	}
	defer lock.Close() //nolint:errcheck // the lock ends with the descriptor
	h.unfreezeLocked(ctx, s)
}

func (h *handle) unfreezeLocked(ctx context.Context, s freezeRef) {
	if s.lock == nil {
		return
	}
	s.lock.Close() //nolint:errcheck // the lock ends with the descriptor
	if _, err := h.thawUnused(ctx, supervise.ReadRecord(h.att.Dir)); err != nil {
		h.p.log.Warn("sandbox: a workspace stays frozen", "workspace", h.id, "error", err)
	}
}

// thawUnused thaws the cgroup of a guest, unless the workspace is paused or another
// process has a reference on the freeze, which inUse reports. It requires the guest lock.
func (h *handle) thawUnused(ctx context.Context, rec *supervise.Record) (inUse bool, err error) {
	if rec == nil {
		return false, nil
	}
	group, ok := cgroup.FreezerOf(rec.Groups)
	if !ok {
		return false, nil
	}
	lock := h.freezeLock()
	alone, err := lock.TryLock()
	defer lock.Close() //nolint:errcheck // the lock ends with the descriptor
	switch {
	case err != nil:
		return false, fmt.Errorf("sandbox: thaw the workspace: %w: %w", fault.Of(err), err)
	case !alone:
		return true, nil
	case rec.Paused:
		return false, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := cgroup.SetFrozen(ctx, group, false); err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, fmt.Errorf("sandbox: thaw the workspace: %w: %w", fault.Of(err), err)
	}
	return false, nil
}

// watchFreeze thaws the workspace when a process that froze it dies, until the connection
// ends.
func (h *handle) watchFreeze(g *guestConn) {
	rec := supervise.ReadRecord(h.att.Dir)
	if rec == nil {
		return
	}
	group, ok := cgroup.FreezerOf(rec.Groups)
	if !ok {
		return
	}
	w := &supervise.FreezeWatch{
		Dir: h.att.Dir, Log: h.p.log,
		Frozen: func() bool { return cgroup.IsFrozen(group) },
		Thaw:   func(ctx context.Context) error { return h.recoverFreeze(ctx, g) },
	}
	go w.Run(h.p.ctx, g) // ends with the connection
}

// recoverFreeze completes the rollback of a process that died, and only then thaws the
// cgroup: processes of the workload don't see half of a rollback. It requires the guest
// lock.
func (h *handle) recoverFreeze(ctx context.Context, g *guestConn) error {
	m := h.dir.State()
	if err := h.p.recoverRollback(ctx, &m); err != nil {
		return err
	}
	if g.root != nil {
		if err := h.completeRollback(ctx, g); err != nil {
			return err
		}
	}
	_, err := h.thawUnused(ctx, supervise.ReadRecord(h.att.Dir))
	return err
}
