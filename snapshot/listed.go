package snapshot

import (
	"context"
	"sync"
)

// withListings returns a tree for many lookups, which lists each directory once. A tree
// that finds an entry without listing its directory is returned as it is.
func withListings(ctx context.Context, t Tree) (Tree, error) {
	root, err := t.Root(ctx)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if _, ok := root.(finder); ok {
		return t, nil
	}
	return &listedTree{Tree: t, dirs: map[string][]Node{}}, nil
}

type listedTree struct {
	Tree

	mu   sync.Mutex
	dirs map[string][]Node // guarded by mu; nodes by directory
}

func (t *listedTree) Root(ctx context.Context) (Directory, error) {
	dir, err := t.Tree.Root(ctx)
	return &listedDir{dir, t, ""}, err
}

type listedDir struct {
	Directory
	t  *listedTree
	at string
}

func (d *listedDir) find(ctx context.Context, name string) (*Node, error) {
	d.t.mu.Lock()
	defer d.t.mu.Unlock()
	nodes, ok := d.t.dirs[d.at]
	if !ok {
		var err error
		if nodes, err = d.Nodes(ctx); err != nil {
			return nil, err
		}
		d.t.dirs[d.at] = nodes
	}
	return searchNodes(nodes, name), nil
}

func (d *listedDir) Dir(ctx context.Context, n *Node) (Directory, error) {
	sub, err := d.Directory.Dir(ctx, n)
	if err != nil {
		return nil, err
	}
	return &listedDir{sub, d.t, d.at + n.Name + "/"}, nil
}
