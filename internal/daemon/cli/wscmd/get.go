package wscmd

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
	"strings"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/internal/sparse"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

type getOptions struct {
	name, path, dest string
}

func getCommand(a *command) *cobra.Command {
	return &cobra.Command{
		Use:   "get NAME PATH DEST",
		Short: "Copy a file or a directory out of a workspace; - is standard output",
		Long: `Copy a file or a directory out of a workspace to DEST or, with -, a file to standard output.

A file becomes DEST, or goes into DEST if that is a directory. A directory becomes DEST, or is
merged into an existing DEST, with its permission bits. The parent directory of DEST must exist.
Nothing is written outside DEST, and symlinks are copied as symlinks.

An entry that can't be copied (an unreadable file, one with more data than there is room for, a
symlink that would point outside DEST) is left out and reported on standard error. The command then ends with the first such error, after
all other entries were copied. A sparse file stays one: blocks of zeros take no space.`,
		Args: cobra.ExactArgs(3),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			return a.get(ctx, getOptions{args[0], args[1], args[2]})
		}),
	}
}

func (a *command) get(ctx context.Context, opts getOptions) error {
	if opts.dest == "-" && a.JSON {
		return console.Usagef("with - standard output has the content: leave out --json")
	}
	g := &getter{transfer: transfer{a: a, verb: "got"}, opts: opts}
	opened := false
	err := a.WithWorkspace(ctx, opts.name, func(ws *workspace.Workspace) error {
		opened, g.ws = true, ws
		if opts.dest != "-" {
			now, stop := a.StartProgress("copying")
			defer stop()
			g.progress = now
		}
		return g.get(ctx)
	})
	if !opened || opts.dest == "-" {
		return err
	}
	return g.finish(err)
}

// A getter is one run of ws get.
type getter struct {
	transfer
	opts  getOptions
	ws    *workspace.Workspace
	root  *os.Root      // of DEST, or of the directory above it for a file
	links []driver.Info // symlinks, made after all other entries
	modes []dirMode     // of directories, set after their content is written
}

func (g *getter) get(ctx context.Context) error {
	info, err := g.ws.Stat(ctx, g.opts.path, nil)
	if err != nil {
		return err
	}
	switch {
	case info.Type == driver.TypeDir && g.opts.dest == "-":
		return fault.Advise(fmt.Errorf("%s: %w: it is a directory", g.opts.path, fault.InvalidArgument), "give a destination instead of -")
	case info.Type == driver.TypeDir:
		return g.getTree(ctx, info)
	case g.opts.dest == "-":
		body, _, err := g.ws.Read(ctx, g.opts.path, nil)
		if err != nil {
			return err
		}
		defer body.Close()
		_, err = io.Copy(g.a.Out, body)
		return err
	default:
		return g.getFile(ctx, info)
	}
}

func (g *getter) getFile(ctx context.Context, info driver.Info) error {
	dest := g.opts.dest
	if at, err := os.Stat(dest); err == nil && at.IsDir() || strings.HasSuffix(dest, "/") {
		dest = filepath.Join(dest, path.Base(path.Clean("/"+g.opts.path)))
	}
	root, err := os.OpenRoot(filepath.Dir(dest))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("get to %s: %w: its parent directory does not exist; make it first", dest, fault.NotFound)
	case err != nil:
		return hostError("get to", filepath.Dir(dest), err)
	}
	defer root.Close() //nolint:errcheck // closing a directory can lose nothing
	g.root = root
	return hostError("get to", dest, g.copyFile(ctx, g.opts.path, filepath.Base(dest)))
}

// getTree copies a directory. All writes go through an os.Root of DEST, so that
// untrusted names and symlinks of the workspace can't lead outside.
func (g *getter) getTree(ctx context.Context, dir driver.Info) error {
	err := os.Mkdir(g.opts.dest, 0o755)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("get to %s: %w: its parent directory does not exist; make it first", g.opts.dest, fault.NotFound)
	case err != nil && !errors.Is(err, fs.ErrExist):
		return hostError("get to", g.opts.dest, err)
	}
	root, err := os.OpenRoot(g.opts.dest)
	if err != nil {
		return hostError("get to", g.opts.dest, err)
	}
	defer root.Close() //nolint:errcheck // closing a directory can lose nothing
	g.root = root
	if err := g.getDir(ctx, dir.Path, dir.Path); err != nil {
		return err
	}
	for _, l := range g.links {
		if err := g.recordEntry(ctx, l.Path, g.makeSymlink(l.Target, relativeTo(dir.Path, l.Path))); err != nil {
			return err
		}
	}
	if dir.Path != "." {
		g.modes = append([]dirMode{{".", dir.Mode.Perm()}}, g.modes...)
	}
	for _, m := range slices.Backward(g.modes) {
		if err := g.recordEntry(ctx, hostPath(g.opts.dest, m.name), g.root.Chmod(m.name, m.mode)); err != nil {
			return err
		}
	}
	return nil
}

