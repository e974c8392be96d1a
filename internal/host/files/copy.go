package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// A copier copies by name. Each name is resolved inside the root, so a tree that changes
// during the copy can't lead outside.
type copier struct {
	r    *Root
	opts *driver.CopyOptions
}

func (c *copier) copy(ctx context.Context, from, to cleanName) error {
	info, err := c.r.sys.stat(ctx, from, new(driver.StatOptions))
	if err != nil {
		return err
	}
	switch {
	case info.Type == driver.TypeFile && to.mustBeDir:
		return errIsDir
	case info.Type == driver.TypeFile:
		return c.copyFile(ctx, from.name, to.name, c.opts.Parents)
	case info.Type != driver.TypeDir:
		return errNotRegular
	case !c.opts.Recursive:
		return fmt.Errorf("%w: it is a directory; set Recursive to copy a tree", fault.InvalidArgument)
	case to.name == from.name || strings.HasPrefix(to.name, from.name+"/"):
		return fmt.Errorf("%w: a directory can't be copied into itself", fault.InvalidArgument)
	}
	if err := c.checkNotInside(ctx, from, to); err != nil {
		return err
	}
	return notEvicted(c.copyTopDir(ctx, info, from.name, to.name))
}

// notEvicted changes the code Evicted of a copy of a tree to Unavailable. Evicted would
// promise that nothing was copied and that the call may be repeated.
func notEvicted(err error) error {
	if errors.Is(err, fault.Evicted) {
		return fmt.Errorf("%w: the tree was copied in part: %v", fault.Unavailable, err) //nolint:errorlint // its code is not to be found
	}
	return err
}

// checkNotInside refuses to copy a directory into itself through a symlink. It compares
// inodes from the nearest existing parent of the destination up to the root.
func (c *copier) checkNotInside(ctx context.Context, from, to cleanName) error {
	at, _ := splitName(to.name)
	for at != "." && fault.Of(c.checkExists(ctx, at)) == fault.NotFound {
		at, _ = splitName(at)
	}
	for ctx.Err() == nil {
		same, err := c.r.sys.sameFile(from.name, at)
		if err != nil {
			return err
		}
		if same {
			return fmt.Errorf("%w: a directory can't be copied into itself", fault.InvalidArgument)
		}
		if top, err := c.r.sys.sameFile(".", at); err != nil || top {
			return err
		}
		at += "/.."
	}
	return ctx.Err()
}

func (c *copier) checkExists(ctx context.Context, name string) error {
	_, err := c.r.sys.stat(ctx, cleanName{name: name}, new(driver.StatOptions))
	return err
}

// copyTopDir creates the destination directory and copies the entries into it.
func (c *copier) copyTopDir(ctx context.Context, info driver.Info, from, to string) error {
	err := c.r.sys.mkdir(cleanName{name: to}, &driver.MkdirOptions{Mode: dirMode(info)}, c.r.opts.Sync)
	if fault.Of(err) == fault.NotFound && c.opts.Parents {
		err = c.r.sys.mkdir(cleanName{name: to}, &driver.MkdirOptions{Mode: dirMode(info), Parents: true}, c.r.opts.Sync)
	}
	if fault.Of(err) == fault.AlreadyExists && !c.opts.CreateOnly {
		err = c.r.sys.mkdir(cleanName{name: to}, &driver.MkdirOptions{Parents: true}, c.r.opts.Sync)
	}
	if err != nil {
		return err
	}
	return c.copyEntries(ctx, from, to)
}

// dirMode returns the mode of the source, writable for the owner until the directory is
// complete.
func dirMode(info driver.Info) fs.FileMode { return info.Mode.Perm() | 0o700 }

func (c *copier) copyEntries(ctx context.Context, from, to string) error {
	infos, err := c.r.sys.readDir(cleanName{name: from}, false)
	if err != nil {
		return err
	}
	for _, info := range infos {
		if err := ctx.Err(); err != nil {
			return err
		}
		dest := joinName(to, info.Name())
		switch info.Type {
		case driver.TypeFile:
			err = c.copyFile(ctx, info.Path, dest, false)
		case driver.TypeDir:
			err = c.copyDir(ctx, info, dest)
		case driver.TypeSymlink:
			err = c.copySymlink(ctx, info, dest)
		default:
			err = errNotRegular
		}
		if err != nil && info.Type != driver.TypeDir {
			err = fmt.Errorf("%s: %w", quoteName(info.Path), err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *copier) copyDir(ctx context.Context, info driver.Info, dest string) error {
	err := c.r.sys.mkdir(cleanName{name: dest}, &driver.MkdirOptions{Mode: dirMode(info)}, c.r.opts.Sync)
	if fault.Of(err) == fault.AlreadyExists {
		err = c.r.sys.mkdir(cleanName{name: dest}, &driver.MkdirOptions{Parents: true}, c.r.opts.Sync)
	}
	if err == nil {
		err = c.copyEntries(ctx, info.Path, dest)
	}
	if mode := info.Mode.Perm(); err == nil && dirMode(info) != mode {
		err = c.r.sys.chmod(ctx, cleanName{name: dest}, mode, c.r.opts.Sync)
	}
	return err
}

// copySymlink copies a symlink with its target unchecked. A call that follows the symlink
// checks it.
func (c *copier) copySymlink(ctx context.Context, info driver.Info, dest string) error {
	err := c.r.sys.symlinkUnchecked(info.Target, dest, c.r.opts.Sync)
	if fault.Of(err) != fault.AlreadyExists || c.opts.CreateOnly {
		return err
	}
	if err := c.r.sys.remove(ctx, cleanName{name: dest}, new(driver.RemoveOptions), c.r.opts.Sync); err != nil {
		return err
	}
	return c.r.sys.symlinkUnchecked(info.Target, dest, c.r.opts.Sync)
}

func (c *copier) copyFile(ctx context.Context, from, to string, parents bool) error {
	body, info, err := c.r.sys.read(cleanName{name: from}, new(driver.ReadOptions))
	if err != nil {
		return err
	}
	defer body.Close()
	o := &driver.WriteOptions{Mode: info.Mode.Perm(), CreateOnly: c.opts.CreateOnly, Parents: parents}
	o.SetMode = o.Mode != 0
	if err := c.r.checkWrite(cleanName{name: to}, o); err != nil {
		return err
	}
	_, err = c.r.sys.write(ctx, to, body, o)
	return err
}
