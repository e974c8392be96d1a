package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/guest/supervise"
	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/internal/host/wsdir"
)

// The kernel detaches a mount, in all mount namespaces, when a process outside renames
// another file over its mount point or removes that: "git config" and editors write files
// so. What is then at the path is not protected. So the mounts are checked before each
// command, and made again. A private copy of a Git directory can't be mounted again into a
// running guest by this, see autorun_late_linux.go, nor can anything at levels whose guest
// has no capabilities: then a new guest is started, or the command is refused while other
// commands run.

// openRootfs opens the root directory of the guest's mount namespace, if mounts protect
// autorun files.
func (h *handle) openRootfs(g *guestConn, u *launchSpec) error {
	if u.level.noMounts || !u.showsHostDirs() {
		return nil
	}
	if g.gits != nil {
		if err := g.loadPartial(h); err != nil {
			return err
		}
	}
	if g.autorun == nil {
		m, err := h.att.Dir.Read()
		if err != nil {
			return err
		}
		w, err := autorunSection.Get(m)
		if err != nil {
			return err
		}
		if w != nil {
			g.autorunMounts = w.Mounts
		}
	} else {
		g.autorunMounts = g.autorun.Mounts
	}
	if len(g.autorunMounts) == 0 && g.gits == nil {
		return nil
	}
	pid, err := g.pid(h.att.Dir, u)
	if err != nil {
		return err
	}
	g.rootfs, err = os.OpenFile(fmt.Sprintf("/proc/%d/root", pid), unix.O_PATH|unix.O_DIRECTORY, 0)
	return err
}

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

// lostMounts lists the mounts whose path leads to something else now. A path that does not
// exist any more needs no mount.
func (g *guestConn) lostMounts() []heldMount {
	var lost []heldMount
	for _, m := range g.autorunMounts {
		mounted, err := g.isMount(m.Target)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
			continue
		}
		if err != nil || !mounted {
			lost = append(lost, m)
		}
	}
	return lost
}

// restoreMounts makes lost mounts again, and returns those that are still lost.
func (g *guestConn) restoreMounts(ctx context.Context) []heldMount {
	if g.rootfs == nil {
		return nil
	}
	lost := g.lostMounts()
	var again []guestproto.Mount
	for _, m := range lost {
		if m.Self {
			again = append(again, guestproto.Mount{Kind: guestproto.MountSelf, Target: m.Target, ReadOnly: m.ReadOnly})
		}
	}
	if len(again) < len(lost) || len(lost) == 0 {
		return lost
	}
	g.Hold(ctx, again) //nolint:errcheck // the next line looks
	return g.lostMounts()
}

// protectedGuest returns the guest, with all mounts that protect autorun files.
func (h *handle) protectedGuest(ctx context.Context) (*guestConn, error) {
	g, err := h.att.Guest(ctx)
	if err != nil {
		return nil, err
	}
	lost, err := h.restoreProtection(ctx, g)
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
	h.autorun.mu.Lock()
	h.autorun.restarts = append(h.autorun.restarts, lost+", so the guest was started again: /tmp and the home inside are empty")
	h.autorun.mu.Unlock()
	if lost, err = h.restoreProtection(ctx, g); err != nil {
		return nil, err
	}
	if lost != "" {
		return nil, fmt.Errorf("sandbox: %s, and can't be protected: %w: it is being replaced on the host; try again", lost, fault.Unavailable)
	}
	return g, nil
}

// restoreProtection makes the mounts that are missing. It returns what can't be protected,
// and why it is not.
func (h *handle) restoreProtection(ctx context.Context, g *guestConn) (lost string, err error) {
	if g.gits != nil {
		g.seen.Store(int64(g.gits.appearances()))
	}
	left, err := h.protectRepos(ctx, g, true)
	if err != nil {
		return "", err
	}
	if mounts := g.restoreMounts(ctx); len(mounts) > 0 {
		return mounts[0].Target + " was replaced on the host", nil
	}
	if len(left) > 0 {
		return left[0] + " appeared after the start of the guest", nil
	}
	configured, err := h.protectConfigured(ctx, g)
	if err != nil {
		return "", fmt.Errorf("sandbox: protect what git's configuration names: %w", err)
	}
	if configured != "" {
		return configured + " is named by git's configuration since the start of the guest", nil
	}
	return "", nil
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
	h.autorun.mu.Lock()
	due := !time.Now().Before(h.autorun.nextCheck)
	h.autorun.mu.Unlock()
	if !due {
		g, err := h.att.Guest(ctx)
		if err != nil || g.gits == nil || int64(g.gits.appearances()) == g.seen.Load() {
			return g, err
		}
	}
	start := time.Now()
	g, err := h.protectedGuest(ctx)
	h.autorun.mu.Lock()
	h.autorun.nextCheck = time.Now().Add(20 * time.Since(start))
	h.autorun.mu.Unlock()
	return g, err
}
