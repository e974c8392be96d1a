package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// ImportOptions is the options of Import.
type ImportOptions = driver.ImportOptions

// ImportResult is what Import brought in.
type ImportResult = driver.ImportResult

// Import brings a directory of this host to path, where nothing may be: with all
// below it or, where anything fails, nothing. Symlinks are brought as they are and
// never followed; those that would leave the workspace, FIFOs, sockets and devices
// stay out, and the result lists them. dir is an absolute path. It is the caller
// who judges whether that may be read.
func (w *Workspace) Import(ctx context.Context, dir, path string, opts *ImportOptions) (res ImportResult, err error) {
	opts = orZero(opts)
	err = w.files2Host(ctx, dir, path, func(ctx context.Context, fs *driver.FS, name string) error {
		if !filepath.IsAbs(dir) {
			return fmt.Errorf("import %q: %w: the directory must be an absolute path", dir, fault.InvalidArgument)
		}
		if name == "." {
			return fmt.Errorf("import %q to %q: %w: it is the workspace itself", dir, path, fault.InvalidArgument)
		}
		if fs.Import != nil && w.opts.MaxFileSize == 0 {
			if res, err = fs.Import(ctx, dir, name, opts); !errors.Is(err, fault.Unsupported) {
				return err
			}
		}
		res, err = importTree(ctx, fs, dir, name, opts, w.opts.MaxFileSize)
		return err
	})
	return res, err
}

// files2Host is files for operations whose other path is the host's.
func (w *Workspace) files2Host(ctx context.Context, dir, p string, call func(ctx context.Context, fs *driver.FS, name string) error) error {
	return w.do(ctx, verbImport, subject{host: dir, to: p}, func(ctx context.Context, d *live) error {
		if d.FS == nil {
			return w.lacks("files", d)
		}
		name, err := cleanName(p, d.Traits.Root)
		if err != nil {
			return err
		}
		return call(ctx, d.FS, name)
	})
}

// importTree is the fallback of FS.Import: it makes the tree in its place, and
// removes it again where anything fails.
func importTree(ctx context.Context, fs *driver.FS, dir, name string, opts *ImportOptions, maxSize int64) (ImportResult, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return ImportResult{}, fmt.Errorf("import %s: %w: %w", dir, fault.Of(err), err)
	}
	defer root.Close() //nolint:errcheck // nothing is written through it
	if err := makeParents(ctx, fs, name); err != nil {
		return ImportResult{}, err
	}
	i := &treeImport{fs: fs, root: root, to: name, opts: opts, maxSize: maxSize, res: ImportResult{Method: driver.ImportCopy}}
	if err := fs.Mkdir(ctx, name, &driver.MkdirOptions{}); err != nil {
		return ImportResult{}, err
	}
	if err := i.dir(ctx, "."); err != nil {
		return ImportResult{}, errors.Join(err, cleanUp(ctx, fs, name))
	}
	return i.res, nil
}

type treeImport struct {
	fs      *driver.FS
	root    *os.Root
	to      string
	opts    *ImportOptions
	maxSize int64
	res     ImportResult
}

// dir brings in what is in a directory, which is made already, and then gives it
// its mode.
func (i *treeImport) dir(ctx context.Context, rel string) error {
	d, err := i.root.Open(rel)
	if err != nil {
		return importError(rel, err)
	}
	defer d.Close()
	info, err := d.Stat()
	if err != nil {
		return importError(rel, err)
	}
	entries, err := d.ReadDir(-1)
	if err != nil {
		return importError(rel, err)
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		at := path.Join(rel, e.Name())
		if slices.Contains(i.opts.Exclude, at) {
			continue
		}
		if err := i.entry(ctx, at, e.Type()); err != nil {
			return err
		}
	}
	if i.fs.Chmod == nil {
		return nil
	}
	return i.fs.Chmod(ctx, path.Join(i.to, rel), i.mode(info))
}

func (i *treeImport) mode(info iofs.FileInfo) iofs.FileMode {
	mode := info.Mode().Perm() & driver.MaxMode
	if i.opts.ReadOnly {
		mode &^= 0o222
	}
	return mode
}

func (i *treeImport) entry(ctx context.Context, at string, typ iofs.FileMode) error {
	dest := path.Join(i.to, at)
	switch typ.Type() {
	case 0:
		return i.file(ctx, at, dest)
	case iofs.ModeDir:
		const usable = 0o755 // while it is filled
		if err := i.count(&i.res.Dirs, 0); err != nil {
			return err
		}
		if err := i.fs.Mkdir(ctx, dest, &driver.MkdirOptions{Mode: usable}); err != nil {
			return err
		}
		return i.dir(ctx, at)
	case iofs.ModeSymlink:
		return i.symlink(ctx, at, dest)
	}
	i.res.Skip(at, driver.ImportSpecial)
	return nil
}

func (i *treeImport) file(ctx context.Context, at, dest string) error {
	f, err := i.root.OpenFile(at, os.O_RDONLY|nonBlocking, 0) // it may have become a FIFO
	if err != nil {
		return importError(at, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return importError(at, err)
	}
	if !info.Mode().IsRegular() {
		i.res.Skip(at, driver.ImportSpecial)
		return nil
	}
	return i.write(ctx, dest, f, info)
}

// write makes a file.
func (i *treeImport) write(ctx context.Context, dest string, body io.Reader, info iofs.FileInfo) error {
	if err := i.count(&i.res.Files, info.Size()); err != nil {
		return err
	}
	o := &driver.WriteOptions{Mode: i.mode(info), CreateOnly: true, ModTime: info.ModTime(), MaxSize: i.maxSize}
	o.SetMode = o.Mode != 0
	_, err := i.fs.Write(ctx, dest, body, o)
	return err
}

func (i *treeImport) symlink(ctx context.Context, at, dest string) error {
	target, err := i.root.Readlink(at)
	if err != nil {
		return importError(at, err)
	}
	return i.link(ctx, at, target, dest)
}

// link makes a symlink.
func (i *treeImport) link(ctx context.Context, at, target, dest string) error {
	if i.fs.Symlink == nil {
		i.res.Skip(at, driver.ImportNoLinks)
		return nil
	}
	err := i.fs.Symlink(ctx, target, dest)
	if errors.Is(err, fault.SandboxViolation) {
		i.res.Skip(at, driver.ImportLeaves)
		return nil
	}
	if err != nil {
		return err
	}
	return i.count(&i.res.Symlinks, 0)
}

// count counts an entry, and refuses the one that is too much.
func (i *treeImport) count(what *int, size int64) error {
	*what++
	i.res.Bytes += size
	if n := i.res.Files + i.res.Dirs + i.res.Symlinks; i.opts.MaxFiles > 0 && n > i.opts.MaxFiles {
		return fmt.Errorf("import: %w: there are more than %d entries", fault.ResourceExhausted, i.opts.MaxFiles)
	}
	if i.opts.MaxBytes > 0 && i.res.Bytes > i.opts.MaxBytes {
		return fmt.Errorf("import: %w: there are more than %d bytes", fault.ResourceExhausted, i.opts.MaxBytes)
	}
	return nil
}

func importError(at string, err error) error {
	return fmt.Errorf("import %q: %w: %w", at, fault.Of(err), err)
}
