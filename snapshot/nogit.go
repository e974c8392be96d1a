package snapshot

import (
	"context"
	"slices"

	"github.com/croft-run/croft/workspace/driver"
)

// gitEntryName is the name of repositories. In a directory in place they are history of
// the user, not content: no comparison shows them, and no rollback changes them.
const gitEntryName = ".git"

// WithoutGit returns a tree without entries named .git, at any level.
func WithoutGit(t Tree) Tree {
	return listingTree{t, func(nodes []Node) []Node {
		return slices.DeleteFunc(nodes, func(n Node) bool { return n.Name == gitEntryName })
	}}
}

// listingTree is a tree with another listing of each directory.
type listingTree struct {
	Tree
	list func([]Node) []Node
}

func (t listingTree) Root(ctx context.Context) (Directory, error) {
	dir, err := t.Tree.Root(ctx)
	if err != nil {
		return nil, err
	}
	return listingDir{dir, t.list}, nil
}

type listingDir struct {
	Directory
	list func([]Node) []Node
}

func (d listingDir) Nodes(ctx context.Context) ([]Node, error) {
	nodes, err := d.Directory.Nodes(ctx)
	return d.list(nodes), err
}

func (d listingDir) Dir(ctx context.Context, n *Node) (Directory, error) {
	sub, err := d.Directory.Dir(ctx, n)
	if err != nil {
		return nil, err
	}
	return listingDir{sub, d.list}, nil
}

// hasGit reports whether a directory contains an entry named .git, at any level.
func hasGit(ctx context.Context, dir Directory) (bool, error) {
	nodes, err := dir.Nodes(ctx)
	if err != nil {
		return false, err
	}
	for i := range nodes {
		n := &nodes[i]
		if n.Name == gitEntryName {
			return true, nil
		}
		if n.Type != driver.TypeDir {
			continue
		}
		sub, err := dir.Dir(ctx, n)
		if err != nil {
			return false, err
		}
		found, err := hasGit(ctx, sub)
		sub.Close()
		if found || err != nil {
			return found, err
		}
	}
	return false, nil
}
