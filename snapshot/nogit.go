package snapshot

import (
	"context"
	"slices"

	"github.com/croft-run/croft/workspace/driver"
)

// gitEntryName is the name of repositories. In a directory in place they are history of
// the user, not content: no snapshot contains them, and no rollback changes them.
const gitEntryName = ".git"

// WithoutGit returns a tree without entries named .git, at any level.
func WithoutGit(t Tree) Tree { return noGitTree{t} }

type noGitTree struct{ t Tree }

func (t noGitTree) Root(ctx context.Context) (Directory, error) {
	dir, err := t.t.Root(ctx)
	if err != nil {
		return nil, err
	}
	return noGitDir{dir}, nil
}

type noGitDir struct{ Directory }

func (d noGitDir) Nodes(ctx context.Context) ([]Node, error) {
	nodes, err := d.Directory.Nodes(ctx)
	return slices.DeleteFunc(nodes, func(n Node) bool { return n.Name == gitEntryName }), err
}

func (d noGitDir) Dir(ctx context.Context, n *Node) (Directory, error) {
	sub, err := d.Directory.Dir(ctx, n)
	if err != nil {
		return nil, err
	}
	return noGitDir{sub}, nil
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
