package snapshot

import (
	"bytes"
	"context"
	"io"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/croft-run/croft/workspace/driver"
)

// Subset returns the part of a tree at the given paths: their subtrees, and the
// directories that lead to them.
func Subset(t Tree, paths []string) Tree {
	return &subset{t, newPathSet(slices.Clip(append([]string{}, paths...)))}
}

type subset struct {
	t     Tree
	paths *pathSet
}

func (s *subset) Root(ctx context.Context) (Directory, error) {
	dir, err := s.t.Root(ctx)
	return &subsetDir{dir, s.paths, ""}, err
}

type subsetDir struct {
	Directory
	paths *pathSet
	at    string
}

func (d *subsetDir) Nodes(ctx context.Context) ([]Node, error) {
	nodes, err := d.Directory.Nodes(ctx)
	return slices.DeleteFunc(nodes, func(n Node) bool {
		name := d.at + n.Name
		return !d.paths.contains(name) && (n.Type != driver.TypeDir || !d.paths.hasBelow(name))
	}), err
}

func (d *subsetDir) Dir(ctx context.Context, n *Node) (Directory, error) {
	sub, err := d.Directory.Dir(ctx, n)
	if err != nil {
		return nil, err
	}
	return &subsetDir{sub, d.paths, d.at + n.Name + "/"}, nil
}

// hasEntries reports whether a directory has an entry at one of the paths, or below one.
func (d *subsetDir) hasEntries(ctx context.Context, n *Node) (bool, error) {
	dir, err := d.Dir(ctx, n)
	if err != nil {
		return false, err
	}
	defer dir.Close()
	sub := dir.(*subsetDir)
	nodes, err := sub.Nodes(ctx)
	if err != nil {
		return false, err
	}
	for i := range nodes {
		if d.paths.contains(sub.at + nodes[i].Name) {
			return true, nil
		}
		if found, err := sub.hasEntries(ctx, &nodes[i]); found || err != nil {
			return found, err
		}
	}
	return false, nil
}

// A patch is the new state of one path; a nil node removes it.
type patch struct {
	node *Node
	open opener // content of a file
}

// An opener opens the file of a patch: one function for many, as a closure for each would be a
// good part of the memory of a merge.
type opener = func(ctx context.Context, name string, n *Node) (io.ReadCloser, error)

// patchedTree is a tree with some paths replaced or removed. A directory that a
// patch creates contains only entries of other patches.
type patchedTree struct {
	t       Tree
	patches map[string]patch
	below   func() map[string][]string // names that patches create, by directory
}

func newPatchedTree(t Tree, patches map[string]patch) *patchedTree {
	return &patchedTree{t, patches, sync.OnceValue(func() map[string][]string {
		below := map[string][]string{}
		for name, p := range patches {
			if p.node == nil {
				continue
			}
			dir, base := path.Split(name)
			below[dir] = append(below[dir], base)
		}
		return below
	})}
}

func (e *patchedTree) Root(ctx context.Context) (Directory, error) {
	dir, err := e.t.Root(ctx)
	return &patchedDir{e, dir, ""}, err
}

type patchedDir struct {
	e   *patchedTree
	dir Directory // nil if the tree has no such directory
	at  string
}

func (d *patchedDir) Nodes(ctx context.Context) ([]Node, error) {
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
	for _, name := range d.e.below()[d.at] {
		nodes = append(nodes, *d.patchedNode(name))
	}
	for i := range nodes {
		if nodes[i].Type == driver.TypeDir {
			nodes[i].Content = ID{} // entries below may be patched
		}
	}
	slices.SortFunc(nodes, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	return nodes, nil
}

// patchedNode is the node that a patch puts at a name; nil if there is no patch, or
// it removes the name.
func (d *patchedDir) patchedNode(name string) *Node {
	p := d.e.patches[d.at+name]
	if p.node == nil {
		return nil
	}
	n := *p.node
	n.Name, n.stat = name, nil
	return &n
}

func (d *patchedDir) find(ctx context.Context, name string) (n *Node, err error) {
	if _, ok := d.e.patches[d.at+name]; ok {
		n = d.patchedNode(name)
	} else if d.dir != nil {
		n, err = findNode(ctx, d.dir, name)
	}
	if n != nil && n.Type == driver.TypeDir {
		n.Content = ID{} // entries below may be patched
	}
	return n, err
}

func (d *patchedDir) Open(ctx context.Context, n *Node) (io.ReadCloser, error) {
	if p, ok := d.e.patches[d.at+n.Name]; ok {
		return p.open(ctx, d.at+n.Name, p.node)
	}
	return d.dir.Open(ctx, n)
}

func (d *patchedDir) Dir(ctx context.Context, n *Node) (Directory, error) {
	sub := &patchedDir{e: d.e, at: d.at + n.Name + "/"}
	if d.dir == nil {
		return sub, nil
	}
	below, err := findNode(ctx, d.dir, n.Name)
	if err == nil && below != nil && below.Type == driver.TypeDir {
		sub.dir, err = d.dir.Dir(ctx, below)
	}
	return sub, err
}

func (d *patchedDir) Close() {
	if d.dir != nil {
		d.dir.Close()
	}
}

// Advance returns base with the changes between two other trees.
func Advance(ctx context.Context, base, from, to Tree) (Tree, error) {
	d, err := Diff(ctx, from, to, &DiffOptions{NoRenames: true})
	if err != nil {
		return nil, err
	}
	patches := map[string]patch{}
	put := func(name string) error {
		n, err := nodeAt(ctx, to, name)
		patches[name] = patch{node: n, open: fromTree(to)}
		return err
	}
	for _, c := range d.Changes {
		if err := put(c.Path); err != nil { // a removed path has no node
			return nil, err
		}
		for dir := path.Dir(c.Path); dir != "." && c.Kind != Removed; dir = path.Dir(dir) {
			if n, err := nodeAt(ctx, base, dir); err != nil || n != nil {
				if err != nil {
					return nil, err
				}
				break
			}
			if err := put(dir); err != nil {
				return nil, err
			}
		}
	}
	return newPatchedTree(base, patches), nil
}

func inMemory(data []byte) opener {
	return func(context.Context, string, *Node) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(data)), nil
	}
}

// fromTree opens files of another tree.
func fromTree(t Tree) opener {
	return func(ctx context.Context, name string, _ *Node) (io.ReadCloser, error) {
		r, _, err := OpenFile(ctx, t, name)
		return r, err
	}
}
