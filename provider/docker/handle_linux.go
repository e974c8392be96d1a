package docker

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/egress/proxies"
	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/internal/host/guest"
	"github.com/croft-run/croft/internal/host/guest/supervise"
	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/internal/host/wsdir"
	"github.com/croft-run/croft/workspace/driver"
)

// A handle is an open workspace: its files, and its guest once one was needed.
type handle struct {
	p     *Provider
	id    string
	opts  Options
	proof *engineProof // of the engine, when the handle was built
	dir   *wsdir.Handle

	att   *supervise.Attachment[*guest.Client]
	proxy proxies.Ref // used while att is locked
	disk  wsdir.DiskUse
}

// onVolume reports whether the files are on a volume of the engine.
func (h *handle) onVolume() bool { return h.opts.Files == FilesVolume }

// filesModule returns the module for files: in their directory, with the workload's fsuid, or
// through the guest.
func (h *handle) filesModule(ctx context.Context) (*driver.FS, error) {
	if h.onVolume() {
		c, err := h.guestClient(ctx)
		if err != nil {
			return nil, err
		}
		return c.Files(), nil
	}
	direct := h.dir.Direct()
	if os.Geteuid() != 0 {
		return direct, nil
	}
	return files.AsUser(direct, h.proof.HostUID), nil
}

// guestClient returns the connection to the guest: see supervise.Attachment. The guest of a paused
// container can't answer.
func (h *handle) guestClient(ctx context.Context) (*guest.Client, error) {
	if err := h.dir.Current(); err != nil {
		return nil, err
	}
	m := h.dir.State()
	if rec := supervise.RecordIn(&m); rec != nil && rec.Paused && h.p.isPaused(ctx, rec.Container) {
		return nil, errPaused
	}
	return h.att.Guest(ctx)
}

var errPaused = fmt.Errorf("docker: the workspace is paused: %w: resume it first", fault.WrongState)

// isPaused reports whether a container is paused; false if the engine does not answer.
func (p *Provider) isPaused(ctx context.Context, container string) bool {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.AnswerTimeout)
	defer cancel()
	s, err := p.engine.Inspect(ctx, container)
	return err == nil && s.Paused
}

// connectGuest adopts the guest of the workspace, or starts its container; see
// supervise.Attachment.
func (h *handle) connectGuest(ctx context.Context) (*guest.Client, error) {
	m := h.dir.State()
	f, err := h.p.checkPolicy(ctx, m.Policy, h.opts)
	if err != nil {
		return nil, fmt.Errorf("docker: start the guest: %w", err)
	}
	if err := h.startProxy(ctx, m.Policy.Network); err != nil {
		return nil, err
	}
	l, version, err := h.newLaunch(f, &m)
	if err != nil {
		return nil, err
	}
	c, err := h.adoptGuest(ctx, l, version)
	if c == nil && err == nil {
		c, err = h.startGuest(ctx, l)
	}
	if err != nil {
		return nil, err
	}
	if !h.onVolume() {
		h.watchFreeze(c)
		return c, nil
	}
	if err := h.completeRollback(ctx, c); err != nil {
		c.Close() //nolint:errcheck // nothing is lost with it
		return nil, err
	}
	return c, nil
}

// newLaunch returns the launch of the container of m, and the version of the guest.
func (h *handle) newLaunch(f *engineProof, m *wsdir.State) (*launch, string, error) {
	bin, err := h.p.binary()
	if err != nil {
		return nil, "", fmt.Errorf("docker: %w", err)
	}
	trust, err := h.readCABundle(m)
	if err != nil {
		return nil, "", err
	}
	key, err := supervise.Key(
		bin.Version, f.Runtime, f.UID, h.opts.Image, h.opts.Throwaway, m.Policy.Env, m.Policy.ReadOnly, m.Policy.Limits, m.Policy.Network.None(),
		f.Volume && m.Policy.Durable, sha256.Sum256(trust),
	)
	if err != nil {
		return nil, "", fmt.Errorf("docker: %w", err)
	}
	l := &launch{
		dir: h.p.store.Path(h.id), id: h.id, name: containerName(h.id), image: h.opts.Image, files: h.p.store.Files(m), proof: f,
		key: key, policy: m.Policy, proxied: true, lease: h.p.cfg.Lease,
	}
	switch {
	case h.onVolume():
		l.volume, l.caBundle = containerName(h.id), trust
	case !m.Policy.Network.None():
		l.caDir = h.p.store.Path(h.id, rootsName)
	}
	if h.opts.Throwaway {
		l.autoRemove, l.lease = true, throwawayLease
	}
	return l, bin.Version, nil
}

