package files

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// AsUser returns f with every change made as a user, whose group has the same
// number, by a process that is root: where a mount maps the workload's id alone,
// root's does not exist.
func AsUser(f *driver.FS, uid int) *driver.FS {
	own := *f
	own.Files = userFiles{f.Files, uid}
	own.Edit = func(ctx context.Context, name string, edits []driver.Edit, opts *driver.EditOptions) (res driver.EditResult, err error) {
		err = asUser(uid, func() error { res, err = f.Edit(ctx, name, edits, opts); return err })
		return res, err
	}
	own.Rename = func(ctx context.Context, from, to string, opts *driver.RenameOptions) error {
		return asUser(uid, func() error { return f.Rename(ctx, from, to, opts) })
	}
	own.Copy = func(ctx context.Context, from, to string, opts *driver.CopyOptions) error {
		return asUser(uid, func() error { return f.Copy(ctx, from, to, opts) })
	}
	own.Chmod = func(ctx context.Context, name string, mode fs.FileMode) error {
		return asUser(uid, func() error { return f.Chmod(ctx, name, mode) })
	}
	own.Symlink = func(ctx context.Context, target, name string) error {
		return asUser(uid, func() error { return f.Symlink(ctx, target, name) })
	}
	if f.Import != nil {
		own.Import = func(ctx context.Context, dir, name string, opts *driver.ImportOptions) (driver.ImportResult, error) {
			o := *opts
			o.Make = StepAs(uid)
			return f.Import(ctx, dir, name, &o)
		}
	}
	return &own
}

type userFiles struct {
	driver.Files
	uid int
}

func (f userFiles) Write(ctx context.Context, name string, body io.Reader, opts *driver.WriteOptions) (res driver.WriteResult, err error) {
	err = asUser(f.uid, func() error { res, err = f.Files.Write(ctx, name, body, opts); return err })
	return res, err
}

func (f userFiles) Mkdir(ctx context.Context, name string, opts *driver.MkdirOptions) error {
	return asUser(f.uid, func() error { return f.Files.Mkdir(ctx, name, opts) })
}

func (f userFiles) Remove(ctx context.Context, name string, opts *driver.RemoveOptions) error {
	return asUser(f.uid, func() error { return f.Files.Remove(ctx, name, opts) })
}

// ids are who a thread is for files.
type ids struct{ uid, gid int }

// as calls f, with who the thread was before, on a thread that is somebody for
// files. A thread that can't be given back its own ids serves nobody else.
func as(who ids, f func(was ids) error) error {
	runtime.LockOSThread()
	was, err := setFS(who)
	defer func() {
		if _, err := setFS(was); err == nil {
			runtime.UnlockOSThread()
		}
	}()
	if err != nil {
		return fmt.Errorf("guest: become the workload: %w: %w", fault.Failed, err)
	}
	return f(was)
}

// asUser is as for a user whose group has the same number.
func asUser(uid int, f func() error) error {
	return as(ids{uid, uid}, func(ids) error { return f() })
}

// setFS sets the ids for files of the calling thread, and returns those that it
// had.
func setFS(who ids) (was ids, err error) {
	if was.gid, err = unix.SetfsgidRetGid(who.gid); err != nil {
		return was, err
	}
	if was.uid, err = unix.SetfsuidRetUid(who.uid); err != nil {
		return was, err
	}
	// Neither call tells whether it did anything; asking for nobody shows it.
	if now, err := unix.SetfsuidRetUid(-1); err != nil || now != who.uid {
		return was, fmt.Errorf("the user is %d: %w", now, fault.PermissionDenied)
	}
	return was, nil
}

// StepAs returns what makes a step as a user, as AsUser makes changes.
func StepAs(uid int) func(step func() error) error {
	return func(step func() error) error { return asUser(uid, step) }
}

// Elsewhere lets a gate look as this process, where the change is made by a thread
// that is another user for files (see AsUser) and can't read what the gate looks
// at. The thread is that user again from the change on.
func Elsewhere(gate func(change func() error) error) func(change func() error) error {
	if gate == nil {
		return nil
	}
	self := ids{os.Geteuid(), os.Getegid()}
	return func(change func() error) error {
		runtime.LockOSThread()
		user, err := setFS(self)
		changing := false
		defer func() {
			back := error(nil)
			if !changing {
				_, back = setFS(user)
			}
			if back == nil {
				runtime.UnlockOSThread() // as in as
			}
		}()
		if err != nil {
			return fmt.Errorf("guest: look as who serves the workload: %w: %w", fault.Failed, err)
		}
		return gate(func() error {
			if _, err := setFS(user); err != nil {
				return fmt.Errorf("guest: become the workload: %w: %w", fault.Failed, err)
			}
			changing = true
			return change()
		})
	}
}
