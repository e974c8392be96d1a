package snapshot

import (
	"context"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// Files returns the tree of a file module, such as that of a workspace. For a
// module made by Module it is the original tree.
func Files(m *driver.FS) Tree {
	if f, ok := m.Files.(*treeFiles); ok {
		return f.t
	}
	return filesTree{m.Files}
}

type filesTree struct{ f driver.Files }

func (t filesTree) Root(context.Context) (Directory, error) { return filesDir{t.f, "."}, nil }

type filesDir struct {
	f    driver.Files
	path string
}

func (d filesDir) Nodes(ctx context.Context) ([]Node, error) {
	infos, err := d.f.ReadDir(ctx, d.path)
	if err != nil {
		return nil, err
	}
	nodes := make([]Node, len(infos))
	for i, info := range infos {
		n := Node{Name: info.Name(), Type: info.Type, Mode: info.Mode, ModTime: info.ModTime, Target: info.Target}
		if n.Type == driver.TypeFile {
			n.Size = info.Size
			if info.Digest != "" {
				if n.Content, err = ParseID(info.Digest); err != nil {
					return nil, err
				}
			}
		}
		if n.Type == driver.TypeSymlink {
			n.Mode = 0
		}
		nodes[i] = n
	}
	return nodes, nil
}

func (d filesDir) Open(ctx context.Context, n *Node) (io.ReadCloser, error) {
	r, info, err := d.f.Read(ctx, path.Join(d.path, n.Name), &driver.ReadOptions{})
	if err == nil {
		n.Size = info.Size
	}
	return r, err
}

func (d filesDir) Dir(_ context.Context, n *Node) (Directory, error) {
	return filesDir{d.f, path.Join(d.path, n.Name)}, nil
}

func (d filesDir) Close() {}

// Module returns a tree as a read-only file module.
func Module(t Tree) *driver.FS { return &driver.FS{Files: &treeFiles{t}} }

type treeFiles struct{ t Tree }

var errReadOnly = fmt.Errorf("snapshot: %w: a snapshot is read-only", fault.PermissionDenied)

// Stat follows symlinks inside the tree, unless opts.NoFollow is set.
func (f *treeFiles) Stat(ctx context.Context, name string, opts *driver.StatOptions) (driver.Info, error) {
	if !opts.NoFollow {
		var err error
		if name, err = f.resolveSymlinks(ctx, name); err != nil {
			return driver.Info{}, err
		}
	}
	dir, n, err := Lookup(ctx, f.t, name)
	if err != nil {
		return driver.Info{}, err
	}
	if dir != nil {
		defer dir.Close()
	}
	if opts.Digest {
		if err := fillContent(ctx, dir, n); err != nil {
			return driver.Info{}, err
		}
	}
	return n.Info(name), nil
}

// resolveSymlinks resolves all symlinks of a name.
func (f *treeFiles) resolveSymlinks(ctx context.Context, name string) (string, error) {
	const most = 40
	for range most {
		next, err := f.resolveFirstSymlink(ctx, name)
		if err != nil || next == name {
			return next, err
		}
		name = next
	}
	return "", fmt.Errorf("snapshot: %s: %w: too many symlinks", name, fault.InvalidArgument)
}

// resolveFirstSymlink replaces the first symlink of a name by its target. A target
// outside the tree is refused.
func (f *treeFiles) resolveFirstSymlink(ctx context.Context, name string) (string, error) {
	elems := strings.Split(name, "/")
	for i := range elems {
		at := path.Join(elems[:i+1]...)
		dir, n, err := Lookup(ctx, f.t, at)
		if err != nil {
			return "", err
		}
		if dir != nil {
			dir.Close()
		}
		if n.Type != driver.TypeSymlink {
			continue
		}
		next := path.Join(path.Dir(at), n.Target, path.Join(elems[i+1:]...))
		if strings.HasPrefix(n.Target, "/") || next == ".." || strings.HasPrefix(next, "../") {
			return "", fmt.Errorf("snapshot: %s: %w: a symlink points outside the snapshot", name, fault.SandboxViolation)
		}
		return next, nil
	}
	return name, nil
}

func (f *treeFiles) ReadDir(ctx context.Context, name string) ([]driver.Info, error) {
	name, err := f.resolveSymlinks(ctx, name)
	if err != nil {
		return nil, err
	}
	sub, n, err := openDir(ctx, f.t, name)
	if err != nil {
		return nil, err
	}
	if sub == nil {
		return nil, fmt.Errorf("snapshot: list %s: %w: it is a %s", name, fault.InvalidArgument, n.Type)
	}
	defer sub.Close()
	nodes, err := sub.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	infos := make([]driver.Info, len(nodes))
	for i := range nodes {
		infos[i] = nodes[i].Info(path.Join(name, nodes[i].Name))
	}
	return infos, nil
}

// openDir opens the directory at name; nil if name is not a directory.
func openDir(ctx context.Context, t Tree, name string) (Directory, *Node, error) {
	dir, n, err := Lookup(ctx, t, name)
	if err != nil {
		return nil, nil, err
	}
	if dir == nil {
		root, err := t.Root(ctx)
		return root, n, err
	}
	defer dir.Close()
	if n.Type != driver.TypeDir {
		return nil, n, nil
	}
	sub, err := dir.Dir(ctx, n)
	return sub, n, err
}

func (f *treeFiles) Read(ctx context.Context, name string, opts *driver.ReadOptions) (io.ReadCloser, driver.Info, error) {
	name, err := f.resolveSymlinks(ctx, name)
	if err != nil {
		return nil, driver.Info{}, err
	}
	r, n, err := OpenFile(ctx, f.t, name)
	if err != nil {
		return nil, driver.Info{}, err
	}
	if opts.Offset > 0 {
		if _, err := io.CopyN(io.Discard, r, opts.Offset); err != nil && err != io.EOF { //nolint:errorlint // as io has it
			r.Close()
			return nil, driver.Info{}, err
		}
	}
	if opts.Limit > 0 {
		return struct {
			io.Reader
			io.Closer
		}{io.LimitReader(r, opts.Limit), r}, n.Info(name), nil
	}
	return r, n.Info(name), nil
}

func (f *treeFiles) Write(context.Context, string, io.Reader, *driver.WriteOptions) (driver.WriteResult, error) {
	return driver.WriteResult{}, errReadOnly
}

func (f *treeFiles) Mkdir(context.Context, string, *driver.MkdirOptions) error { return errReadOnly }

func (f *treeFiles) Remove(context.Context, string, *driver.RemoveOptions) error { return errReadOnly }
