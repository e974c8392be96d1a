package wscmd

import (
	"bytes"
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
	"github.com/croft-run/croft/internal/history"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

type putOptions struct {
	name, src, dest string
	createOnly      bool
	ifMatch         string
	credentials     bool
}

func putCommand(a *command) *cobra.Command {
	var opts putOptions
	var cmd *cobra.Command
	cmd = &cobra.Command{
		Use:   "put NAME SRC DEST",
		Short: "Copy a file, a directory or standard input (-) into a workspace",
		Long: `Copy a file, a directory or standard input (-) into a workspace. Missing parents of DEST are
made.

A file becomes DEST, or goes into DEST if that is a directory. A directory becomes DEST, or is
merged into an existing DEST. Permission bits are set, also on existing files, except for
standard input. Symlinks inside a directory are copied as symlinks and never followed.

Files of a directory that usually contain credentials, such as .env and private keys, are left out and listed;
--credentials takes them along. In a workspace that started empty, what is put is no change: ws diff and ws apply
show what changed since.

An entry that can't be copied (an unreadable file, a symlink that would leave the workspace, a
reserved name) is left out and reported on standard error. The command then ends with the first
such error, after all other entries were copied.`,
		Example: "  croft ws put demo ./src src\n  echo hello | croft ws put demo - hello.txt",
		Args:    cobra.ExactArgs(3),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			opts.name, opts.src, opts.dest = args[0], args[1], args[2]
			if cmd.Flags().Changed("if-match") && opts.ifMatch == "" {
				return console.Usagef("--if-match is empty: give the digest that the content must have, or leave --if-match out")
			}
			return a.put(ctx, opts)
		}),
	}
	cmd.Flags().BoolVar(&opts.createOnly, "create-only", false, "refuse to replace a file")
	cmd.Flags().BoolVar(&opts.credentials, "credentials", false, "with a directory: take credential files, such as .env, along")
	cmd.Flags().StringVar(&opts.ifMatch, "if-match", "", "replace a file only if its content has this digest")
	return cmd
}

func (a *command) put(ctx context.Context, opts putOptions) error {
	p := &putter{transfer: transfer{a: a, verb: "put"}, opts: opts}
	opened := false
	err := a.WithAttached(ctx, opts.name, func(c console.Workspaces, ws *workspace.Workspace) error {
		opened, p.ws = true, ws
		now, stop := a.StartProgress("copying")
		defer stop()
		p.progress = now
		rec, err := c.Show(ctx, ws.ID())
		if err != nil {
			return err
		}
		if rec.Dir != "" { // in place: its files are the user's
			return p.put(ctx)
		}
		return history.RecordPut(ctx, ws, func() error { return p.put(ctx) })
	})
	if !opened {
		return err
	}
	return p.finish(err)
}

// A putter is one run of ws put.
type putter struct {
	transfer
	opts  putOptions
	ws    *workspace.Workspace
	modes []dirMode // of directories, set after their content is written
}

// dirMode is the final mode of a directory.
type dirMode struct {
	name string
	mode fs.FileMode
}

func (p *putter) put(ctx context.Context) error {
	if p.opts.src == "-" {
		return p.writeFile(ctx, p.a.In, p.opts.dest, 0)
	}
	info, err := os.Stat(p.opts.src)
	if err != nil {
		return hostError("put", p.opts.src, err)
	}
	switch {
	case info.IsDir():
		if p.opts.ifMatch != "" {
			return console.Usagef("--if-match needs a single file, and %s is a directory", p.opts.src)
		}
		return p.putTree(ctx)
	case info.Mode().IsRegular():
		return p.putFile(ctx, info)
	default:
		return fmt.Errorf("%s: %w: it is neither a file nor a directory", p.opts.src, fault.InvalidArgument)
	}
}

func (p *putter) putFile(ctx context.Context, info fs.FileInfo) error {
	dest := p.opts.dest
	at, err := p.ws.Stat(ctx, dest, nil)
	if strings.HasSuffix(dest, "/") || err == nil && at.Type == driver.TypeDir {
		dest = path.Join(dest, filepath.Base(p.opts.src))
	}
	f, err := os.Open(p.opts.src)
	if err != nil {
		return hostError("put", p.opts.src, err)
	}
	defer f.Close()
	return p.writeFile(ctx, f, dest, info.Mode().Perm())
}

// writeFile writes one file; with mode 0 the workspace chooses the mode.
func (p *putter) writeFile(ctx context.Context, body io.Reader, dest string, mode fs.FileMode) error {
	res, err := p.ws.Write(ctx, dest, p.follow(body), &driver.WriteOptions{
		Mode: mode, SetMode: mode != 0, Parents: true, CreateOnly: p.opts.createOnly, IfMatch: p.opts.ifMatch,
	})
	if err != nil {
		return err
	}
	p.done.Files++
	p.done.Bytes += res.Info.Size
	p.done.Digest = res.Digest
	if res.BrokeLinks {
		p.done.BrokeLinks++
	}
	return nil
}

