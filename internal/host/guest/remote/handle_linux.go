package remote

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/guest"
	"github.com/croft-run/croft/internal/host/guest/supervise"
	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/internal/host/wsdir"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

// A handle is an open workspace.
type handle struct {
	p       *Provider
	id      string
	machine Machine
	from    snapshot.Tree // of a new workspace; may be nil
	dir     *wsdir.Handle
	att     *supervise.Attachment[*guest.Client]
}

// filesModule returns the module for files: all calls go to the guest.
func (h *handle) filesModule(ctx context.Context) (*driver.FS, error) {
	c, err := h.att.Guest(ctx)
	if err != nil {
		return nil, err
	}
	return c.Files(), nil
}

// shell returns the module for commands.
func (h *handle) shell(ctx context.Context) (*driver.Shell, error) {
	if err := h.dir.Current(); err != nil {
		return nil, err
	}
	if h.dir.State().Policy.ReadOnly {
		return nil, fmt.Errorf("%s: run a command: %w: the workspace is read-only, and a command could write", h.p.Kind, fault.PermissionDenied)
	}
	c, err := h.att.Guest(ctx)
	if err != nil {
		return nil, err
	}
	return c.Shell(), nil
}

// guestConfig returns the configuration of the guest for a state, and the key of its settings:
// a guest with another key is replaced.
func (h *handle) guestConfig(m *wsdir.State) (guestproto.Config, string, error) {
	version, err := h.machine.Version()
	if err != nil {
		return guestproto.Config{}, "", fmt.Errorf("%s: %w", h.p.Kind, err)
	}
	key, err := supervise.Key(version, m.Policy.Env, m.Policy.Limits, m.Policy.ReadOnly)
	if err != nil {
		return guestproto.Config{}, "", fmt.Errorf("%s: %w", h.p.Kind, err)
	}
	return guestproto.Config{
		Version: version, Workspace: h.id, Level: driver.IsolationNone, Root: h.machine.Root(),
		UID: -1, Subreaper: true, Env: maps.Clone(m.Policy.Env), Limits: m.Policy.Limits, Lease: h.p.Lease,
		Files: true, ReadOnly: m.Policy.ReadOnly,
	}, key, nil
}