// readCABundle returns the certificates that programs inside trust, if they can't be mounted.
// The guest gets them at its start; a guest with other certificates is replaced.
func (h *handle) readCABundle(m *wsdir.State) ([]byte, error) {
	if !h.onVolume() || m.Policy.Network.None() {
		return nil, nil
	}
	data, err := os.ReadFile(h.p.store.Path(h.id, rootsName, proxies.BundleName))
	if err != nil && !errors.Is(err, os.ErrNotExist) { // it is created when it is first needed
		return nil, fmt.Errorf("docker: read the certificate bundle: %w: %w", fault.Of(err), err)
	}
	return data, nil
}

// throwawayLease is the lease of the guest of a throwaway workspace: how long it outlives its
// process, and how long it waits for the first connection.
const throwawayLease = 20 * time.Second

// adoptGuest connects to a running guest with the same launch key, if there is one. A paused
// one is not replaced. It requires the guest lock.
func (h *handle) adoptGuest(ctx context.Context, l *launch, version string) (*guest.Client, error) {
	rec := supervise.ReadRecord(h.att.Dir)
	if rec == nil || rec.Key != l.key || rec.Token == "" {
		return nil, nil
	}
	if err := h.recoverFreeze(ctx, rec); err != nil {
		h.p.log.Warn("docker: a container stays paused after a snapshot", "workspace", h.id, "error", err)
	}
	var c *guest.Client
	var err error
	if l.volume != "" {
		c, err = h.p.connectByExec(ctx, l, rec.Token, version)
	} else {
		c, err = guest.Dial(ctx, l.boxPath(guestproto.ContainerSocket), rec.Token, version, l.id)
	}
	if err != nil {
		if herr := supervise.HostError(ctx, err); herr != nil {
			return nil, fmt.Errorf("docker: %w", herr)
		}
		switch paused := h.p.isPaused(ctx, rec.Container); {
		case paused && rec.Paused:
			return nil, errPaused
		case paused:
			return nil, fmt.Errorf("docker: the container %s was paused, but not by Croft: %w: unpause it first", rec.Container, fault.WrongState)
		}
		return nil, nil // the guest is replaced
	}
	h.configureClient(c, l)
	return c, nil
}

// configureClient sets how the client finds the cause of a lost guest, and how it salvages
// output from logs on this host. With a volume, the client relays connections to the proxy.
func (h *handle) configureClient(c *guest.Client, l *launch) {
	c.WhyLost = h.whyLost(l)
	if l.volume == "" {
		c.Salvage = guest.OutputFromLogs(l.boxPath(guestproto.ContainerLog))
		return
	}
	c.Relay(func(ctx context.Context) (net.Conn, error) { return h.p.proxies.Dial(ctx, h.id) })
}

// startGuest ends a container that may be running and starts a new one. It requires the guest
// lock.
func (h *handle) startGuest(ctx context.Context, l *launch) (*guest.Client, error) {
	d := h.att.Dir
	if err := supervise.End(ctx, d, h.p.hooks); err != nil {
		return nil, fmt.Errorf("docker: end the previous container: %w", err)
	}
	if l.volume != "" { // the engine would create an empty volume for a missing one
		if err := h.p.checkVolume(ctx, h.id); err != nil {
			return nil, err
		}
	}
	rec := &supervise.Record{Key: l.key, Container: l.name}
	if err := rec.Write(ctx, d); err != nil { // recorded before it is created, so that a crash leaves no leak
		return nil, fmt.Errorf("docker: start the guest: %w: %w", fault.Of(err), err)
	}
	c, err := h.p.startContainer(ctx, l)
	if err != nil {
		return nil, errors.Join(err, supervise.End(context.WithoutCancel(ctx), d, h.p.hooks))
	}
	h.configureClient(c, l)
	rec.Token = l.token // from here on it can be adopted
	if err := rec.Write(ctx, d); err != nil {
		err = fmt.Errorf("docker: start the guest: %w: %w", fault.Of(err), err)
		return nil, errors.Join(err, c.Close(), supervise.End(context.WithoutCancel(ctx), d, h.p.hooks))
	}
	return c, nil
}

// endContainer removes the container of a guest; see supervise.Hooks.
func (p *Provider) endContainer(ctx context.Context, rec *supervise.Record) error {
	if err := p.removeContainer(ctx, rec.Container); err != nil {
		return err
	}
	driver.Step(ctx, "container removed")
	return nil
}

