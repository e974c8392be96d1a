package protect

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/internal/host/guest"
	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/provider/sandbox/internal/gitdir"
)

// The kernel detaches a mount, in all mount namespaces, when a process outside renames
// another file over its mount point or removes that: "git config" and editors write files
// so. What is then at the path is not protected. So the mounts are checked before each
// command, and made again. A private copy of a Git directory can't be mounted again into a
// running guest by this, see Guest.Start, nor can anything at levels whose guest
// has no capabilities: then a new guest is started, or the command is refused while other
// commands run.

// A Guest protects the autorun files of a workspace while a guest runs.
type Guest struct {
	ws       *Workspace
	client   *guest.Client
	settings *Settings    // of this process, for a guest as it runs
	repos    *repoWatch   // nil without writable directories of the user
	mounts   []Mount      // that protect autorun files
	rootfs   *os.File     // with mounts or repos: the root directory in the guest's mount namespace
	seen     atomic.Int64 // appearances that were looked at
	lateMu   sync.Mutex
	partial  map[string]bool // guarded by lateMu: see setPartial
}

// Watch starts to watch the directories of the user that the workload can write, before there
// is a guest.
func (ws *Workspace) Watch(dirs []string) *Guest { return &Guest{ws: ws, repos: newRepoWatch(dirs)} }

// Close ends the protection. The guest lives on.
func (g *Guest) Close() {
	if g.repos != nil {
		g.repos.close()
	}
	if g.rootfs != nil {
		g.rootfs.Close()
	}
}

// Attach begins the protection of a guest, of which pid returns the process id. A guest that
// this process has not started has the mounts of the state.
func (g *Guest) Attach(c *guest.Client, u *Settings, pid func() (int, error)) error {
	g.client, g.settings = c, u
	if g.repos != nil {
		g.ws.mu.Lock()
		g.ws.shown = g.repos.tops
		g.ws.mu.Unlock()
		copies, err := gitdir.Read(g.ws.Dir)
		if err != nil {
			return err
		}
		g.setPartial(copies.List)
	}
	w := u.State
	if w == nil {
		var err error
		if w, err = readState(g.ws.Dir); err != nil {
			return err
		}
	}
	if w != nil {
		g.mounts = w.Mounts
	}
	if len(g.mounts) == 0 && g.repos == nil {
		return nil
	}
	id, err := pid()
	if err != nil {
		return err
	}
	g.rootfs, err = os.OpenFile(fmt.Sprintf("/proc/%d/root", id), unix.O_PATH|unix.O_DIRECTORY, 0)
	return err
}