// connectGuest connects to the guest of the workspace, or starts it, and completes an
// interrupted rollback; see supervise.Attachment.
func (h *handle) connectGuest(ctx context.Context) (*guest.Client, error) {
	m := h.dir.State()
	cfg, key, err := h.guestConfig(&m)
	if err != nil {
		return nil, err
	}
	c, err := h.adoptGuest(ctx, &m, key, cfg.Version)
	if c == nil && err == nil {
		c, err = h.startGuest(ctx, &m, key, cfg)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: connect: %w", h.p.Kind, err)
	}
	if m.Policy.ReadOnly {
		return c, nil
	}
	if err := h.completeRollback(ctx, c); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// adoptGuest connects to a running guest with the same key, if there is one. It requires the
// guest lock.
func (h *handle) adoptGuest(ctx context.Context, m *wsdir.State, key, version string) (c *guest.Client, err error) {
	rec := supervise.ReadRecord(h.att.Dir)
	if rec == nil || rec.Key != key || !made.In(m) {
		return nil, nil
	}
	c, err = h.machine.Connect(ctx, rec.Token, version, h.id)
	if err != nil && (isUnreachable(err) || supervise.HostError(ctx, err) != nil) {
		return nil, err
	}
	if err != nil {
		return nil, nil // a guest is started
	}
	return c, nil
}

// startGuest ends a guest that may be running and starts a new one. For a new workspace,
// whose directory the machine creates, it writes the files of the snapshot that it starts
// from. It requires the guest lock.
func (h *handle) startGuest(ctx context.Context, m *wsdir.State, key string, cfg guestproto.Config) (*guest.Client, error) {
	d, isNew := h.att.Dir, !made.In(m)
	hooks := endHooks(h.machine.End)
	if isNew { // what an interrupted Open left is removed as well
		hooks = endHooks(h.machine.Remove)
	}
	if err := supervise.End(ctx, d, hooks); err != nil {
		return nil, fmt.Errorf("end the previous guest: %w", err)
	}
	rec := &supervise.Record{Key: key, Token: driver.NewID()}
	if err := rec.Write(ctx, d); err != nil { // before anything is made, so that a crash leaves no leak
		return nil, fmt.Errorf("start the guest: %w: %w", fault.Of(err), err)
	}
	driver.Step(ctx, "guest recorded")
	cfg.Token = rec.Token
	fill := isNew && h.from != nil
	final := cfg
	cfg.ReadOnly = cfg.ReadOnly && !fill
	c, err := h.launch(ctx, cfg, isNew)
	if err != nil || !isNew {
		return c, err
	}
	if fill {
		if err := snapshot.Write(ctx, h.from, c.Files(), nil); err != nil {
			return nil, errors.Join(err, c.Close())
		}
		driver.Step(ctx, "files written")
	}
	if cfg.ReadOnly != final.ReadOnly {
		c.Close() //nolint:errcheck // nothing is lost with it
		if err := h.machine.End(ctx, cfg.Token); err != nil {
			return nil, err
		}
		if c, err = h.launch(ctx, final, false); err != nil {
			return nil, err
		}
	}
	done := true
	if _, err := d.Update(ctx, false, func(m *wsdir.State) error { return made.Set(m, &done) }); err != nil {
		return nil, errors.Join(fmt.Errorf("record the files: %w: %w", fault.Of(err), err), c.Close())
	}
	driver.Step(ctx, "files recorded")
	return c, nil
}

// launch starts the guest's process on the machine.
func (h *handle) launch(ctx context.Context, cfg guestproto.Config, isNew bool) (c *guest.Client, err error) {
	c, err = h.machine.Start(ctx, cfg, isNew)
	if errors.Is(err, fault.NotFound) { // the directory on the machine
		err = h.p.Store.Gone()
	}
	if err != nil {
		return nil, err
	}
	driver.Step(ctx, "guest started")
	return c, nil
}

// endHooks end a guest that has a record, by a method of its machine.
func endHooks(end func(ctx context.Context, token string) error) *supervise.Hooks {
	return &supervise.Hooks{After: func(ctx context.Context, rec *supervise.Record) error { return end(ctx, rec.Token) }}
}

// update changes the policy. It ends a guest that can't apply the new one.
func (h *handle) update(ctx context.Context, policy driver.Policy) (driver.Ref, error) {
	if err := policy.Check(h.p.Traits); err != nil {
		return driver.Ref{}, fmt.Errorf("%s: update: %w", h.p.Kind, err)
	}
	m, err := h.dir.Update(ctx, policy)
	if err == nil {
		err = h.endOutdatedGuest(ctx, m)
	}
	if err != nil {
		return driver.Ref{}, fmt.Errorf("%s: update: %w", h.p.Kind, err)
	}
	return h.p.newRef(m)
}

// endOutdatedGuest ends the guest if its key differs from that of m.
func (h *handle) endOutdatedGuest(ctx context.Context, m *wsdir.State) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), supervise.EndTimeout)
	defer cancel()
	unlock, err := h.att.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	_, key, err := h.guestConfig(m)
	if err != nil {
		return err
	}
	return h.att.EndIfChanged(ctx, key, endHooks(h.machine.End))
}

// close closes the connection. The guest lives on.
func (h *handle) close(ctx context.Context) error {
	return errors.Join(h.att.Close(context.WithoutCancel(ctx), nil), h.dir.Close())
}

// destroy removes the workspace, here and on the machine.
func (h *handle) destroy(ctx context.Context) error {
	if err := h.att.ExpectEnd(ctx); err != nil {
		return err
	}
	if err := h.dir.Destroy(ctx, h.p.removeOnMachine); err != nil {
		return fmt.Errorf("%s: destroy: %w", h.p.Kind, err)
	}
	return h.att.Close(ctx, nil)
}
