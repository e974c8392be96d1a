package snapshot

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"sync"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// WriteOptions are the options of Write.
type WriteOptions struct {
	Only  []string // paths to write, with their subtrees; nil is all
	Exact bool     // the module accepts mode bits beyond driver.MaxMode
	NoGit bool     // entries named .git stay as they are, with the directories that contain them
}

// Write makes the files of a module equal to a tree. Each file is replaced
// atomically; the whole is not. Repeating an interrupted Write completes it.
func Write(ctx context.Context, t Tree, to *driver.FS, opts *WriteOptions) error {
	if opts == nil {
		opts = &WriteOptions{}
	}
	w := &treeWriter{to: to, t: t, mask: driver.MaxMode, opened: map[string]bool{}, noGit: opts.NoGit}
	if opts.Exact {
		w.mask = 0o7777
	}
	var have Tree = filesTree{to.Files}
	if opts.NoGit {
		have, t = WithoutGit(have), WithoutGit(t)
	}
	d, err := Diff(ctx, have, t, &DiffOptions{NoRenames: true, Only: opts.Only})
	if err != nil {
		return err
	}
	for _, c := range slices.Backward(d.Changes) { // children before their directory
		if c.Kind == Removed {
			if err := w.withWritableParent(ctx, c.Path, func() error { return w.remove(ctx, c.Path) }); err != nil {
				return err
			}
		}
	}
	for i := range d.Changes {
		c := &d.Changes[i]
		if c.Kind == Removed || c.New.Type == driver.TypeDir && c.Kind != Added {
			continue
		}
		if err := w.withWritableParent(ctx, c.Path, func() error { return w.writeEntry(ctx, c) }); err != nil {
			return err
		}
	}
	return w.setDirModes(ctx, d.Changes)
}

// A treeWriter is the state of one Write.
type treeWriter struct {
	to     *driver.FS
	t      Tree
	mask   fs.FileMode
	noGit  bool
	opened map[string]bool // directories made writable; setDirModes restores their modes
}

// withWritableParent runs change, which changes name. On PermissionDenied it makes
// the parent directory writable and tries once more.
func (w *treeWriter) withWritableParent(ctx context.Context, name string, change func() error) error {
	err := change()
	dir := path.Dir(name)
	if fault.Of(err) != fault.PermissionDenied || w.to.Chmod == nil || w.opened[dir] || dir == "." {
		return err
	}
	w.opened[dir] = true
	if w.to.Chmod(ctx, dir, 0o700) != nil {
		return err
	}
	return change()
}

func (w *treeWriter) remove(ctx context.Context, name string) error {
	if w.noGit {
		if left, err := w.to.ReadDir(ctx, name); err == nil && len(left) > 0 {
			return nil // all other entries were removed before: there is a .git below
		}
	}
	if err := w.to.Remove(ctx, name, &driver.RemoveOptions{}); err != nil && fault.Of(err) != fault.NotFound {
		return err
	}
	return nil
}

// writeEntry creates or replaces one entry. Directories stay writable until
// setDirModes.
func (w *treeWriter) writeEntry(ctx context.Context, c *FileChange) error {
	mode := c.New.Mode & w.mask
	switch {
	case c.Kind == ModeOnly:
		return w.chmod(ctx, c.Path, mode)
	case c.New.Type == driver.TypeDir:
		return w.to.Mkdir(ctx, c.Path, &driver.MkdirOptions{Parents: true, Mode: mode&0o777 | 0o700})
	case c.New.Type == driver.TypeSymlink:
		return w.replaceSymlink(ctx, c)
	}
	r, n, err := OpenFile(ctx, w.t, c.Path)
	if err != nil {
		return err
	}
	defer r.Close()
	body, stop, err := detachReader(r, n.Size)
	if err != nil {
		return err
	}
	_, err = w.to.Write(ctx, c.Path, body, &driver.WriteOptions{Mode: mode, SetMode: true, ModTime: n.ModTime})
	stop()
	if err == nil && mode == 0 { // Write takes 0 for the default mode
		err = w.chmod(ctx, c.Path, mode)
	}
	return err
}

// setDirModes sets the final modes of directories, children first.
func (w *treeWriter) setDirModes(ctx context.Context, changes []FileChange) error {
	for _, c := range slices.Backward(changes) {
		if c.Kind != Removed && c.New.Type == driver.TypeDir {
			if err := w.chmod(ctx, c.Path, c.New.Mode&w.mask); err != nil {
				return err
			}
			delete(w.opened, c.Path)
		}
	}
	for dir := range w.opened {
		in, n, err := Lookup(ctx, w.t, dir)
		if fault.Of(err) == fault.NotFound {
			continue
		}
		if err == nil {
			in.Close()
			err = w.chmod(ctx, dir, n.Mode&w.mask)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// detachReader returns a reader of r's content that does not read r in the calling
// goroutine of the module's Write: that may run under the uid of the workspace,
// which can't read the store. A small file is read into memory, a larger one
// through a pipe. The caller calls stop when it is done.
func detachReader(r io.Reader, size int64) (body io.Reader, stop func(), err error) {
	if size <= ChunkSize {
		data, err := io.ReadAll(r)
		return onlyReader{bytes.NewReader(data)}, func() {}, err
	}
	out, in := io.Pipe()
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := io.CopyBuffer(onlyWriter{in}, onlyReader{r}, make([]byte, 256<<10))
		in.CloseWithError(err)
	})
	return onlyReader{out}, func() {
		out.Close() //nolint:errcheck // it never fails
		wg.Wait()
	}, nil
}

// onlyReader and onlyWriter hide further methods such as WriteTo and ReadFrom.
type (
	onlyReader struct{ io.Reader }
	onlyWriter struct{ io.Writer }
)

func (w *treeWriter) chmod(ctx context.Context, name string, mode fs.FileMode) error {
	if w.to.Chmod == nil {
		return nil
	}
	return w.to.Chmod(ctx, name, mode)
}

// replaceSymlink creates or replaces a symlink. A target outside the workspace,
// which a process inside may have set, is refused with SandboxViolation.
func (w *treeWriter) replaceSymlink(ctx context.Context, c *FileChange) error {
	if c.Old != nil {
		if err := w.remove(ctx, c.Path); err != nil {
			return err
		}
	}
	if w.to.Symlink == nil {
		return fmt.Errorf("snapshot: symlink %s: %w: this workspace does not support symlinks", c.Path, fault.Unsupported)
	}
	err := w.to.Symlink(ctx, c.New.Target, c.Path)
	if fault.Of(err) == fault.SandboxViolation {
		return fmt.Errorf("snapshot: symlink %s to %q: %w: the target is outside the workspace", c.Path, c.New.Target, fault.SandboxViolation)
	}
	return err
}
