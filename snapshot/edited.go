package snapshot

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strings"

	"github.com/croft-run/croft/workspace/driver"
)

// Subset returns, of a tree, what is at the given paths and below them, and the
// directories that lead there.
func Subset(t Tree, paths []string) Tree { return &subset{t, paths} }

type subset struct {
	t     Tree
	paths []string
}

func (s *subset) Root(ctx context.Context) (Directory, error) {
	dir, err := s.t.Root(ctx)
	return &subsetDir{dir, s.paths, ""}, err
}

type subsetDir struct {
	Directory
	paths []string
	at    string
}

func (d *subsetDir) Nodes(ctx context.Context) ([]Node, error) {
	nodes, err := d.Directory.Nodes(ctx)
	return slices.DeleteFunc(nodes, func(n Node) bool {
		name := d.at + n.Name
		return !slices.ContainsFunc(d.paths, func(p string) bool {
			return p == name || strings.HasPrefix(name, p+"/") || n.Type == driver.TypeDir && strings.HasPrefix(p, name+"/")
		})
	}), err
}

func (d *subsetDir) Dir(ctx context.Context, n *Node) (Directory, error) {
	sub, err := d.Directory.Dir(ctx, n)
	if err != nil {
		return nil, err
	}
	return &subsetDir{sub, d.paths, d.at + n.Name + "/"}, nil
}

// A patch is what becomes of one path: with a nil node it goes.
type patch struct {
	node *Node
	open opener // of a file
}

type opener = func(ctx context.Context) (io.ReadCloser, error)

// edited is a tree with some paths changed. A directory that patches make holds
// only what other patches put there.
type edited struct {
	t       Tree
	patches map[string]patch
}

func (e *edited) Root(ctx context.Context) (Directory, error) {
	dir, err := e.t.Root(ctx)
	return &editedDir{e, dir, ""}, err
}

type editedDir struct {
	e   *edited
	dir Directory // nil where the tree has none
	at  string
}

func (d *editedDir) Nodes(ctx context.Context) ([]Node, error) {
	var nodes []Node
	if d.dir != nil {
		below, err := d.dir.Nodes(ctx)
		if err != nil {
			return nil, err
		}
		for _, n := range below {
			if _, ok := d.e.patches[d.at+n.Name]; ok {
				continue
			}
			nodes = append(nodes, n)
		}
	}
	for name, p := range d.e.patches {
		if p.node == nil || !strings.HasPrefix(name, d.at) || strings.Contains(name[len(d.at):], "/") {
			continue
		}
		n := *p.node
		n.Name = name[len(d.at):]
		n.stat = nil
		nodes = append(nodes, n)
	}
	for i := range nodes {
		if nodes[i].Type == driver.TypeDir {
			nodes[i].Content = ID{} // what is in it may have changed
		}
	}
	slices.SortFunc(nodes, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	return nodes, nil
}

func (d *editedDir) Open(ctx context.Context, n *Node) (io.ReadCloser, error) {
	if p, ok := d.e.patches[d.at+n.Name]; ok {
		return p.open(ctx)
	}
	return d.dir.Open(ctx, n)
}

func (d *editedDir) Dir(ctx context.Context, n *Node) (Directory, error) {
	sub := &editedDir{e: d.e, at: d.at + n.Name + "/"}
	if d.dir == nil {
		return sub, nil
	}
	below, err := find(ctx, d.dir, n.Name)
	if err == nil && below != nil && below.Type == driver.TypeDir {
		sub.dir, err = d.dir.Dir(ctx, below)
	}
	return sub, err
}

func (d *editedDir) Close() {
	if d.dir != nil {
		d.dir.Close()
	}
}

// inMemory opens content that is at hand.
func inMemory(data []byte) opener {
	return func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
}

// fromTree opens a file of another tree.
func fromTree(t Tree, name string) opener {
	return func(ctx context.Context) (io.ReadCloser, error) {
		r, _, err := OpenFile(ctx, t, name)
		return r, err
	}
}
