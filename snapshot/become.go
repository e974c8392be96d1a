package snapshot

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// Write brings the files of a module to what is in a tree, at the given paths and
// below them; nil is everything. Each file is replaced at once; the whole is not.
// Doing it again completes what was cut short.
func Write(ctx context.Context, t Tree, to *driver.FS, paths []string) error {
	have := filesTree{to.Files}
	d, err := Diff(ctx, have, t, &DiffOptions{NoRenames: true, Only: paths})
	if err != nil {
		return err
	}
	for _, c := range slices.Backward(d.Changes) { // what is in a directory goes before it
		if c.Kind == Removed {
			if err := to.Remove(ctx, c.Path, &driver.RemoveOptions{}); err != nil && fault.Of(err) != fault.NotFound {
				return err
			}
		}
	}
	for i := range d.Changes {
		if c := &d.Changes[i]; c.Kind != Removed {
			if err := writeOne(ctx, t, to, c); err != nil {
				return err
			}
		}
	}
	return nil
}

func writeOne(ctx context.Context, t Tree, to *driver.FS, c *FileChange) error {
	mode := c.New.Mode & 0o777
	switch {
	case c.Kind == ModeOnly || c.New.Type == driver.TypeDir && c.Kind != Added:
		return chmod(ctx, to, c.Path, c.New)
	case c.New.Type == driver.TypeDir:
		if err := to.Mkdir(ctx, c.Path, &driver.MkdirOptions{Parents: true, Mode: mode}); err != nil {
			return err
		}
		return chmod(ctx, to, c.Path, c.New)
	case c.New.Type == driver.TypeSymlink:
		return relink(ctx, to, c)
	}
	r, n, err := OpenFile(ctx, t, c.Path)
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = to.Write(ctx, c.Path, onlyReader{r}, &driver.WriteOptions{Mode: mode, SetMode: true, ModTime: n.ModTime})
	return err
}

// onlyReader hides all that a reader can do besides.
type onlyReader struct{ io.Reader }

func chmod(ctx context.Context, to *driver.FS, name string, s *Side) error {
	if to.Chmod == nil {
		return nil
	}
	return to.Chmod(ctx, name, s.Mode&0o777)
}

// relink makes a symlink. One that leaves the workspace, which a process made
// there, can't be made from outside, and is said.
func relink(ctx context.Context, to *driver.FS, c *FileChange) error {
	if c.Old != nil {
		if err := to.Remove(ctx, c.Path, &driver.RemoveOptions{}); err != nil && fault.Of(err) != fault.NotFound {
			return err
		}
	}
	if to.Symlink == nil {
		return fmt.Errorf("snapshot: symlink %s: %w: the workspace has none", c.Path, fault.Unsupported)
	}
	err := to.Symlink(ctx, c.New.Target, c.Path)
	if fault.Of(err) == fault.SandboxViolation {
		return fmt.Errorf("snapshot: symlink %s to %q: %w: it leaves the workspace", c.Path, c.New.Target, fault.SandboxViolation)
	}
	return err
}