// lostMounts lists the mounts whose path leads to something else now. A path that does not
// exist any more needs no mount.
func (g *Guest) lostMounts() []Mount {
	var lost []Mount
	for _, m := range g.mounts {
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
func (g *Guest) restoreMounts(ctx context.Context) []Mount {
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
	g.client.Hold(ctx, again) //nolint:errcheck // the next line looks
	return g.lostMounts()
}

// Restore makes the mounts that are missing. It returns what can't be protected,
// and why it is not.
func (g *Guest) Restore(ctx context.Context) (lost string, err error) {
	if g.repos != nil {
		g.seen.Store(g.repos.appearances())
	}
	left, err := g.protectRepos(ctx, true)
	if err != nil {
		return "", err
	}
	if mounts := g.restoreMounts(ctx); len(mounts) > 0 {
		return mounts[0].Target + " was replaced on the host", nil
	}
	if len(left) > 0 {
		return left[0] + " appeared after the start of the guest", nil
	}
	configured, err := g.protectConfigured(ctx)
	if err != nil {
		return "", fmt.Errorf("sandbox: protect what git's configuration names: %w", err)
	}
	if configured != "" {
		return configured + " is named by git's configuration since the start of the guest", nil
	}
	return "", nil
}

// Appeared reports whether a .git has appeared since the last Restore, as far as that is known
// without a walk.
func (g *Guest) Appeared() bool { return g.repos != nil && g.repos.appearances() != g.seen.Load() }

// Unprotected counts what Restore would protect, in tests: repositories that appeared, and
// mounts that were lost.
func (g *Guest) Unprotected() int {
	open, _ := g.openRepos()
	return len(open) + len(g.lostMounts())
}

// openInside opens a path inside as it is shown there, to look at it.
func (g *Guest) openInside(target string) (fd int, err error) {
	conn, err := g.rootfs.SyscallConn() // the connection may be closed meanwhile
	if err != nil {
		return -1, err
	}
	cerr := conn.Control(func(root uintptr) {
		fd, err = unix.Openat2(int(root), strings.TrimPrefix(target, "/"), &unix.OpenHow{
			Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
		})
	})
	return fd, errors.Join(cerr, err)
}

// isMount reports whether a path inside is a mount point, or a symlink. An error says that
// nothing is there.
func (g *Guest) isMount(target string) (bool, error) {
	fd, err := g.openInside(target)
	if err != nil {
		return false, err
	}
	defer unix.Close(fd) //nolint:errcheck // it was only looked at
	var st unix.Statx_t
	err = unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_TYPE, &st)
	return st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 || st.Mode&unix.S_IFMT == unix.S_IFLNK, err
}

// isReadOnly reports whether the directory inside in which a path would be made is in a
// read-only mount.
func (g *Guest) isReadOnly(target string) bool {
	for at := filepath.Dir(target); at != "/"; at = filepath.Dir(at) {
		if fd, err := g.openInside(at); err == nil {
			defer unix.Close(fd) //nolint:errcheck // it was only looked at
			var st unix.Statfs_t
			return unix.Fstatfs(fd, &st) == nil && st.Flags&unix.ST_RDONLY != 0
		}
	}
	return false
}

const (
	lateInterval = 250 * time.Millisecond
	lateFirst    = 2 * time.Millisecond // the wait before the second attempt to protect a repository; it doubles
	lateLast     = 10 * time.Second
)

// A lateAttempt is when a repository that could not be protected is tried again: at first what writes
// to it, such as git clone, may be in the way; later each attempt, which freezes the workload, is rare.
type lateAttempt struct {
	wait time.Duration
	next time.Time
}

// lateRetry says when run looks again without an event. Nothing tells that git has replaced
// a protected file of a repository that is shown itself, as it does at the end of a clone.
func (g *Guest) lateRetry(pending bool, wait time.Duration, failed map[string]lateAttempt) <-chan time.Time {
	var waits []time.Duration
	if pending {
		waits = append(waits, min(wait, lateInterval))
	}
	if g.settings.Late {
		if g.settings.Shared {
			waits = append(waits, max(wait, lateFirst))
		}
		for _, a := range failed {
			waits = append(waits, time.Until(a.next))
		}
	}
	if len(waits) == 0 {
		return nil
	}
	return time.After(slices.Min(waits))
}

// Start protects repositories that appear while commands run, and reports them, until the
// connection ends.
func (g *Guest) Start() {
	if g.repos != nil {
		go g.run()
	}
}

func (g *Guest) run() {
	var again <-chan time.Time
	var reported []lateGit
	failed := map[string]lateAttempt{} // what can't be protected, by path and identity: it delays no protection of others
	for wait := time.Duration(0); ; {
		select {
		case <-g.ws.Context.Done():
			return
		case <-g.client.Gone():
			return
		case <-g.repos.done:
			return
		case <-g.repos.appeared:
			wait = lateFirst
		case <-again:
			wait = min(2*wait, lateLast)
		}
		open, pending := g.openRepos()
		ids := map[string]lateAttempt{}
		for _, e := range open {
			id := g.repos.identity(e)
			ids[id] = failed[id]
		}
		failed = ids
		due := g.settings.Late && slices.ContainsFunc(slices.Collect(maps.Values(ids)), func(a lateAttempt) bool { return !time.Now().Before(a.next) })
		if due {
			left, err := g.protectFrozen()
			for id, a := range failed {
				if slices.ContainsFunc(left, func(at string) bool { return strings.HasPrefix(id, at+"\x00") }) {
					a.wait = min(max(2*a.wait, lateFirst), lateLast)
					a.next = time.Now().Add(a.wait)
					failed[id] = a
				} else {
					delete(failed, id)
				}
			}
			if err != nil {
				g.ws.Log.Warn("sandbox: repositories that appeared can't be protected while the workload runs", "workspace", g.ws.ID, "error", err)
			}
		}
		again = g.lateRetry(pending, wait, failed)
		if len(open) == 0 {
			continue
		}
		if !slices.Equal(open, reported) {
			reported = open
			g.ws.reportNow()
		}
	}
}

// protectFrozen is protectRepos while the workload is frozen, where it can be.
func (g *Guest) protectFrozen() ([]string, error) {
	ctx, cancel := context.WithTimeout(g.ws.Context, time.Minute)
	defer cancel()
	if _, done, err := g.ws.Freeze(ctx); err == nil && done != nil {
		defer done()
	}
	return g.protectRepos(ctx, false)
}