// getDir copies the content of a directory. Each directory is listed separately, so
// that an unreadable one does not end the transfer.
func (g *getter) getDir(ctx context.Context, top, dir string) error {
	return eachEntry(ctx, g.ws, dir, 1, func(e driver.Info) error {
		name := relativeTo(top, e.Path)
		err := g.getEntry(ctx, e, name)
		if err == nil && e.Type == driver.TypeDir {
			err = g.getDir(ctx, top, e.Path)
		}
		return g.recordEntry(ctx, e.Path, err)
	})
}

func (g *getter) getEntry(ctx context.Context, e driver.Info, name string) error {
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return fmt.Errorf("%w: the name is invalid on this system", fault.SandboxViolation)
	}
	switch e.Type {
	case driver.TypeDir:
		err := g.root.Mkdir(name, e.Mode.Perm()|0o700)
		if errors.Is(err, fs.ErrExist) {
			if at, statErr := g.root.Lstat(name); statErr == nil && at.IsDir() {
				err = nil
			}
		}
		if err != nil {
			return err
		}
		g.modes = append(g.modes, dirMode{name, e.Mode.Perm()})
		g.done.Dirs++
		return nil
	case driver.TypeFile:
		return g.copyFile(ctx, e.Path, name)
	case driver.TypeSymlink:
		g.links = append(g.links, e)
		return nil
	default:
		return fmt.Errorf("%w: it is neither a file, a directory nor a symlink", fault.InvalidArgument)
	}
}

// copyFile copies one file atomically.
func (g *getter) copyFile(ctx context.Context, from, name string) error {
	body, info, err := g.ws.Read(ctx, from, nil)
	if err != nil {
		return err
	}
	defer body.Close()
	// Only permission bits: a workspace must not create set-uid files on the host.
	n, err := replaceBelow(g.root, name, g.follow(body), info.Mode.Perm(), true)
	if err != nil {
		return err
	}
	g.done.Files++
	g.done.Bytes += n
	return nil
}

// replaceBelow replaces a file below root atomically: it writes a temporary file
// beside it, with holes for zeros, and renames that. With exact the umask does not apply.
func replaceBelow(root *os.Root, name string, body io.Reader, mode fs.FileMode, exact bool) (n int64, err error) {
	temp := path.Join(path.Dir(name), ".croft-new-"+driver.NewID())
	f, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return 0, err
	}
	n, err = sparse.Copy(f, body)
	if err == nil && exact {
		err = f.Chmod(mode)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = root.Rename(temp, name)
	}
	if err != nil {
		return 0, errors.Join(err, root.Remove(temp))
	}
	return n, nil
}

// makeSymlink makes a symlink, and refuses one that points outside DEST.
func (g *getter) makeSymlink(target, name string) error {
	if err := g.staysInside(target, name); err != nil {
		return fmt.Errorf("symlink %s to %s: %w: %w", name, target, fault.SandboxViolation, err)
	}
	if at, err := g.root.Lstat(name); err == nil && at.Mode()&fs.ModeSymlink != 0 {
		if err := g.root.Remove(name); err != nil {
			return err
		}
	}
	if err := g.root.Symlink(target, name); err != nil {
		return err
	}
	g.done.Symlinks++
	return nil
}

// staysInside resolves the target of a symlink within DEST as the kernel would, and
// returns an error if it would leave. ".." is allowed only after a directory: the
// parent of a symlink's target, or of a missing name, may change later. So an accepted
// symlink stays inside whatever is copied later.
func (g *getter) staysInside(target, name string) error {
	const most = 255 // symlinks that are followed
	at := path.Dir(name)
	rest := strings.Split(target, "/")
	for links := 0; len(rest) > 0; {
		if target == "" || path.IsAbs(target) {
			return errOutside
		}
		elem := rest[0]
		rest = rest[1:]
		if elem == "" || elem == "." {
			continue
		}
		if elem == ".." {
			if at == "." {
				return errOutside
			}
			at = path.Dir(at)
			continue
		}
		next := path.Join(at, elem)
		info, err := g.root.Lstat(next)
		if err == nil && info.IsDir() {
			at = next
			continue
		}
		if slices.Contains(rest, "..") {
			return fmt.Errorf("it has .. after %s, which is not a directory, and may lead outside the destination", next)
		}
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			return nil // the target is missing, or a file
		}
		if links++; links > most {
			return errors.New("too many levels of symlinks")
		}
		if target, err = g.root.Readlink(next); err != nil {
			return err
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return nil
}

var errOutside = errors.New("it would point outside the destination")
