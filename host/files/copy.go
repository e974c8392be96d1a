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

// A copier copies by names, each of which is resolved inside the root, so a tree
// that changes while it is copied can't lead out.
type copier struct {
	r    *Root
	opts *driver.CopyOptions
}

func (c *copier) copy(ctx context.Context, from, to target) error {
	info, err := c.r.sys.stat(ctx, from, new(driver.StatOptions))
	if err != nil {
		return err
	}
	switch {
	case info.Type == driver.TypeFile && to.dir:
		return errIsDir
	case info.Type == driver.TypeFile:
		return c.file(ctx, from.name, to.name, c.opts.Parents)
	case info.Type != driver.TypeDir:
		return errNotRegular
	case !c.opts.Recursive:
		return fmt.Errorf("%w: it is a directory; copying it with all below it has to be asked for", fault.InvalidArgument)
	case to.name == from.name || strings.HasPrefix(to.name, from.name+"/"):
		return fmt.Errorf("%w: a directory can't be copied into itself", fault.InvalidArgument)
	}
	if err := c.inside(ctx, from, to); err != nil {
		return err
	}
	return notEvicted(c.top(ctx, info, from.name, to.name))
}

// notEvicted is the error of a tree of which a part may have been copied. Evicted
// would say that nothing was, and that the call may be made again.
func notEvicted(err error) error {
	if errors.Is(err, fault.Evicted) {
		return fmt.Errorf("%w: the tree was copied in part: %v", fault.Unavailable, err) //nolint:errorlint // its code is not to be found
	}
	return err
}

// inside refuses to copy a directory into itself by way of a symlink. It goes up
// from the nearest directory that exists, as the system and not as the words
// have it.
func (c *copier) inside(ctx context.Context, from, to target) error {
	at, _ := split(to.name)
	for at != "." && fault.Of(c.exists(ctx, at)) == fault.NotFound {
		at, _ = split(at)
	}
	for ctx.Err() == nil {
		same, err := c.r.sys.same(from.name, at)
		if err != nil {
			return err
		}
		if same {
			return fmt.Errorf("%w: a directory can't be copied into itself", fault.InvalidArgument)
		}
		if top, err := c.r.sys.same(".", at); err != nil || top {
			return err
		}
		at += "/.."
	}
	return ctx.Err()
}

func (c *copier) exists(ctx context.Context, name string) error {
	_, err := c.r.sys.stat(ctx, target{name: name}, new(driver.StatOptions))
	return err
}

// top makes the directory at the new name and copies into it.
func (c *copier) top(ctx context.Context, info driver.Info, from, to string) error {
	err := c.r.sys.mkdir(target{name: to}, &driver.MkdirOptions{Mode: dirMode(info)}, c.r.opts.Sync)
	if fault.Of(err) == fault.NotFound && c.opts.Parents {
		err = c.r.sys.mkdir(target{name: to}, &driver.MkdirOptions{Mode: dirMode(info), Parents: true}, c.r.opts.Sync)
	}
	if fault.Of(err) == fault.AlreadyExists && !c.opts.CreateOnly {
		err = c.r.sys.mkdir(target{name: to}, &driver.MkdirOptions{Parents: true}, c.r.opts.Sync)
	}
	if err != nil {
		return err
	}
	return c.below(ctx, from, to)
}

// dirMode keeps a directory writable for us until it is filled; it is what the
// source has otherwise.
func dirMode(info driver.Info) fs.FileMode { return info.Mode.Perm() | 0o700 }

func (c *copier) below(ctx context.Context, from, to string) error {
	infos, err := c.r.sys.readDir(target{name: from}, false)
	if err != nil {
		return err
	}
	for _, info := range infos {
		if err := ctx.Err(); err != nil {
			return err
		}
		dest := join(to, info.Name())
		switch info.Type {
		case driver.TypeFile:
			err = c.file(ctx, info.Path, dest, false)
		case driver.TypeDir:
			err = c.dir(ctx, info, dest)
		case driver.TypeSymlink:
			err = c.symlink(ctx, info, dest)
		default:
			err = errNotRegular
		}
		if err != nil && info.Type != driver.TypeDir {
			err = fmt.Errorf("%s: %w", shown(info.Path), err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *copier) dir(ctx context.Context, info driver.Info, dest string) error {
	err := c.r.sys.mkdir(target{name: dest}, &driver.MkdirOptions{Mode: dirMode(info)}, c.r.opts.Sync)
	if fault.Of(err) == fault.AlreadyExists {
		err = c.r.sys.mkdir(target{name: dest}, &driver.MkdirOptions{Parents: true}, c.r.opts.Sync)
	}
	if err == nil {
		err = c.below(ctx, info.Path, dest)
	}
	if mode := info.Mode.Perm(); err == nil && dirMode(info) != mode {
		err = c.r.sys.chmod(ctx, target{name: dest}, mode, c.r.opts.Sync)
	}
	return err
}

// symlink copies a symlink as it is. What it points to is judged when somebody
// follows it.
func (c *copier) symlink(ctx context.Context, info driver.Info, dest string) error {
	err := c.r.sys.symlinkAsIs(info.Target, dest, c.r.opts.Sync)
	if fault.Of(err) != fault.AlreadyExists || c.opts.CreateOnly {
		return err
	}
	if err := c.r.sys.remove(ctx, target{name: dest}, new(driver.RemoveOptions), c.r.opts.Sync); err != nil {
		return err
	}
	return c.r.sys.symlinkAsIs(info.Target, dest, c.r.opts.Sync)
}

func (c *copier) file(ctx context.Context, from, to string, parents bool) error {
	body, info, err := c.r.sys.read(target{name: from}, new(driver.ReadOptions))
	if err != nil {
		return err
	}
	defer body.Close()
	o := &driver.WriteOptions{Mode: info.Mode.Perm(), CreateOnly: c.opts.CreateOnly, Parents: parents}
	o.SetMode = o.Mode != 0
	if err := c.r.checkWrite(target{name: to}, o); err != nil {
		return err
	}
	_, err = c.r.sys.write(ctx, to, body, o)
	return err
}
