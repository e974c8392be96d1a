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
		err = runAsUser(uid, func() error { res, err = f.Edit(ctx, name, edits, opts); return err })
		return res, err
	}
	own.Rename = func(ctx context.Context, from, to string, opts *driver.RenameOptions) error {
		return runAsUser(uid, func() error { return f.Rename(ctx, from, to, opts) })
	}
	own.Copy = func(ctx context.Context, from, to string, opts *driver.CopyOptions) error {
		return runAsUser(uid, func() error { return f.Copy(ctx, from, to, opts) })
	}
	own.Chmod = func(ctx context.Context, name string, mode fs.FileMode) error {
		return runAsUser(uid, func() error { return f.Chmod(ctx, name, mode) })
	}
	own.Symlink = func(ctx context.Context, target, name string) error {
		return runAsUser(uid, func() error { return f.Symlink(ctx, target, name) })
	}
	if f.Import != nil {
		own.Import = func(ctx context.Context, dir, name string, opts *driver.ImportOptions) (driver.ImportResult, error) {
			o := *opts
			o.Make = StepAsUser(uid)
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
	err = runAsUser(f.uid, func() error { res, err = f.Files.Write(ctx, name, body, opts); return err })
	return res, err
}

func (f userFiles) Mkdir(ctx context.Context, name string, opts *driver.MkdirOptions) error {
	return runAsUser(f.uid, func() error { return f.Files.Mkdir(ctx, name, opts) })
}

func (f userFiles) Remove(ctx context.Context, name string, opts *driver.RemoveOptions) error {
	return runAsUser(f.uid, func() error { return f.Files.Remove(ctx, name, opts) })
}

// fsIDs are who a thread is for files.
type fsIDs struct{ uid, gid int }

// withFSIDs calls f, with who the thread was before, on a thread that is somebody for
// files. A thread that can't be given back its own ids serves nobody else.
func withFSIDs(who fsIDs, f func(was fsIDs) error) error {
	runtime.LockOSThread()
	was, err := setFSIDs(who)
	defer func() {
		if _, err := setFSIDs(was); err == nil {
			runtime.UnlockOSThread()
		}
	}()
	if err != nil {
		return fmt.Errorf("guest: become the workload: %w: %w", fault.Failed, err)
	}
	return f(was)
}

// runAsUser is as for a user whose group has the same number.
func runAsUser(uid int, f func() error) error {
	return withFSIDs(fsIDs{uid, uid}, func(fsIDs) error { return f() })
}

// setFSIDs sets the ids for files of the calling thread, and returns those that it
// had.
func setFSIDs(who fsIDs) (was fsIDs, err error) {
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

// StepAsUser returns what makes a step as a user, as AsUser makes changes.
func StepAsUser(uid int) func(step func() error) error {
	return func(step func() error) error { return runAsUser(uid, step) }
}

// GuardAsProcess lets a gate look as this process, where the change is made by a thread
// that is another user for files (see AsUser) and can't read what the gate looks
// at. The thread is that user again from the change on.
func GuardAsProcess(gate func(change func() error) error) func(change func() error) error {
	if gate == nil {
		return nil
	}
	self := fsIDs{os.Geteuid(), os.Getegid()}
	return func(change func() error) error {
		runtime.LockOSThread()
		user, err := setFSIDs(self)
		changing := false
		defer func() {
			back := error(nil)
			if !changing {
				_, back = setFSIDs(user)
			}
			if back == nil {
				runtime.UnlockOSThread() // as in as
			}
		}()
		if err != nil {
			return fmt.Errorf("guest: look as who serves the workload: %w: %w", fault.Failed, err)
		}
		return gate(func() error {
			if _, err := setFSIDs(user); err != nil {
				return fmt.Errorf("guest: become the workload: %w: %w", fault.Failed, err)
			}
			changing = true
			return change()
		})
	}
}
