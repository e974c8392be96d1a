package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/cgroup"
	"github.com/croft-run/croft/internal/host/guest"
	"github.com/croft-run/croft/internal/host/guest/supervise"
	"github.com/croft-run/croft/internal/host/guestbin"
	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/internal/host/wsdir"
	"github.com/croft-run/croft/workspace/driver"
)

const hasGuests = true

func findGuest(path string) (*guestbin.Binary, error) { return guestbin.Find(path) }

// A guestRunner runs commands in a guest of the workspace, without isolation.
type guestRunner struct {
	p  *Provider
	h  *wsdir.Handle
	id string

	*supervise.Attachment[*guest.Client]
}

func (p *Provider) newGuestRunner(h *wsdir.Handle, m *wsdir.State) runner {
	r := &guestRunner{p: p, h: h, id: m.ID}
	r.Attachment = supervise.NewAttachment(h, p.store.Dir(m.ID), r.connectGuest)
	return r
}

// module returns the module of the guest, which it adopts or starts.
func (r *guestRunner) module(ctx context.Context) (*driver.Shell, error) {
	c, err := r.Guest(ctx)
	if err != nil {
		return nil, err
	}
	return c.Shell(), nil
}

// connectGuest adopts the guest of the workspace, or starts it; see supervise.Attachment.
func (r *guestRunner) connectGuest(ctx context.Context) (*guest.Client, error) {
	m := r.h.State()
	bin, key, err := r.p.launchKey(&m)
	if err != nil {
		return nil, err
	}
	c, _, err := supervise.Adopt(ctx, r.Dir, key, bin.Version, r.id)
	if err != nil {
		return nil, fmt.Errorf("local: %w", err)
	}
	if c != nil {
		c.Salvage = guest.OutputFromLogs(filepath.Join(r.Dir.Path, logName))
		return c, nil
	}
	if err := supervise.End(ctx, r.Dir, nil); err != nil {
		return nil, fmt.Errorf("local: end the previous guest: %w", err)
	}
	return r.startGuest(ctx, bin, key, &m)
}

// launchKey returns a digest of the guest's settings. A guest with another key is replaced.
func (p *Provider) launchKey(m *wsdir.State) (*guestbin.Binary, string, error) {
	bin, err := p.guestBinary()
	if err != nil {
		return nil, "", fmt.Errorf("local: %w", err)
	}
	key, err := supervise.Key(bin.Version, m.Policy.Env, m.Policy.Limits, m.Policy.ReadOnly)
	if err != nil {
		return nil, "", fmt.Errorf("local: %w", err)
	}
	return bin, key, nil
}

func (r *guestRunner) startGuest(ctx context.Context, bin *guestbin.Binary, key string, m *wsdir.State) (*guest.Client, error) {
	logs, err := makeLogDir(r.Dir)
	if err != nil {
		return nil, err
	}
	log, err := os.Open(logs)
	if err != nil {
		return nil, fmt.Errorf("local: start the guest: %w: %w", fault.Of(err), err)
	}
	defer log.Close()
	l := &guest.Launch{
		Binary: bin.Path, Socket: filepath.Join(r.Dir.Path, supervise.SocketName), Sys: &syscall.SysProcAttr{Setsid: true},
		Files: []guest.NamedFile{{Name: "log", File: log}},
		Config: guestproto.Config{
			Version: bin.Version, Workspace: r.id, Level: driver.IsolationNone, Root: r.p.store.Files(m), UID: -1, Subreaper: true,
			Env: baseEnv(m.Policy.Env), Limits: m.Policy.Limits, Lease: r.p.lease,
		},
	}
	started, err := supervise.Start(ctx, r.Dir, l, &supervise.Record{Key: key})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("local: %w", err), supervise.End(context.WithoutCancel(ctx), r.Dir, nil))
	}
	started.Salvage = guest.OutputFromLogs(logs)
	return started.Client, nil
}

// update ends the guest if its launch key differs from that of m.
func (r *guestRunner) update(ctx context.Context, m *wsdir.State) error {
	unlock, err := r.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	_, key, err := r.p.launchKey(m)
	if err != nil {
		return err
	}
	return r.EndIfChanged(ctx, key, nil)
}

// measure measures the processes below the guest.
func (r *guestRunner) measure(out *driver.Metrics) {
	out.CPUTime, out.Memory, out.PIDs = new(0.0), new(int64(0)), new(int64(0))
	rec := supervise.ReadRecord(r.Dir)
	if rec == nil || rec.PID == 0 {
		return // nothing runs
	}
	if start, err := supervise.StartTime(rec.PID); err != nil || start != rec.Start {
		return // it has ended, and another process may have its id
	}
	use := cgroup.MeasureBelow(rec.PID)
	*out.CPUTime, out.Memory, out.PIDs = use.CPU.Seconds(), use.Memory, use.PIDs
}

// close closes the connection to the guest, which lives on.
func (r *guestRunner) close(ctx context.Context) error { return r.Close(ctx, nil) }

// endGuest ends the guest of the workspace in dir, if it has one.
func endGuest(ctx context.Context, dir string) error {
	return supervise.LockAndEnd(ctx, wsdir.Dir{Path: dir, Kind: Kind}, nil)
}

// runningSessions lists the sessions that run in a workspace, also in one that no process has
// open. It opens and starts nothing. Without guests it lists those of this process.
func (p *Provider) runningSessions(ctx context.Context, id string) ([]driver.SessionInfo, error) {
	list, err := p.ownSessions(ctx, id)
	dir := p.store.Dir(id)
	rec := supervise.ReadRecord(dir)
	if err != nil || rec == nil || !rec.Alive() {
		return list, err
	}
	bin, err := p.guestBinary()
	if err != nil {
		return nil, fmt.Errorf("local: %w", err)
	}
	c, err := guest.Dial(ctx, filepath.Join(dir.Path, supervise.SocketName), rec.Token, bin.Version, id)
	if err != nil {
		return nil, fmt.Errorf("local: sessions of %s: %w", id, err)
	}
	defer c.Close() //nolint:errcheck // the guest lives on
	more, err := c.Shell().Sessions(ctx)
	return onlyRunning(append(list, more...)), err
}
