package eval

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/posix/plot"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// removeTree removes a directory with all below it, whatever its modes say.
func removeTree(dir string) error { return plot.RemoveTree(dir) }

// copyTree copies the contents of a directory of the host to one that is empty:
// modes and symlinks as they are, hidden files too. What is exclude, or below it,
// stays out, and so do pipes, sockets and devices.
func copyTree(ctx context.Context, from, to, exclude string) error {
	dirs := []dirMode{}
	err := filepath.WalkDir(from, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if p == exclude {
			return fs.SkipDir
		}
		rel, err := filepath.Rel(from, p)
		if err != nil || rel == "." {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		dest := filepath.Join(to, rel)
		switch {
		case e.IsDir():
			dirs = append(dirs, dirMode{dest, info.Mode().Perm()})
			return os.Mkdir(dest, 0o700)
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(p)
			if err != nil {
				return err
			}
			return os.Symlink(target, dest)
		case info.Mode().IsRegular():
			return copyFile(p, dest, info.Mode().Perm())
		}
		return nil
	})
	for _, d := range slices.Backward(dirs) {
		err = errors.Join(err, os.Chmod(d.path, d.mode))
	}
	if err != nil {
		return fmt.Errorf("eval: copy %s: %w: %w", from, fault.Of(err), err)
	}
	return nil
}

type dirMode struct {
	path string
	mode fs.FileMode
}

func copyFile(from, to string, mode fs.FileMode) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close() // only read
	return writeFile(src, to, mode)
}

func writeFile(src io.Reader, to string, mode fs.FileMode) error {
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	return errors.Join(err, dst.Chmod(mode), dst.Close())
}

// listing is all that is in a workspace, parents before children.
func listing(ctx context.Context, ws *workspace.Workspace) ([]driver.Info, error) {
	var all []driver.Info
	for after := ""; ; {
		page, err := ws.List(ctx, ".", &driver.ListOptions{Depth: -1, Limit: driver.MaxListLimit, After: after})
		if err != nil {
			return nil, err
		}
		all = append(all, page.Entries...)
		if after = page.Next; after == "" {
			return all, nil
		}
	}
}

// takeOut makes a directory of the host hold all that a workspace does. What can't
// be read is left out, and told.
func takeOut(ctx context.Context, ws *workspace.Workspace, to string) (left []string, err error) {
	all, err := listing(ctx, ws)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(to) // what is in a workspace is not to be trusted
	if err != nil {
		return nil, err
	}
	defer root.Close() //nolint:errcheck // a directory
	var dirs, links []driver.Info
	for _, info := range all {
		switch info.Type {
		case driver.TypeDir:
			dirs = append(dirs, info)
			err = root.Mkdir(info.Path, 0o700)
		case driver.TypeSymlink:
			links = append(links, info)
		case driver.TypeFile:
			err = takeFile(ctx, ws, root, info)
		default:
			left = append(left, info.Path)
		}
		if ctx.Err() != nil {
			return left, ctx.Err()
		}
		if errors.Is(err, fs.ErrPermission) || fault.Of(err) == fault.PermissionDenied || fault.Of(err) == fault.NotFound && err != nil {
			left, err = append(left, info.Path), nil
		}
		if err != nil {
			return left, fmt.Errorf("eval: take %s out of the workspace: %w: %w", info.Path, fault.Of(err), err)
		}
	}
	for _, l := range links { // once nothing is written through them
		err = errors.Join(err, root.Symlink(l.Target, l.Path))
	}
	for _, d := range slices.Backward(dirs) {
		err = errors.Join(err, root.Chmod(d.Path, d.Mode.Perm()))
	}
	return left, err
}

func takeFile(ctx context.Context, ws *workspace.Workspace, root *os.Root, info driver.Info) error {
	body, _, err := ws.Read(ctx, info.Path, nil)
	if err != nil {
		return err
	}
	defer body.Close() // only read
	dst, err := root.OpenFile(path.Clean(info.Path), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, body)
	return errors.Join(err, dst.Chmod(info.Mode.Perm()), dst.Close())
}
