package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

type wsPutOptions struct {
	name, src, dest string
	createOnly      bool
	ifMatch         string
}

func (a *app) wsPutCommand() *cobra.Command {
	var opts wsPutOptions
	cmd := &cobra.Command{
		Use:   "put NAME SRC DEST",
		Short: "Put a file, a directory or standard input (-) into a workspace",
		Long: `Put a file, a directory or standard input (-) into a workspace. Missing directories
above DEST are made.

A file becomes DEST, or goes into DEST where that is a directory. A directory becomes
DEST, or is merged into it where it exists. Symlinks inside a directory are put as
symlinks and never followed; one that would leave the workspace is left out, and the
command ends with that error after all else was put.`,
		Example: "  croft ws put demo ./src src\n  echo hello | croft ws put demo - hello.txt",
		Args:    cobra.ExactArgs(3),
		RunE: run(func(ctx context.Context, args []string) error {
			opts.name, opts.src, opts.dest = args[0], args[1], args[2]
			return a.wsPut(ctx, opts)
		}),
	}
	cmd.Flags().BoolVar(&opts.createOnly, "create-only", false, "refuse to replace a file")
	cmd.Flags().StringVar(&opts.ifMatch, "if-match", "", "replace a file only if its content has this digest")
	return cmd
}

// putAnswer says what a put or get moved.
type putAnswer struct {
	Files    int      `json:"files"`
	Dirs     int      `json:"dirs"`
	Symlinks int      `json:"symlinks"`
	Bytes    int64    `json:"bytes"`
	Digest   string   `json:"digest,omitempty"`  // of a single file
	LeftOut  []string `json:"leftOut,omitempty"` // what was not moved
}

func (p *putAnswer) String() string {
	return fmt.Sprintf("%d files, %d directories, %d symlinks, %d bytes", p.Files, p.Dirs, p.Symlinks, p.Bytes)
}

func (a *app) wsPut(ctx context.Context, opts wsPutOptions) error {
	p := &putter{a: a, opts: opts}
	err := a.withWorkspace(ctx, opts.name, func(ws *workspace.Workspace) error {
		p.ws = ws
		return p.put(ctx)
	})
	if err != nil {
		return err
	}
	a.note("put %v", &p.done)
	if a.json {
		if err := a.answer(&p.done, nil); err != nil {
			return err
		}
	}
	return errors.Join(p.left...)
}

// A putter is one run of ws put.
type putter struct {
	a    *app
	opts wsPutOptions
	ws   *workspace.Workspace
	done putAnswer
	left []error // what was left out, and why
}

func (p *putter) put(ctx context.Context) error {
	if p.opts.src == "-" {
		return p.file(ctx, p.a.In, p.opts.dest, 0)
	}
	info, err := os.Stat(p.opts.src)
	if err != nil {
		return err
	}
	switch {
	case info.IsDir():
		if p.opts.ifMatch != "" {
			return usagef("--if-match is for a single file, and %s is a directory", p.opts.src)
		}
		return p.tree(ctx)
	case info.Mode().IsRegular():
		return p.single(ctx, info)
	default:
		return fmt.Errorf("%s: %w: it is neither a file nor a directory", p.opts.src, fault.InvalidArgument)
	}
}

func (p *putter) single(ctx context.Context, info fs.FileInfo) error {
	dest := p.opts.dest
	at, err := p.ws.Stat(ctx, dest, nil)
	if strings.HasSuffix(dest, "/") || err == nil && at.Type == driver.TypeDir {
		dest = path.Join(dest, filepath.Base(p.opts.src))
	}
	f, err := os.Open(p.opts.src)
	if err != nil {
		return err
	}
	defer f.Close()
	return p.file(ctx, f, dest, info.Mode().Perm())
}

// file writes one file; a mode of 0 leaves that to the workspace.
func (p *putter) file(ctx context.Context, body io.Reader, dest string, mode fs.FileMode) error {
	res, err := p.ws.Write(ctx, dest, body, &driver.WriteOptions{
		Mode: mode, SetMode: mode != 0, Parents: true, CreateOnly: p.opts.createOnly, IfMatch: p.opts.ifMatch,
	})
	if err != nil {
		return err
	}
	p.done.Files++
	p.done.Bytes += res.Info.Size
	p.done.Digest = res.Digest
	return nil
}

// tree puts a directory. It is walked through an os.Root, so that nothing that
// changes meanwhile can make it read outside.
func (p *putter) tree(ctx context.Context) error {
	root, err := os.OpenRoot(p.opts.src)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // closing a directory can lose nothing
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return p.entry(ctx, root, name, d)
	})
	p.done.Digest = ""
	return err
}

func (p *putter) entry(ctx context.Context, root *os.Root, name string, d fs.DirEntry) error {
	dest := path.Join(p.opts.dest, name)
	switch d.Type() {
	case fs.ModeDir:
		if dest == "." || dest == "/" {
			return nil
		}
		p.done.Dirs++
		return p.ws.Mkdir(ctx, dest, &driver.MkdirOptions{Parents: true})
	case fs.ModeSymlink:
		target, err := root.Readlink(name)
		if err != nil {
			return err
		}
		return p.symlink(ctx, filepath.ToSlash(target), dest)
	case 0:
		return p.entryFile(ctx, root, name, dest)
	default:
		p.leave(dest, fmt.Errorf("%s: %w: it is neither a file, a directory nor a symlink", name, fault.InvalidArgument))
		return nil
	}
}

func (p *putter) entryFile(ctx context.Context, root *os.Root, name, dest string) error {
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return p.file(ctx, f, dest, info.Mode().Perm())
}

// symlink makes a symlink, unless the same one is there.
func (p *putter) symlink(ctx context.Context, target, dest string) error {
	err := p.ws.Symlink(ctx, target, dest)
	if errors.Is(err, fault.AlreadyExists) && !p.opts.createOnly {
		at, statErr := p.ws.Stat(ctx, dest, &driver.StatOptions{NoFollow: true})
		if statErr == nil && at.Type == driver.TypeSymlink && at.Target == target {
			err = nil
		}
	}
	switch fault.Of(err) {
	case "":
		p.done.Symlinks++
		return nil
	case fault.SandboxViolation, fault.Unsupported:
		p.leave(dest, fmt.Errorf("symlink %s to %s: %w", dest, target, err))
		return nil
	default:
		return err
	}
}

func (p *putter) leave(dest string, why error) {
	p.done.LeftOut = append(p.done.LeftOut, dest)
	p.left = append(p.left, why)
}
