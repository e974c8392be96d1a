package workspace

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"path"
	"slices"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// ImportArchive is Import of a directory that comes as a tar stream, whose names
// are relative to it, each directory before what is in it. Exclude and Mount do
// not count. Whatever the stream holds, nothing is made but below path.
func (w *Workspace) ImportArchive(ctx context.Context, stream io.Reader, path string, opts *ImportOptions) (res ImportResult, err error) {
	opts = orZero(opts)
	begun := false
	err = w.files2Host(ctx, "", path, func(ctx context.Context, fs *driver.FS, name string) error {
		if name == "." {
			return fmt.Errorf("import to %q: %w: it is the workspace itself", path, fault.InvalidArgument)
		}
		if begun { // a stream can't be read twice
			return fmt.Errorf("import to %q: %w: the workspace was lost meanwhile", path, fault.Unavailable)
		}
		if err := makeParents(ctx, fs, name); err != nil {
			return err
		}
		if err := fs.Mkdir(ctx, name, &driver.MkdirOptions{}); err != nil {
			return err
		}
		begun = true
		i := &archiveImport{
			treeImport: treeImport{fs: fs, to: name, opts: opts, maxSize: w.opts.MaxFileSize, res: ImportResult{Method: driver.ImportCopy}},
			modes:      map[string]iofs.FileMode{".": 0},
		}
		err := i.all(ctx, tar.NewReader(stream))
		if err == nil && opts.ReadOnly && fs.Protect != nil {
			if err = fs.Protect(ctx, name); errors.Is(err, fault.Unsupported) {
				err = nil // by its modes alone
			}
		}
		if err != nil {
			return errors.Join(err, cleanUp(ctx, fs, name))
		}
		res = i.res
		return nil
	})
	return res, err
}

// An archiveImport is an import whose source is a stream.
type archiveImport struct {
	treeImport
	dirs  []string                 // in the order in which they were made
	modes map[string]iofs.FileMode // of these, which they get when they are filled; 0 is none
}

func (i *archiveImport) all(ctx context.Context, in *tar.Reader) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		head, err := in.Next()
		if errors.Is(err, io.EOF) {
			return i.finish(ctx)
		}
		if err == nil {
			err = i.one(ctx, head, in)
		} else {
			err = archiveError(err)
		}
		if err != nil {
			return err
		}
	}
}

// archiveError gives what is wrong with a stream its code, unless whoever reads it
// did so.
func archiveError(err error) error {
	var code fault.Code
	if errors.As(err, &code) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("import: read the archive: %w", err)
	}
	return fmt.Errorf("import: read the archive: %w: %w", fault.InvalidArgument, err)
}

func (i *archiveImport) one(ctx context.Context, head *tar.Header, body io.Reader) error {
	at := strings.TrimSuffix(strings.TrimPrefix(head.Name, "./"), "/")
	if at == "" {
		at = "."
	}
	bad := func(why string) error {
		return fmt.Errorf("import: entry %.200q: %w: %s", head.Name, fault.InvalidArgument, why)
	}
	if _, known := i.modes[path.Dir(at)]; !known || at == "." && head.Typeflag != tar.TypeDir {
		return bad("its directory does not come before it")
	}
	if _, err := cleanName(at, ""); err != nil || path.Clean(at) != at {
		return bad("it is no path below the directory")
	}
	for key := range head.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") { // which is small here and would be large there
			return bad("it is sparse")
		}
	}
	dest, info := path.Join(i.to, at), head.FileInfo()
	switch head.Typeflag {
	case tar.TypeDir:
		return i.mkdir(ctx, at, dest, i.mode(info))
	case tar.TypeReg:
		return i.write(ctx, dest, body, info)
	case tar.TypeSymlink:
		return i.link(ctx, at, head.Linkname, dest)
	}
	i.res.Skip(at, driver.ImportSpecial)
	return nil
}

// mkdir makes a directory that can be filled, and remembers its mode.
func (i *archiveImport) mkdir(ctx context.Context, at, dest string, mode iofs.FileMode) error {
	if at != "." {
		if err := i.count(&i.res.Dirs, 0); err != nil {
			return err
		}
		const usable = 0o755
		if err := i.fs.Mkdir(ctx, dest, &driver.MkdirOptions{Mode: usable}); err != nil {
			return err
		}
	}
	i.modes[at] = mode
	i.dirs = append(i.dirs, at)
	return nil
}

// finish gives directories their modes, inner ones first.
func (i *archiveImport) finish(ctx context.Context) error {
	if i.fs.Chmod == nil {
		return nil
	}
	for _, at := range slices.Backward(i.dirs) {
		if err := i.fs.Chmod(ctx, path.Join(i.to, at), i.modes[at]); err != nil {
			return err
		}
	}
	return nil
}
