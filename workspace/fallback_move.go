package workspace

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"path"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// cleanupTime bounds the removal of a partial copy.
const cleanupTime = 30 * time.Second

// renameFallback is the fallback of FS.Rename: a copy, and then the removal of the source. An
// error before the removal leaves the source unchanged.
func renameFallback(ctx context.Context, fs *driver.FS, from, to string, opts *RenameOptions) error {
	info, err := fs.Stat(ctx, from, &driver.StatOptions{NoFollow: true})
	if err != nil {
		return err
	}
	if isBelow(to, from) {
		return fmt.Errorf("rename %s to %s: %w: the new name is inside the directory", from, to, fault.InvalidArgument)
	}
	was, err := fs.Stat(ctx, to, &driver.StatOptions{NoFollow: true})
	switch {
	case err == nil && opts.CreateOnly:
		return fmt.Errorf("rename %s to %s: %w", from, to, fault.AlreadyExists)
	case err == nil && from == to:
		return nil
	case err == nil:
		if err := makeReplaceable(ctx, fs, info, was); err != nil {
			return err
		}
	case !errors.Is(err, fault.NotFound):
		return err
	}
	if opts.Parents {
		if err := makeParents(ctx, fs, to); err != nil {
			return err
		}
	}
	// replaceable has removed what was at the new name, so a directory that is there
	// now was made by another program.
	c := copier{fs: fs, times: true, createOnly: opts.CreateOnly || info.Type == driver.TypeDir}
	if err := c.copyEntry(ctx, info, to); err != nil {
		if c.made == to {
			err = errors.Join(err, cleanUp(ctx, fs, to))
		}
		return err
	}
	return fs.Remove(ctx, from, &driver.RemoveOptions{Recursive: info.Type == driver.TypeDir})
}

// makeReplaceable checks, by the rules of rename(2), whether the entry at the new name
// may be replaced, and removes it if a copy would not replace it.
func makeReplaceable(ctx context.Context, fs *driver.FS, comes, was Info) error {
	comesDir, wasDir := comes.Type == driver.TypeDir, was.Type == driver.TypeDir
	switch {
	case comesDir != wasDir:
		return fmt.Errorf("rename %s to %s: %w: a %s can't replace a %s", comes.Path, was.Path, fault.InvalidArgument, comes.Type, was.Type)
	case wasDir || was.Type == driver.TypeSymlink || comes.Type == driver.TypeSymlink:
		return fs.Remove(ctx, was.Path, &driver.RemoveOptions{}) // fails for a directory that is not empty
	}
	return nil
}

func makeParents(ctx context.Context, fs *driver.FS, name string) error {
	dir := path.Dir(name)
	if dir == "." {
		return nil
	}
	return fs.Mkdir(ctx, dir, &driver.MkdirOptions{Parents: true})
}

