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

	"github.com/croft-run/croft/egress/proxies"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/host/files"
	"github.com/croft-run/croft/host/guest"
	"github.com/croft-run/croft/host/guest/supervise"
	"github.com/croft-run/croft/host/guestproto"
	"github.com/croft-run/croft/host/wsdir"
	"github.com/croft-run/croft/workspace/driver"
)

// A handle is a live workspace: its files, and its guest once that was needed.
type handle struct {
	p    *Provider
	id   string
	opts options
	caps driver.Capabilities
	fact *fact // of the engine, when the handle was built
	plot *wsdir.Handle

	att   *supervise.Attachment[*guest.Client]
	proxy proxies.Part // used while att is locked
}

// onVolume reports whether the files are the engine's to keep.
func (h *handle) onVolume() bool { return h.opts.Files == FilesVolume }

// files is the module for files: straight in their directory, as the workload, or
// through the guest.
func (h *handle) files(ctx context.Context) (*driver.FS, error) {
	if h.onVolume() {
		c, err := h.guest(ctx)
		if err != nil {
			return nil, err
		}
		return c.Files(), nil
	}
	direct := h.plot.Direct()
	if os.Geteuid() != 0 {
		return direct, nil
	}
	return files.AsUser(direct, h.fact.Outside), nil
}

// guest returns the connection to the guest: see supervise.Attachment. The guest of a paused
// container does not answer.
func (h *handle) guest(ctx context.Context) (*guest.Client, error) {
	if err := h.plot.Current(); err != nil {
		return nil, err
	}
	m := h.plot.State()
	if rec := supervise.RecordIn(&m); rec != nil && rec.Paused && h.p.paused(ctx, rec.Container) {
		return nil, errPaused
	}
	return h.att.Guest(ctx)
}

var errPaused = fmt.Errorf("docker: the workspace is paused: %w: resume it first", fault.WrongState)

// paused reports whether a container is paused, as far as the engine answers.
func (p *Provider) paused(ctx context.Context, container string) bool {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.AnswerTimeout)
	defer cancel()
	s, err := p.engine.Inspect(ctx, container)
	return err == nil && s.Paused
}

// connect attaches to the guest of the workspace, or starts its container; see
// supervise.Attachment.
func (h *handle) connect(ctx context.Context) (*guest.Client, error) {
	m := h.plot.State()
	f, err := h.p.checkPolicy(ctx, m.Policy, h.opts)
	if err != nil {
		return nil, fmt.Errorf("docker: start the guest: %w", err)
	}
	if err := h.wayOut(ctx, m.Policy.Network); err != nil {
		return nil, err
	}
	l, version, err := h.plan(f, &m)
	if err != nil {
		return nil, err
	}
	c, err := h.adopt(ctx, l, version)
	if c == nil && err == nil {
		c, err = h.begin(ctx, l)
	}
	if err != nil || !h.onVolume() {
		return c, err
	}
	if err := h.completeRollback(ctx, c); err != nil {
		c.Close() //nolint:errcheck // nothing is lost with it
		return nil, err
	}
	return c, nil
}

// plan says how the container of m runs.
func (h *handle) plan(f *fact, m *wsdir.State) (*launch, string, error) {
	bin, err := h.p.binary()
	if err != nil {
		return nil, "", fmt.Errorf("docker: %w", err)
	}
	trust, err := h.trust(m)
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
		dir: h.p.ground.Path(h.id), id: h.id, name: unitOf(h.id), image: h.opts.Image, files: h.p.ground.Files(m), fact: f,
		key: key, policy: m.Policy, proxied: true, lease: h.p.cfg.Lease,
	}
	switch {
	case h.onVolume():
		l.volume, l.trust = unitOf(h.id), trust
	case !m.Policy.Network.None():
		l.roots = h.p.ground.Path(h.id, rootsName)
	}
	if h.opts.Throwaway {
		l.autoRemove, l.lease = true, throwawayLease
	}
	return l, bin.Version, nil
}

// trust is what programs inside trust, where it can't be shown to them: a guest is
// told of it when it starts, and one that was told something else is replaced.
func (h *handle) trust(m *wsdir.State) ([]byte, error) {
	if !h.onVolume() || m.Policy.Network.None() {
		return nil, nil
	}
	data, err := os.ReadFile(h.p.ground.Path(h.id, rootsName, proxies.BundleName))
	if err != nil && !errors.Is(err, os.ErrNotExist) { // which nobody in this process has needed yet
		return nil, fmt.Errorf("docker: read what programs trust: %w: %w", fault.Of(err), err)
	}
	return data, nil
}

// throwawayLease is how long the container of a throw-away workspace outlives the
// process that used it, and how long it waits for that to come at first, on a machine
// under load.
const throwawayLease = 20 * time.Second

// adopt attaches to a guest that runs as planned, if there is one. A paused one is not
// replaced. The lock of the guest is held.
func (h *handle) adopt(ctx context.Context, l *launch, version string) (*guest.Client, error) {
	rec := supervise.ReadRecord(h.att.Dir)
	if rec == nil || rec.Key != l.key || rec.Token == "" {
		return nil, nil
	}
	var c *guest.Client
	var err error
	if l.volume != "" {
		c, err = h.p.reach(ctx, l, rec.Token, version)
	} else {
		c, err = guest.Dial(ctx, l.box(guestproto.ContainerSocket), rec.Token, version, l.id)
	}
	if err != nil {
		if h.p.paused(ctx, rec.Container) {
			return nil, errPaused
		}
		return nil, nil // it is replaced
	}
	h.tend(c, l)
	return c, nil
}

