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
	Only  []string // the paths to write, with all below them; nil is everything
	Exact bool     // the module takes modes with all bits that there are
}

// Write brings the files of a module to what is in a tree. Each file is replaced at
// once; the whole is not. Doing it again completes what was cut short.
func Write(ctx context.Context, t Tree, to *driver.FS, opts *WriteOptions) error {
	w := &treeWriter{to: to, t: t, mask: driver.MaxMode, opened: map[string]bool{}}
	if opts == nil {
		opts = &WriteOptions{}
	}
	if opts.Exact {
		w.mask = 0o7777
	}
	d, err := Diff(ctx, filesTree{to.Files}, t, &DiffOptions{NoRenames: true, Only: opts.Only})
	if err != nil {
		return err
	}
	for _, c := range slices.Backward(d.Changes) { // what is in a directory goes before it
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

// A treeWriter is a Write under way.
type treeWriter struct {
	to     *driver.FS
	t      Tree
	mask   fs.FileMode
	opened map[string]bool // directories that were made writable
}

// withWritableParent makes a change in the directory of name, which it makes writable where it
// is not; its mode is set in the end.
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
	if err := w.to.Remove(ctx, name, &driver.RemoveOptions{}); err != nil && fault.Of(err) != fault.NotFound {
		return err
	}
	return nil
}

// writeEntry makes what is new, or another. Directories have a mode in which they can be
// filled until all is done.
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
	if err == nil && mode == 0 { // which is a default to Write
		err = w.chmod(ctx, c.Path, mode)
	}
	return err
}

// setDirModes gives directories their modes, those of what is in them first.
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

// detachReader returns what r yields, which is read by this goroutine or one of its
// own: who writes may do so as a user who can't read the store. stop is called
// when it is not wanted any more.
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

// onlyReader and onlyWriter hide all that one can do besides.
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

// replaceSymlink makes a symlink. One that leaves the workspace, which a process made
// there, can't be made from outside, and is said.
func (w *treeWriter) replaceSymlink(ctx context.Context, c *FileChange) error {
	if c.Old != nil {
		if err := w.remove(ctx, c.Path); err != nil {
			return err
		}
	}
	if w.to.Symlink == nil {
		return fmt.Errorf("snapshot: symlink %s: %w: the workspace has none", c.Path, fault.Unsupported)
	}
	err := w.to.Symlink(ctx, c.New.Target, c.Path)
	if fault.Of(err) == fault.SandboxViolation {
		return fmt.Errorf("snapshot: symlink %s to %q: %w: it leaves the workspace", c.Path, c.New.Target, fault.SandboxViolation)
	}
	return err
}
