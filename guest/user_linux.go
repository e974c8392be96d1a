package guest

import (
	"context"
	"fmt"
	"io"
	"io/fs"
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
	if f.Import != nil {
		own.Import = func(ctx context.Context, dir, name string, opts *driver.ImportOptions) (driver.ImportResult, error) {
			o := *opts
			o.Make = func(step func() error) error { return as(uid, step) }
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
	oldUID, oldGID, err := setFS(uid, uid)
	defer func() {
		if _, _, err := setFS(oldUID, oldGID); err == nil {
			runtime.UnlockOSThread()
		}
	}()
	if err != nil {
		return fmt.Errorf("guest: become the workload: %w: %w", fault.Failed, err)
	}
	return f()
}

// setFS sets the ids for files of the calling thread, and returns those that it
// had.
func setFS(uid, gid int) (oldUID, oldGID int, err error) {
	if oldGID, err = unix.SetfsgidRetGid(gid); err != nil {
		return 0, 0, err
	}
	if oldUID, err = unix.SetfsuidRetUid(uid); err != nil {
		return 0, oldGID, err
	}
	// Neither call tells whether it did anything; asking for nobody shows it.
	if now, err := unix.SetfsuidRetUid(-1); err != nil || now != uid {
		return oldUID, oldGID, fmt.Errorf("the user is %d: %w", now, fault.PermissionDenied)
	}
	return oldUID, oldGID, nil
}

// Elsewhere lets a gate stand on a thread of its own: the change is made by one
// that is another user for files (see AsUser), who can't read what the gate looks at.
func Elsewhere(gate func(change func() error) error) func(change func() error) error {
	if gate == nil {
		return nil
	}
	return func(change func() error) error {
		open, changed, answer := make(chan struct{}), make(chan error, 1), make(chan error, 1)
		go func() { // ends with this call, which waits for the answer
			answer <- gate(func() error {
				close(open)
				return <-changed
			})
		}()
		select {
		case <-open:
			changed <- change()
			return <-answer
		case err := <-answer:
			return err
		}
	}
}
