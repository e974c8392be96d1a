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

// ImportResult is what Import copied or mounted.
type ImportResult = driver.ImportResult

// Import copies or mounts a directory of this host to path, which must not exist. It
// is all or nothing. Symlinks are copied as symlinks and never followed. Symlinks
// that would leave the workspace, FIFOs, sockets and devices are left out, and the
// result lists them. dir is an absolute path. The caller must check whether dir may
// be read.
func (w *Workspace) Import(ctx context.Context, dir, path string, opts *ImportOptions) (res ImportResult, err error) {
	opts = orZero(opts)
	err = w.callFSHost(ctx, dir, path, func(ctx context.Context, fs *driver.FS, name string) error {
		if !filepath.IsAbs(dir) {
			return fmt.Errorf("import %q: %w: the directory must be an absolute path", dir, fault.InvalidArgument)
		}
		if name == "." {
			return fmt.Errorf("import %q to %q: %w: the target is the workspace itself", dir, path, fault.InvalidArgument)
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

// callFSHost runs an operation of the FS module with a path of the host and a path of
// the workspace.
func (w *Workspace) callFSHost(ctx context.Context, dir, p string, call func(ctx context.Context, fs *driver.FS, name string) error) error {
	return w.call(ctx, verbImport, subject{host: dir, to: p}, func(ctx context.Context, d *live) error {
		if d.FS == nil {
			return w.unsupported("files", d)
		}
		name, err := cleanName(p, d.Traits.Root)
		if err != nil {
			return err
		}
		return call(ctx, d.FS, name)
	})
}

// importTree is the fallback of FS.Import: it creates the tree at its final path, and
// removes it if anything fails.
func importTree(ctx context.Context, fs *driver.FS, dir, name string, opts *ImportOptions, maxSize int64) (ImportResult, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return ImportResult{}, fmt.Errorf("import %s: %w: %w", dir, fault.Of(err), err)
	}
	defer root.Close() //nolint:errcheck // read only
	if err := makeParents(ctx, fs, name); err != nil {
		return ImportResult{}, err
	}
	i := &treeImport{fs: fs, root: root, to: name, opts: opts, maxSize: maxSize, res: ImportResult{Method: driver.ImportCopy}}
	if err := fs.Mkdir(ctx, name, &driver.MkdirOptions{}); err != nil {
		return ImportResult{}, err
	}
	if err := i.importDir(ctx, "."); err != nil {
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

// importDir imports the content of a directory, which exists already, and then sets the
// mode of the directory.
func (i *treeImport) importDir(ctx context.Context, rel string) error {
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
		if err := i.importEntry(ctx, at, e.Type()); err != nil {
			return err
		}
	}
	if i.fs.Chmod == nil {
		return nil
	}
	return i.fs.Chmod(ctx, path.Join(i.to, rel), i.dirMode(info))
}

func (i *treeImport) dirMode(info iofs.FileInfo) iofs.FileMode {
	mode := info.Mode().Perm() & driver.MaxMode
	if i.opts.ReadOnly {
		mode &^= 0o222
	}
	return mode
}

func (i *treeImport) importEntry(ctx context.Context, at string, typ iofs.FileMode) error {
	dest := path.Join(i.to, at)
	switch typ.Type() {
	case 0:
		return i.importFile(ctx, at, dest)
	case iofs.ModeDir:
		const usable = 0o755 // mode while it is filled
		if err := i.countEntry(&i.res.Dirs, 0); err != nil {
			return err
		}
		if err := i.fs.Mkdir(ctx, dest, &driver.MkdirOptions{Mode: usable}); err != nil {
			return err
		}
		return i.importDir(ctx, at)
	case iofs.ModeSymlink:
		return i.importSymlink(ctx, at, dest)
	}
	i.res.Skip(at, driver.ImportSpecial)
	return nil
}

func (i *treeImport) importFile(ctx context.Context, at, dest string) error {
	f, err := i.root.OpenFile(at, os.O_RDONLY|nonBlocking, 0) // O_NONBLOCK: it may have become a FIFO
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
	return i.writeFile(ctx, dest, f, info)
}

func (i *treeImport) writeFile(ctx context.Context, dest string, body io.Reader, info iofs.FileInfo) error {
	if err := i.countEntry(&i.res.Files, info.Size()); err != nil {
		return err
	}
	o := &driver.WriteOptions{Mode: i.dirMode(info), CreateOnly: true, ModTime: info.ModTime(), MaxSize: i.maxSize}
	o.SetMode = o.Mode != 0
	_, err := i.fs.Write(ctx, dest, body, o)
	return err
}

func (i *treeImport) importSymlink(ctx context.Context, at, dest string) error {
	target, err := i.root.Readlink(at)
	if err != nil {
		return importError(at, err)
	}
	return i.makeSymlink(ctx, at, target, dest)
}

func (i *treeImport) makeSymlink(ctx context.Context, at, target, dest string) error {
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
	return i.countEntry(&i.res.Symlinks, 0)
}

// countEntry counts an entry, and refuses it beyond MaxFiles or MaxBytes.
func (i *treeImport) countEntry(what *int, size int64) error {
	*what++
	i.res.Bytes += size
	if n := i.res.Files + i.res.Dirs + i.res.Symlinks; i.opts.MaxFiles > 0 && n > i.opts.MaxFiles {
		return fmt.Errorf("import: %w: the directory has more than %d entries", fault.ResourceExhausted, i.opts.MaxFiles)
	}
	if i.opts.MaxBytes > 0 && i.res.Bytes > i.opts.MaxBytes {
		return fmt.Errorf("import: %w: the files have more than %d bytes", fault.ResourceExhausted, i.opts.MaxBytes)
	}
	return nil
}

func importError(at string, err error) error {
	return fmt.Errorf("import %q: %w: %w", at, fault.Of(err), err)
}