// putTree copies a directory. It reads through an os.Root, so that a concurrent change
// (TOCTOU) can't make it read outside.
func (p *putter) putTree(ctx context.Context) error {
	root, err := os.OpenRoot(p.opts.src)
	if err != nil {
		return hostError("put", p.opts.src, err)
	}
	defer root.Close() //nolint:errcheck // closing a directory can lose nothing
	listed, err := listTree(root)
	if err != nil {
		return err
	}
	skip := "" // a directory that was left out
	for _, e := range listed {
		if skip != "" && strings.HasPrefix(e.name, skip+"/") {
			continue // its directory was left out
		}
		if !p.opts.credentials && e.entry != nil && e.name != "." && snapshot.IsCredentialFile(e.name, e.entry.IsDir()) {
			p.done.Credentials = append(p.done.Credentials, e.name)
			if e.entry.IsDir() {
				skip = e.name
			}
			continue
		}
		err := e.err
		if err == nil {
			err = p.putEntry(ctx, root, e.name, e.entry)
		}
		if err == nil {
			continue
		}
		if e.name == "." {
			return err
		}
		if err := p.recordEntry(ctx, hostPath(p.opts.src, e.name), err); err != nil {
			return err
		}
		if e.entry != nil && e.entry.IsDir() {
			skip = e.name
		}
	}
	p.done.Digest = ""
	return p.setModes(ctx)
}

// A treeEntry is an entry of a tree, or the error of reading it.
type treeEntry struct {
	name  string
	entry fs.DirEntry
	err   error
}

// listTree lists a tree before anything is written: if DEST is below the directory
// itself, a walk would meet its own copies without end.
func listTree(root *os.Root) ([]treeEntry, error) {
	var list []treeEntry
	err := fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil && name == "." {
			return err
		}
		list = append(list, treeEntry{name, d, err})
		if err != nil && d != nil && d.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
	return list, err
}

func (p *putter) putEntry(ctx context.Context, root *os.Root, name string, d fs.DirEntry) error {
	dest := path.Join(p.opts.dest, name)
	switch d.Type() {
	case fs.ModeDir:
		return p.putDir(ctx, name, dest, d)
	case fs.ModeSymlink:
		target, err := root.Readlink(name)
		if err != nil {
			return err
		}
		return p.putSymlink(ctx, filepath.ToSlash(target), dest)
	case 0:
		return p.putTreeFile(ctx, root, name, dest)
	default:
		return fmt.Errorf("%w: it is neither a file, a directory nor a symlink", fault.InvalidArgument)
	}
}

// putDir makes a directory, writable until its content is written.
func (p *putter) putDir(ctx context.Context, name, dest string, d fs.DirEntry) error {
	if dest == "." || dest == "/" {
		return nil
	}
	info, err := d.Info()
	if err != nil {
		return err
	}
	mode := info.Mode().Perm()
	if err := p.ws.Mkdir(ctx, dest, &driver.MkdirOptions{Parents: true, Mode: mode | 0o700}); err != nil {
		return err
	}
	p.modes = append(p.modes, dirMode{dest, mode})
	if name != "." {
		p.done.Dirs++
	}
	return nil
}

// setModes sets the modes of directories, bottom up.
func (p *putter) setModes(ctx context.Context) error {
	for _, m := range slices.Backward(p.modes) {
		err := p.ws.Chmod(ctx, m.name, m.mode)
		if fault.Of(err) == fault.Unsupported {
			return nil // the provider has no modes
		}
		if err := p.recordEntry(ctx, m.name, err); err != nil {
			return err
		}
	}
	return nil
}

func (p *putter) putTreeFile(ctx context.Context, root *os.Root, name, dest string) error {
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !p.opts.credentials && info.Mode().IsRegular() {
		key, err := snapshot.IsPrivateKey(f, info.Size())
		if err != nil {
			return err
		}
		if key {
			p.done.Credentials = append(p.done.Credentials, name)
			return nil
		}
	}
	clean, leaveOut := snapshot.GitFile(name)
	if p.opts.credentials || clean == nil && !leaveOut {
		return p.writeFile(ctx, f, dest, info.Mode().Perm())
	}
	var cleaned []byte
	var changed, ok bool
	if !leaveOut {
		if cleaned, changed, ok, err = snapshot.CleanGitFile(f, clean); err != nil {
			return err
		}
	}
	switch {
	case !ok:
		p.done.Credentials = append(p.done.Credentials, name)
		return nil
	case changed:
		p.done.Credentials = append(p.done.Credentials, "credentials in "+name)
	}
	return p.writeFile(ctx, bytes.NewReader(cleaned), dest, info.Mode().Perm())
}

// putSymlink makes a symlink, unless the same one exists.
func (p *putter) putSymlink(ctx context.Context, target, dest string) error {
	err := p.ws.Symlink(ctx, target, dest)
	if errors.Is(err, fault.AlreadyExists) && !p.opts.createOnly {
		at, statErr := p.ws.Stat(ctx, dest, &driver.StatOptions{NoFollow: true})
		if statErr == nil && at.Type == driver.TypeSymlink && at.Target == target {
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("symlink %s to %s: %w", dest, target, err)
	}
	p.done.Symlinks++
	return nil
}
