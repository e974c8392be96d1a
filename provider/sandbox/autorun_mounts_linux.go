package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/host/guest/supervise"
	"github.com/croft-run/croft/host/guestproto"
	"github.com/croft-run/croft/host/wsdir"
)

// The kernel detaches a mount, in all mount namespaces, when a process outside renames
// another file over its mount point or removes that: "git config" and editors write files
// so. What is then at the path is not protected. So the mounts are checked before each
// command, and made again. A private copy of a Git directory can't be mounted again into a
// running guest, nor can anything at levels whose guest has no capabilities: then a new
// guest is started, or the command is refused while other commands run.

// openRootfs opens the root directory of the guest's mount namespace, if mounts protect
// autorun files.
func (h *handle) openRootfs(g *guestConn, u *launchSpec) error {
	if u.level.noMounts || !u.showsHostDirs() {
		return nil
	}
	if g.autorun == nil {
		m, err := h.att.Dir.Read()
		if err != nil {
			return err
		}
		if w, err := autorunSection.Get(m); err != nil || w == nil {
			return err
		} else if g.autorunMounts = w.Mounts; len(g.autorunMounts) == 0 {
			return nil
		}
	} else if g.autorunMounts = g.autorun.Mounts; len(g.autorunMounts) == 0 {
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
		fd, err := unix.Openat2(int(g.rootfs.Fd()), strings.TrimPrefix(m.Target, "/"), &unix.OpenHow{
			Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
		})
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
			continue
		}
		var st unix.Statx_t
		if err == nil {
			err = unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_TYPE, &st)
			unix.Close(fd) //nolint:errcheck // it was only looked at
		}
		if err != nil || st.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0 {
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
	if g.Hold(ctx, again) != nil {
		return lost // the guest lacks the capability
	}
	return g.lostMounts()
}

// protectedGuest returns the guest, with all mounts that protect autorun files.
func (h *handle) protectedGuest(ctx context.Context) (*guestConn, error) {
	g, err := h.att.Guest(ctx)
	if err != nil {
		return nil, err
	}
	lost := g.restoreMounts(ctx)
	if len(lost) == 0 {
		return g, nil
	}
	sessions, err := g.Shell().Sessions(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range sessions {
		if s.Running {
			return nil, fmt.Errorf("sandbox: %s was replaced on the host, and can't be protected while session %s runs: %w: end the sessions of the workspace, and try again",
				lost[0].Target, s.ID, fault.WrongState)
		}
	}
	h.p.log.Info("sandbox: autorun files were replaced on the host; the guest is started again", "workspace", h.id, "path", lost[0].Target)
	if err := h.restartGuest(ctx); err != nil {
		return nil, err
	}
	if g, err = h.att.Guest(ctx); err != nil {
		return nil, err
	}
	if lost = g.restoreMounts(ctx); len(lost) > 0 {
		return nil, fmt.Errorf("sandbox: %s can't be protected: %w: it is being replaced on the host; try again", lost[0].Target, fault.Unavailable)
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
// checked a twentieth of the time.
func (h *handle) guestForFiles(ctx context.Context) (*guestConn, error) {
	h.autorun.mu.Lock()
	due := !time.Now().Before(h.autorun.nextCheck)
	h.autorun.mu.Unlock()
	if !due {
		return h.att.Guest(ctx)
	}
	start := time.Now()
	g, err := h.protectedGuest(ctx)
	h.autorun.mu.Lock()
	h.autorun.nextCheck = time.Now().Add(20 * time.Since(start))
	h.autorun.mu.Unlock()
	return g, err
}
