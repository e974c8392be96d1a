package sandbox

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/guest/supervise"
	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/internal/host/wsdir"
	"github.com/croft-run/croft/provider/sandbox/internal/protect"
	"github.com/croft-run/croft/workspace/driver"
)

// pid returns the process id of the guest.
func (g *guestConn) pid(dir wsdir.Dir, u *launchSpec) (int, error) {
	rec := g.rec
	if rec == nil {
		rec = supervise.ReadRecord(dir)
	}
	if rec == nil || !rec.Alive() {
		return 0, fmt.Errorf("the guest has ended: %w", fault.Evicted)
	}
	return u.guestPID(rec)
}

// protectedGuest returns the guest, with all mounts that protect autorun files.
func (h *handle) protectedGuest(ctx context.Context) (*guestConn, error) {
	g, err := h.att.Guest(ctx)
	if err != nil {
		return nil, err
	}
	lost, err := g.autorun.Restore(ctx)
	if err != nil || lost == "" {
		return g, err
	}
	sessions, err := g.Shell().Sessions(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range sessions {
		if s.Running {
			return nil, fmt.Errorf("sandbox: %s, and can't be protected while session %s runs: %w: end the sessions of the workspace, and try again",
				lost, s.ID, fault.WrongState)
		}
	}
	h.p.log.Info("sandbox: the guest is started again", "workspace", h.id, "reason", lost)
	if err := h.restartGuest(ctx); err != nil {
		return nil, err
	}
	if g, err = h.att.Guest(ctx); err != nil {
		return nil, err
	}
	h.autorun.Restarted(lost + ", so the guest was started again: /tmp and the home inside are empty")
	if lost, err = g.autorun.Restore(ctx); err != nil {
		return nil, err
	}
	if lost != "" {
		return nil, fmt.Errorf("sandbox: %s, and can't be protected: %w: it is being replaced on the host; try again", lost, fault.Unavailable)
	}
	return g, nil
}

// restartGuest ends the guest; the next call starts another one.
func (h *handle) restartGuest(ctx context.Context) error {
	unlock, err := h.att.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return h.att.EndIfChanged(ctx, "", hooks)
}

// guestForFiles is protectedGuest for calls of module FS, which are many: the mounts are
// checked a twentieth of the time, and when a .git has appeared.
func (h *handle) guestForFiles(ctx context.Context) (*guestConn, error) {
	h.mu.Lock()
	due := !time.Now().Before(h.nextCheck)
	h.mu.Unlock()
	if !due {
		g, err := h.att.Guest(ctx)
		if err != nil || !g.autorun.Appeared() {
			return g, err
		}
	}
	start := time.Now()
	g, err := h.protectedGuest(ctx)
	h.mu.Lock()
	h.nextCheck = time.Now().Add(20 * time.Since(start))
	h.mu.Unlock()
	return g, err
}

// reportAutorun adds autorun changes to the result of a session.
func (h *handle) reportAutorun(s *driver.Session, err error) (*driver.Session, error) {
	if err != nil || !h.autorun.Shows {
		return s, err
	}
	wrapped := *s
	wrapped.Process = autorunProcess{s.Process, h}
	return &wrapped, nil
}

type autorunProcess struct {
	driver.Process
	h *handle
}

// Wait waits for the session, and scans for autorun changes.
func (t autorunProcess) Wait(ctx context.Context) (driver.Result, error) {
	res, err := t.Process.Wait(ctx)
	if err == nil {
		res.AutorunChanges, res.AutorunWarnings = t.h.autorun.Changes(false)
		res.PrivateCommits = t.h.autorun.PrivateCommits()
	}
	return res, err
}

// writableDirs lists the directories of the user that the workload can write.
func (u *launchSpec) writableDirs() []string {
	var list []string
	if u.policy.ReadOnly || u.level.noMounts {
		return nil
	}
	if u.hostDir {
		list = append(list, u.guestDir)
	}
	for _, b := range u.binds {
		if !b.ReadOnly && !b.Empty && !b.isMissing() {
			list = append(list, b.Dir)
		}
	}
	return list
}

// protectAutorun returns the mounts that protect the autorun files of a checked directory;
// inside is its path for the workload.
func (u launchSpec) protectAutorun(l *launch, d *protect.Dir, inside string, readOnly bool) ([]guestproto.Mount, error) {
	if readOnly {
		return nil, nil
	}
	return u.autorun.Mounts(d, inside, func(f *os.File) { l.addFile(fmt.Sprintf("reserved%d", len(l.Files)), f) })
}

// refuseAutorunFiles refuses writable directories of the host that contain autorun files,
// at levels that can't make those read-only.
func (u launchSpec) refuseAutorunFiles(how string) error {
	if u.policy.ReadOnly {
		return nil
	}
	var dirs []string
	if u.hostDir {
		dirs = append(dirs, u.files)
	}
	for _, b := range u.binds {
		if !b.ReadOnly {
			dirs = append(dirs, b.Dir)
		}
	}
	for _, dir := range dirs {
		what, instead := fmt.Sprintf("directory %q", dir), "bind it read-only, or choose isolation namespaces"
		if u.hostDir && dir == u.files {
			what, instead = "the directory in place", "choose isolation namespaces, or copy the directory"
		}
		found, err := u.autorun.HasFiles(dir)
		if err != nil {
			return err
		}
		if found {
			return fmt.Errorf("%s contains autorun files, which can't be kept read-only %s: %w: %s", what, how, fault.Unsupported, instead)
		}
	}
	return nil
}

// shell returns the guest's Shell. Results also have the requests that the proxy refused
// and the changed autorun files: see package protect.
func (h *handle) shell(ctx context.Context) (*driver.Shell, error) {
	c, err := h.att.Guest(ctx)
	if err != nil {
		return nil, err
	}
	s := *c.Shell()
	attach := s.Attach
	s.Starter = autorunStarter{s.Starter, h}
	s.Run = func(ctx context.Context, cmd driver.Command) (driver.Result, error) {
		refused := h.p.proxies().Refused(h.id)
		moment := refused.Now()
		g, err := h.protectedGuest(ctx)
		if err != nil {
			return driver.Result{}, err
		}
		limited, _, removeGroup, err := g.withCommandGroup(ctx, &cmd)
		if err != nil {
			return driver.Result{}, err
		}
		defer removeGroup()
		ended := h.autorun.StartCommand()
		res, err := g.Shell().Run(limited, cmd)
		if ended(); err == nil {
			res.AutorunChanges, res.AutorunWarnings = h.autorun.Changes(false)
			res.PrivateCommits, res.Refused = h.autorun.PrivateCommits(), refused.Since(moment)
		}
		return res, err
	}
	s.Attach = func(ctx context.Context, id string) (*driver.Session, error) { return h.reportAutorun(attach(ctx, id)) }
	return &s, nil
}

type autorunStarter struct {
	driver.Starter
	h *handle
}

func (s autorunStarter) Start(ctx context.Context, cmd driver.Command) (*driver.Session, error) {
	g, err := s.h.protectedGuest(ctx)
	if err != nil {
		return nil, err
	}
	limited, started, ended, err := g.withCommandGroup(ctx, &cmd)
	if err != nil {
		return nil, err
	}
	s.h.autorun.StartCommand()() // its end is not known
	sess, err := g.Shell().Start(limited, cmd)
	if started(); err != nil {
		ended()
	}
	return s.h.reportAutorun(sess, err)
}
