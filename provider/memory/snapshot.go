package memory

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

// snapshotAdapter returns the snapshot adapter of the tree.
func (h *handle) snapshotAdapter() *snapshot.Adapter {
	return &snapshot.Adapter{
		Store: h.p.Snapshots, Provider: Kind, Workspace: h.id, Session: h.session, Origin: h.origin,
		Now: func(ctx context.Context) (view snapshot.View, err error) {
			err = h.view(ctx, func() error {
				view = snapshot.View{Tree: frozenDir{h.root.clone()}, Frozen: true}
				return nil
			})
			return view, err
		},
		Rollback: func(ctx context.Context, to *snapshot.RollbackTarget) error {
			return snapshot.Write(ctx, to.Tree, h.fsModule(), &snapshot.WriteOptions{Only: to.Paths})
		},
	}
}

// fillFromSnapshot fills a new tree from a snapshot.
func (p *Provider) fillFromSnapshot(ctx context.Context, t *tree, spec driver.Spec) error {
	if spec.From.Snapshot == "" {
		return nil
	}
	stored, err := p.Snapshots.StartFrom(ctx, spec)
	if err != nil {
		return fmt.Errorf("memory: open %s: %w", spec.ID, err)
	}
	t.origin = spec.From.Snapshot
	t.policy.ReadOnly = false
	h := &handle{tree: t, watchers: map[*watcher]bool{}}
	err = snapshot.Write(ctx, stored, h.fsModule(), nil)
	t.policy.ReadOnly = spec.Policy.ReadOnly
	if err != nil {
		return fmt.Errorf("memory: open %s: %w", spec.ID, err)
	}
	return nil
}

// clone copies a node with its tree; content is shared, because it is immutable.
func (n *node) clone() *node {
	c := *n
	if n.children != nil {
		c.children = make(map[string]*node, len(n.children))
		for name, child := range n.children {
			c.children[name] = child.clone()
		}
	}
	return &c
}

// frozenDir is an immutable tree.
type frozenDir struct{ n *node }

func (f frozenDir) Root(context.Context) (snapshot.Directory, error) { return f, nil }

func (f frozenDir) Nodes(context.Context) ([]snapshot.Node, error) {
	var nodes []snapshot.Node
	for _, name := range slices.Sorted(maps.Keys(f.n.children)) {
		c := f.n.children[name]
		n := snapshot.Node{Name: name, Type: c.typ, Mode: c.mode.Perm(), Size: int64(len(c.content)), ModTime: c.mtime, Target: c.target}
		if c.typ == driver.TypeSymlink {
			n.Mode = 0
		}
		if c.digest != "" {
			var err error
			if n.Content, err = snapshot.ParseID(c.digest); err != nil {
				return nil, err
			}
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

func (f frozenDir) Open(_ context.Context, n *snapshot.Node) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(f.n.children[n.Name].content)), nil
}

func (f frozenDir) Dir(_ context.Context, n *snapshot.Node) (snapshot.Directory, error) {
	return frozenDir{f.n.children[n.Name]}, nil
}

func (f frozenDir) Close() {}