// startProxy starts the egress proxy of the workspace with a network policy.
func (h *handle) startProxy(ctx context.Context, n driver.Network) error {
	box := h.p.store.Path(h.id, boxName)
	if err := os.Mkdir(box, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("docker: make the box: %w: %w", fault.Of(err), err)
	}
	// See ownDirectory; but the container may be running.
	if info, err := os.Lstat(filepath.Join(box, guestproto.ContainerEgress)); err == nil && !info.IsDir() {
		if err := os.Remove(filepath.Join(box, guestproto.ContainerEgress)); err != nil {
			return fmt.Errorf("docker: make the box: %w: %w", fault.Of(err), err)
		}
	}
	at := proxies.Paths{
		Socket:    h.p.store.Path(h.id, boxName, guestproto.ContainerEgress, guestproto.ProxySocket),
		Authority: h.p.store.Path(h.id, authorityName), Roots: h.p.store.Path(h.id, rootsName),
		Network: func() (driver.Network, error) {
			m, err := h.p.store.Read(h.id)
			if err != nil {
				return driver.Network{}, err
			}
			return m.Policy.Network, nil
		},
	}
	if err := h.proxy.Acquire(ctx, h.p.proxies, h.id, at, n); err != nil {
		return fmt.Errorf("docker: %w", err)
	}
	return nil
}

// update changes the policy. It ends a container that can't apply the new one.
func (h *handle) update(ctx context.Context, policy driver.Policy) (driver.Ref, error) {
	f, err := h.p.checkPolicy(ctx, policy, h.opts)
	if err != nil {
		return driver.Ref{}, fmt.Errorf("docker: update: %w", err)
	}
	m, err := h.dir.Update(ctx, policy)
	if err != nil {
		return driver.Ref{}, fmt.Errorf("docker: update: %w", err)
	}
	if err := h.endOutdatedContainer(ctx, f, m); err != nil {
		return driver.Ref{}, fmt.Errorf("docker: update: %w", err)
	}
	return h.p.newRef(m, h.opts)
}

// endOutdatedContainer ends the container if its launch key differs from that of m.
func (h *handle) endOutdatedContainer(ctx context.Context, f *engineProof, m *wsdir.State) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), supervise.EndTimeout)
	defer cancel()
	unlock, err := h.att.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := h.p.proxies.Update(h.id, m.Policy.Network); err != nil {
		return err
	}
	want, _, err := h.newLaunch(f, m)
	if err != nil {
		return err
	}
	return h.att.EndIfChanged(ctx, want.key, h.p.hooks)
}

// close closes the workspace. Its guest lives on.
func (h *handle) close(ctx context.Context) error {
	h.disk.Stop()
	return errors.Join(h.releaseGuest(context.WithoutCancel(ctx)), h.dir.Close())
}

func (h *handle) releaseGuest(ctx context.Context) error {
	return h.att.Close(ctx, func() error {
		h.proxy.Release(ctx)
		return nil
	})
}

// destroy removes the workspace and its container.
func (h *handle) destroy(ctx context.Context) error {
	h.disk.Stop()
	if err := h.att.ExpectEnd(ctx); err != nil {
		return err
	}
	if err := h.dir.Destroy(ctx, h.p.destroyContainer); err != nil {
		return fmt.Errorf("docker: destroy: %w", err)
	}
	return h.releaseGuest(ctx)
}

// pause pauses the container (cgroup freezer). Files can still be used.
func (h *handle) pause(ctx context.Context) error {
	return h.setPaused(ctx, "pause", true, h.p.engine.Pause)
}

// resume unpauses the container.
func (h *handle) resume(ctx context.Context) error {
	return h.setPaused(ctx, "resume", false, h.p.engine.Unpause)
}

// setPaused records the pause in the state, for other handles, and pauses or unpauses the
// container.
func (h *handle) setPaused(ctx context.Context, verb string, paused bool, do func(ctx context.Context, id string) error) error {
	if err := h.dir.Current(); err != nil {
		return err
	}
	lock, err := supervise.Lock(ctx, h.att.Dir.Path)
	if err != nil {
		return fmt.Errorf("docker: %s: lock the guest: %w", verb, err)
	}
	defer lock.Close() //nolint:errcheck // the lock ends with the descriptor
	rec := supervise.ReadRecord(h.att.Dir)
	if rec == nil {
		return nil // nothing runs
	}
	s, err := h.p.engine.Inspect(ctx, rec.Container)
	if fault.Of(err) == fault.NotFound || err == nil && !s.Running {
		return nil // likewise
	}
	if err == nil {
		rec.Paused = paused
		err = rec.Write(ctx, h.att.Dir)
	}
	if err == nil && s.Paused != paused {
		err = do(ctx, rec.Container)
	}
	if err != nil {
		return fmt.Errorf("docker: %s: %w", verb, err)
	}
	return nil
}
