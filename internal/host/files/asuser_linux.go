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

// AsUser returns f with every change made under the file system ids (setfsuid, setfsgid)
// of a user whose group has the same number. The process must be root. It is for mounts
// that map the ids of the workload alone: root's own id is not valid there.
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
	own.SetXattrs = func(ctx context.Context, name, prefix string, attrs map[string]string) error {
		return runAsUser(uid, func() error { return f.SetXattrs(ctx, name, prefix, attrs) })
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

// fsIDs are the file system ids of a thread.
type fsIDs struct{ uid, gid int }

// withFSIDs calls f on an OS thread with other file system ids, and with the thread's own
// ids as argument. If the thread's own ids can't be restored, the thread is not used for
// anything else: Go ends it with its goroutine.
func withFSIDs(ids fsIDs, f func(was fsIDs) error) error {
	runtime.LockOSThread()
	was, err := setFSIDs(ids)
	defer func() {
		if _, err := setFSIDs(was); err == nil {
			runtime.UnlockOSThread()
		}
	}()
	if err != nil {
		return fmt.Errorf("files: take the ids of the workload: %w: %w", fault.Failed, err)
	}
	return f(was)
}

// runAsUser is withFSIDs for a user whose group has the same number.
func runAsUser(uid int, f func() error) error {
	return withFSIDs(fsIDs{uid, uid}, func(fsIDs) error { return f() })
}

// setFSIDs sets the file system ids of the calling thread, and returns the previous ones.
func setFSIDs(ids fsIDs) (was fsIDs, err error) {
	if was.gid, err = unix.SetfsgidRetGid(ids.gid); err != nil {
		return was, err
	}
	if was.uid, err = unix.SetfsuidRetUid(ids.uid); err != nil {
		return was, err
	}
	// Neither call reports failure; setting an invalid id returns the present one.
	if now, err := unix.SetfsuidRetUid(-1); err != nil || now != ids.uid {
		return was, fmt.Errorf("the user is %d: %w", now, fault.PermissionDenied)
	}
	return was, nil
}

// StepAsUser returns a function that runs a step under the ids of a user, as AsUser does.
func StepAsUser(uid int) func(step func() error) error {
	return func(step func() error) error { return runAsUser(uid, step) }
}

// GuardAsProcess returns a commit guard that runs under the ids of this process, where
// the change itself is made under those of another user (see AsUser), which can't read
// what the guard reads. From the change on the thread has the user's ids again.
func GuardAsProcess(guard func(change func() error) error) func(change func() error) error {
	if guard == nil {
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
			return fmt.Errorf("files: take back the ids of this process: %w: %w", fault.Failed, err)
		}
		return guard(func() error {
			if _, err := setFSIDs(user); err != nil {
				return fmt.Errorf("files: take the ids of the workload: %w: %w", fault.Failed, err)
			}
			changing = true
			return change()
		})
	}
}