func cleanUp(ctx context.Context, fs *driver.FS, name string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
	defer cancel()
	err := fs.Remove(ctx, name, &driver.RemoveOptions{Recursive: true})
	if errors.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// copyFallback is the fallback of FS.Copy. A tree is merged into an existing directory;
// an error leaves what was copied before.
func copyFallback(ctx context.Context, fs *driver.FS, from, to string, opts *CopyOptions) error {
	info, err := fs.Stat(ctx, from, &driver.StatOptions{})
	if err != nil {
		return err
	}
	if info.Type == driver.TypeDir && !opts.Recursive {
		return fmt.Errorf("copy %s to %s: %w: it is a directory; ask for a recursive copy", from, to, fault.InvalidArgument)
	}
	if opts.CreateOnly {
		_, err := fs.Stat(ctx, to, &driver.StatOptions{NoFollow: true})
		if err == nil {
			return fmt.Errorf("copy %s to %s: %w", from, to, fault.AlreadyExists)
		}
		if !errors.Is(err, fault.NotFound) {
			return err
		}
	}
	if opts.Parents {
		if err := makeParents(ctx, fs, to); err != nil {
			return err
		}
	}
	info.Path = from
	c := copier{fs: fs, createOnly: opts.CreateOnly}
	return c.copyEntry(ctx, info, to)
}

// A copier copies entries with their modes.
type copier struct {
	fs         *driver.FS
	times      bool // copy modification times of files, too
	createOnly bool
	made       string // the first directory that was created
}

func (c *copier) copyEntry(ctx context.Context, info Info, to string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	switch info.Type {
	case driver.TypeFile:
		return c.copyFile(ctx, info, to)
	case driver.TypeDir:
		return c.copyDir(ctx, info, to)
	case driver.TypeSymlink:
		return c.copySymlink(ctx, info, to)
	default:
		return fmt.Errorf("copy %s to %s: %w: it is neither a file, a directory nor a symlink", info.Path, to, fault.InvalidArgument)
	}
}

func (c *copier) copyFile(ctx context.Context, info Info, to string) error {
	body, info, err := c.fs.Read(ctx, info.Path, &driver.ReadOptions{})
	if err != nil {
		return err
	}
	defer body.Close()
	info.Mode &= driver.MaxMode // never copy set-user-id, set-group-id and sticky
	opts := driver.WriteOptions{Mode: info.Mode, SetMode: info.Mode != 0, CreateOnly: c.createOnly}
	if c.times {
		opts.ModTime = info.ModTime
	}
	if _, err := c.fs.Write(ctx, to, body, &opts); err != nil {
		return err
	}
	if info.Mode == 0 { // Write takes 0 for the default
		return c.chmod(ctx, to, 0)
	}
	return nil
}

func (c *copier) copyDir(ctx context.Context, info Info, to string) error {
	const usable = 0o700 // mode while it is filled
	info.Mode &= driver.MaxMode
	err := c.fs.Mkdir(ctx, to, &driver.MkdirOptions{Mode: info.Mode | usable})
	made := err == nil
	if made && c.made == "" {
		c.made = to
	}
	if errors.Is(err, fault.AlreadyExists) && !c.createOnly {
		var was Info
		if was, err = c.fs.Stat(ctx, to, &driver.StatOptions{NoFollow: true}); err == nil && was.Type != driver.TypeDir {
			err = fmt.Errorf("copy %s to %s: %w: a directory can't replace a %s", info.Path, to, fault.InvalidArgument, was.Type)
		}
	}
	if err != nil {
		return err
	}
	entries, err := c.fs.ReadDir(ctx, info.Path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := c.copyEntry(ctx, e, path.Join(to, e.Name())); err != nil {
			return err
		}
	}
	if made && info.Mode&usable != usable {
		return c.chmod(ctx, to, info.Mode)
	}
	return nil
}

func (c *copier) copySymlink(ctx context.Context, info Info, to string) error {
	if c.fs.Symlink == nil {
		return fmt.Errorf("copy %s to %s: symlinks: %w by this provider", info.Path, to, fault.Unsupported)
	}
	err := c.fs.Symlink(ctx, info.Target, to)
	if !errors.Is(err, fault.AlreadyExists) || c.createOnly {
		return err
	}
	was, err := c.fs.Stat(ctx, to, &driver.StatOptions{NoFollow: true})
	if err != nil {
		return err
	}
	if was.Type == driver.TypeDir {
		return fmt.Errorf("copy %s to %s: %w: a symlink can't replace a directory", info.Path, to, fault.InvalidArgument)
	}
	if err := c.fs.Remove(ctx, to, &driver.RemoveOptions{}); err != nil {
		return err
	}
	return c.fs.Symlink(ctx, info.Target, to)
}

// chmod sets a mode that neither Write nor Mkdir can set, if the provider has Chmod.
func (c *copier) chmod(ctx context.Context, name string, mode iofs.FileMode) error {
	if c.fs.Chmod == nil {
		return nil
	}
	return c.fs.Chmod(ctx, name, mode)
}
