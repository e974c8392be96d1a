package sandbox

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/posix/boundary"
	"github.com/croft-run/croft/workspace/driver"
)

// Where the files of a workspace are what a mount of the guest shows, such as an
// overlay, they are reached through a descriptor of that mount. It is handed out
// when the guest starts, before any process of the workload; who adopts the guest
// later gets it from the kernel, and holds it against the id that was noted.

// mountID is the id of the mount that a descriptor is on; the kernel never gives
// it to another.
func mountID(fd int) (uint64, error) {
	var st unix.Statx_t
	const unique = 0x4000 // STATX_MNT_ID_UNIQUE
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unique, &st); err != nil {
		return 0, err
	}
	if st.Mask&unique == 0 {
		// A kernel before 6.8: the id may be used again, after the mount's end.
		if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &st); err != nil {
			return 0, err
		}
	}
	return st.Mnt_id, nil
}

// reach opens the files of a workspace whose guest another process started.
func (p *Provider) reach(g *live, rec *record, u unit) error {
	root, err := os.OpenFile(fmt.Sprintf("/proc/%d/root%s", rec.PID, u.inside), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer root.Close()
	if start, err := startTime(rec.PID); err != nil || start != rec.Start {
		return fmt.Errorf("the guest has ended: %w", fault.Evicted)
	}
	id, err := mountID(int(root.Fd()))
	if err != nil {
		return err
	}
	if id != rec.Mount || rec.Mount == 0 {
		return fmt.Errorf("the mount is another one: %w", fault.Failed)
	}
	return g.use(root, p.ids, u)
}

// use makes the files below root, of which it takes a copy, those of the guest.
func (g *live) use(root *os.File, i ids, u unit) error {
	fd, err := unix.FcntlInt(root.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if g.root, err = boundary.FromFD(fd, &boundary.Options{ReadOnly: u.policy.ReadOnly, Sync: u.policy.Durable}); err != nil {
		return err
	}
	g.files = g.root.Module()
	if i.root {
		g.files = asWorkload(g.files, i.base+workloadUID)
	}
	return nil
}

// asWorkload makes changes as a user: this process is root, whose id does not
// exist in a mount that maps the workload's alone.
func asWorkload(f *driver.FS, uid int) *driver.FS {
	own := *f
	own.Files = userFiles{f.Files, uid}
	own.Edit = func(ctx context.Context, name string, edits []driver.Edit, opts *driver.EditOptions) (res driver.EditResult, err error) {
		err = as(uid, func() error { res, err = f.Edit(ctx, name, edits, opts); return err })
		return res, err
	}
	own.Rename = func(ctx context.Context, from, to string, opts *driver.RenameOptions) error {
		return as(uid, func() error { return f.Rename(ctx, from, to, opts) })
	}
	own.Copy = func(ctx context.Context, from, to string, opts *driver.CopyOptions) error {
		return as(uid, func() error { return f.Copy(ctx, from, to, opts) })
	}
	own.Chmod = func(ctx context.Context, name string, mode fs.FileMode) error {
		return as(uid, func() error { return f.Chmod(ctx, name, mode) })
	}
	own.Symlink = func(ctx context.Context, target, name string) error {
		return as(uid, func() error { return f.Symlink(ctx, target, name) })
	}
	return &own
}

type userFiles struct {
	driver.Files
	uid int
}

func (f userFiles) Write(ctx context.Context, name string, body io.Reader, opts *driver.WriteOptions) (res driver.WriteResult, err error) {
	err = as(f.uid, func() error { res, err = f.Files.Write(ctx, name, body, opts); return err })
	return res, err
}

func (f userFiles) Mkdir(ctx context.Context, name string, opts *driver.MkdirOptions) error {
	return as(f.uid, func() error { return f.Files.Mkdir(ctx, name, opts) })
}

func (f userFiles) Remove(ctx context.Context, name string, opts *driver.RemoveOptions) error {
	return as(f.uid, func() error { return f.Files.Remove(ctx, name, opts) })
}

// as calls f on a thread whose user, for files, is uid. A thread that can't
// be given back its own serves nobody else.
func as(uid int, f func() error) error {
	runtime.LockOSThread()
	gid, err := setFS(uid, uid)
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("sandbox: become the workload: %w: %w", fault.Failed, err)
	}
	defer func() {
		if _, err := setFS(0, gid); err == nil {
			runtime.UnlockOSThread()
		}
	}()
	return f()
}

// setFS sets the ids for files of the calling thread, and returns the group that
// it had.
func setFS(uid, gid int) (before int, err error) {
	before, err = unix.SetfsgidRetGid(gid)
	if err != nil {
		return 0, err
	}
	if _, err := unix.SetfsuidRetUid(uid); err != nil {
		return before, err
	}
	// Neither call tells whether it did anything; asking for nobody shows it.
	if now, err := unix.SetfsuidRetUid(-1); err != nil || now != uid {
		return before, fmt.Errorf("the user is %d: %w", now, fault.PermissionDenied)
	}
	return before, nil
}
