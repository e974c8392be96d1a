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

// ImportArchive is Import of a tar stream. Names in the stream are relative to path. A
// directory precedes its content, or is created with mode 0755. Exclude and Mount are
// ignored. Whatever the stream holds, nothing is written outside path.
func (w *Workspace) ImportArchive(ctx context.Context, stream io.Reader, path string, opts *ImportOptions) (res ImportResult, err error) {
	opts = orZero(opts)
	begun := false
	err = w.callFSHost(ctx, "", path, func(ctx context.Context, fs *driver.FS, name string) error {
		if name == "." {
			return fmt.Errorf("import to %q: %w: it is the workspace itself", path, fault.InvalidArgument)
		}
		if begun { // a stream can't be read twice
			return fmt.Errorf("import to %q: %w: the workspace was evicted during the import, and a stream can't be read twice; import again", path, fault.Unavailable)
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
		err := i.importEntries(ctx, tar.NewReader(stream))
		if err == nil && opts.ReadOnly && fs.Protect != nil {
			if err = fs.Protect(ctx, name); errors.Is(err, fault.Unsupported) {
				err = nil // only the permission bits protect it
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

// An archiveImport imports a tar stream.
type archiveImport struct {
	treeImport
	dirs  []string                 // in the order in which they were created
	modes map[string]iofs.FileMode // final modes of dirs, set by finish; 0 is none
}

func (i *archiveImport) importEntries(ctx context.Context, in *tar.Reader) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		head, err := in.Next()
		if errors.Is(err, io.EOF) {
			return i.setDirModes(ctx)
		}
		if err == nil {
			err = i.importEntry(ctx, head, in)
		} else {
			err = archiveError(err)
		}
		if err != nil {
			return err
		}
	}
}

// archiveError adds InvalidArgument to an error of the tar format. An error of the
// underlying stream keeps its code.
func archiveError(err error) error {
	var code fault.Code
	if errors.As(err, &code) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("import: read the archive: %w", err)
	}
	return fmt.Errorf("import: read the archive: %w: %w", fault.InvalidArgument, err)
}

// entryBody is the content of an entry: that the archive ends in it is an error of the archive.
type entryBody struct{ io.Reader }

func (b entryBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // Read returns it bare
		err = archiveError(err)
	}
	return n, err
}

func (i *archiveImport) importEntry(ctx context.Context, head *tar.Header, body io.Reader) error {
	at := strings.TrimSuffix(strings.TrimPrefix(head.Name, "./"), "/")
	if at == "" {
		at = "."
	}
	bad := func(why string) error {
		return fmt.Errorf("import: entry %.200q: %w: %s", head.Name, fault.InvalidArgument, why)
	}
	if _, err := cleanName(at, ""); err != nil || path.Clean(at) != at || at == "." && head.Typeflag != tar.TypeDir {
		return bad("it is no path below the directory")
	}
	for key := range head.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") { // a sparse file is small in the archive and may be huge on disk
			return bad("it is sparse")
		}
	}
	if err := i.makeMissingDir(ctx, path.Dir(at)); err != nil {
		return fmt.Errorf("import: entry %.200q: %w", head.Name, err)
	}
	dest, info := path.Join(i.to, at), head.FileInfo()
	switch head.Typeflag {
	case tar.TypeDir:
		return i.makeDir(ctx, at, dest, i.dirMode(info))
	case tar.TypeReg:
		return i.writeFile(ctx, dest, entryBody{body}, info)
	case tar.TypeSymlink:
		return i.makeSymlink(ctx, at, head.Linkname, dest)
	}
	i.res.Skip(at, driver.ImportSpecial)
	return nil
}

// makeMissingDir creates a directory, and those above it, for which no entry came. It fails if
// an entry of that name is no directory: a symlink is not followed.
func (i *archiveImport) makeMissingDir(ctx context.Context, at string) error {
	if _, known := i.modes[at]; known {
		return nil
	}
	if err := i.makeMissingDir(ctx, path.Dir(at)); err != nil {
		return err
	}
	err := i.makeDir(ctx, at, path.Join(i.to, at), 0o755)
	if fault.Of(err) == fault.AlreadyExists {
		return fmt.Errorf("%w: %q is no directory in the archive", fault.InvalidArgument, at)
	}
	return err
}

// makeDir creates a directory that can be filled, and records its mode. An entry may come after
// its content.
func (i *archiveImport) makeDir(ctx context.Context, at, dest string, mode iofs.FileMode) error {
	if _, known := i.modes[at]; known && at != "." {
		i.modes[at] = mode
		return nil
	}
	if at != "." {
		if err := i.countEntry(&i.res.Dirs, 0); err != nil {
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

// setDirModes sets the modes of directories, inner ones first.
func (i *archiveImport) setDirModes(ctx context.Context) error {
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
