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
	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/internal/sparse"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// fillDir makes dir a copy of a template, "" is empty, without the paths of exclude.
func fillDir(ctx context.Context, template, dir string, exclude ...string) error {
	err := files.RemoveTree(dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		return fmt.Errorf("eval: make the workspace: %w: %w", fault.Of(err), err)
	}
	if template == "" {
		return nil
	}
	return copyTree(ctx, template, dir, exclude)
}

// copyTree copies the content of a host directory to an empty one, with modes and
// symlinks. It leaves out the slash paths of exclude, pipes, sockets and devices.
func copyTree(ctx context.Context, from, to string, exclude []string) error {
	dirs := []dirMode{}
	err := filepath.WalkDir(from, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		rel, err := filepath.Rel(from, p)
		if err != nil || rel == "." {
			return err
		}
		if slices.Contains(exclude, filepath.ToSlash(rel)) {
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
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
	_, err = sparse.Copy(dst, src)
	return errors.Join(err, dst.Chmod(mode), dst.Close())
}

// listEntries lists the entries of a workspace whose path passes the filter, parents
// before children; a nil filter passes all. It returns at most most entries, and whether
// there are more.
func listEntries(ctx context.Context, ws *workspace.Workspace, most int, filter func(name string) bool) (all []driver.Info, more bool, err error) {
	for after := ""; ; {
		page, err := ws.List(ctx, ".", &driver.ListOptions{Depth: -1, Limit: driver.MaxListLimit, After: after})
		if err != nil {
			return nil, false, err
		}
		for _, info := range page.Entries {
			if filter == nil || filter(info.Path) {
				all = append(all, info)
			}
		}
		if len(all) > most {
			return all[:most], true, nil
		}
		if after = page.Next; after == "" {
			return all, false, nil
		}
	}
}

// Bounds of a workspace that is kept. A sparse file may have a larger size than the disk.
const (
	maxKeptEntries = 1_000_000
	maxKeptBytes   = 16 << 30 // sum of the sizes of all files
	maxKeptFile    = 8 << 30
)

// exportWorkspace copies a workspace to a host directory. Entries that can't be read, or
// exceed the bounds, are left out, and returned.
func exportWorkspace(ctx context.Context, ws *workspace.Workspace, to string) (left []string, err error) {
	all, more, err := listEntries(ctx, ws, maxKeptEntries, nil)
	if err != nil {
		return nil, err
	}
	if more {
		left = append(left, fmt.Sprintf("all after %s", all[len(all)-1].Path))
	}
	total := int64(0)
	root, err := os.OpenRoot(to) // untrusted names and symlinks can't lead out of it
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
			if info.Size > maxKeptFile || info.Size > maxKeptBytes-total {
				left = append(left, info.Path)
				continue
			}
			total += info.Size
			err = exportFile(ctx, ws, root, info)
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
			return left, fmt.Errorf("eval: export %s from the workspace: %w: %w", info.Path, fault.Of(err), err)
		}
	}
	for _, l := range links { // last, so that nothing is written through them
		err = errors.Join(err, root.Symlink(l.Target, l.Path))
	}
	for _, d := range slices.Backward(dirs) {
		err = errors.Join(err, root.Chmod(d.Path, d.Mode.Perm()))
	}
	return left, err
}

func exportFile(ctx context.Context, ws *workspace.Workspace, root *os.Root, info driver.Info) error {
	body, _, err := ws.Read(ctx, info.Path, nil)
	if err != nil {
		return err
	}
	defer body.Close() // only read
	dst, err := root.OpenFile(path.Clean(info.Path), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = sparse.Copy(dst, io.LimitReader(body, info.Size))
	return errors.Join(err, dst.Chmod(info.Mode.Perm()), dst.Close())
}