// tend has the client tell, once its guest is gone, why, and what its commands had
// written until then, where that is on this host. Where it is not, the way to the
// proxy leads through the client.
func (h *handle) tend(c *guest.Client, l *launch) {
	c.WhyLost = h.whyLost(l)
	if l.volume == "" {
		c.Salvage = guest.OutputFromLogs(l.box(guestproto.ContainerLog))
		return
	}
	c.Relay(func(ctx context.Context) (net.Conn, error) { return h.p.outlets.Dial(ctx, h.id) })
}

// begin starts the container, after the end of any that is there. The lock of the
// guest is held.
func (h *handle) begin(ctx context.Context, l *launch) (*guest.Client, error) {
	d := h.att.Dir
	if err := supervise.End(ctx, d, h.p.hooks); err != nil {
		return nil, fmt.Errorf("docker: end the container before: %w", err)
	}
	if l.volume != "" { // a container that names one which is gone would have an empty one
		if err := h.p.haveVolume(ctx, h.id); err != nil {
			return nil, err
		}
	}
	rec := &supervise.Record{Key: l.key, Container: l.name}
	if err := rec.Write(ctx, d); err != nil { // before there is anything that only it tells of
		return nil, fmt.Errorf("docker: start the guest: %w: %w", fault.Of(err), err)
	}
	c, err := h.p.start(ctx, l)
	if err != nil {
		return nil, errors.Join(err, supervise.End(context.WithoutCancel(ctx), d, h.p.hooks))
	}
	h.tend(c, l)
	rec.Token = l.token // from here on it can be adopted
	if err := rec.Write(ctx, d); err != nil {
		err = fmt.Errorf("docker: start the guest: %w: %w", fault.Of(err), err)
		return nil, errors.Join(err, c.Close(), supervise.End(context.WithoutCancel(ctx), d, h.p.hooks))
	}
	return c, nil
}

// endContainer removes the container of a guest; see supervise.Hooks.
func (p *Provider) endContainer(ctx context.Context, rec *supervise.Record) error {
	if err := p.removeUnit(ctx, rec.Container); err != nil {
		return err
	}
	driver.Step(ctx, "container removed")
	return nil
}

// wayOut has the proxy of the workspace obey a policy.
func (h *handle) wayOut(ctx context.Context, n driver.Network) error {
	box := h.p.ground.Path(h.id, boxName)
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
		Socket:    h.p.ground.Path(h.id, boxName, guestproto.ContainerEgress, guestproto.ProxySocket),
		Authority: h.p.ground.Path(h.id, authorityName), Roots: h.p.ground.Path(h.id, rootsName),
	}
	if err := h.proxy.Take(ctx, h.p.outlets, h.id, at, n); err != nil {
		return fmt.Errorf("docker: %w", err)
	}
	return nil
}

// update changes the policy. A container that does not run under the new one ends.
func (h *handle) update(ctx context.Context, policy driver.Policy) (driver.Ref, error) {
	f, err := h.p.checkPolicy(ctx, policy, h.opts)
	if err != nil {
		return driver.Ref{}, fmt.Errorf("docker: update: %w", err)
	}
	m, err := h.plot.Update(ctx, policy)
	if err != nil {
		return driver.Ref{}, fmt.Errorf("docker: update: %w", err)
	}
	if err := h.renew(ctx, f, m); err != nil {
		return driver.Ref{}, fmt.Errorf("docker: update: %w", err)
	}
	return newRef(m, h.opts, h.caps)
}

// renew ends the container if it does not run as m says.
func (h *handle) renew(ctx context.Context, f *fact, m *wsdir.State) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), supervise.EndTimeout)
	defer cancel()
	unlock, err := h.att.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := h.p.outlets.Update(h.id, m.Policy.Network); err != nil {
		return err
	}
	want, _, err := h.plan(f, m)
	if err != nil {
		return err
	}
	return h.att.EndIfChanged(ctx, want.key, h.p.hooks)
}

// close lets go of the workspace, and of its guest, which lives on.
func (h *handle) close(ctx context.Context) error {
	return errors.Join(h.release(context.WithoutCancel(ctx)), h.plot.Close())
}

func (h *handle) release(ctx context.Context) error {
	return h.att.Close(ctx, func() error {
		h.proxy.Leave(ctx)
		return nil
	})
}

// destroy ends the workspace and its container.
func (h *handle) destroy(ctx context.Context) error {
	if err := h.att.ExpectEnd(ctx); err != nil {
		return err
	}
	if err := h.plot.Destroy(ctx, h.p.destroyIn); err != nil {
		return fmt.Errorf("docker: destroy: %w", err)
	}
	return h.release(ctx)
}

// pause freezes all that runs in the workspace. Files can still be used.
func (h *handle) pause(ctx context.Context) error {
	return h.freeze(ctx, "pause", true, h.p.engine.Pause)
}

// resume lets it go on.
func (h *handle) resume(ctx context.Context) error {
	return h.freeze(ctx, "resume", false, h.p.engine.Unpause)
}

// freeze notes that the container is paused, or that it is not, for other handles, and
// has the engine do it.
func (h *handle) freeze(ctx context.Context, verb string, paused bool, do func(ctx context.Context, id string) error) error {
	if err := h.plot.Current(); err != nil {
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
