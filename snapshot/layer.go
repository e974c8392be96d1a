package snapshot

import (
	"context"
	"io"
	"slices"
	"strings"

	"github.com/croft-run/croft/workspace/driver"
)

// Layer returns the tree that upper, with its whiteouts and opaque directories,
// makes of lower: what an overlay of the two shows.
func Layer(lower, upper Tree) Tree { return &layered{lower, upper} }

type layered struct{ lower, upper Tree }

func (t *layered) Root(ctx context.Context) (Directory, error) {
	lower, err := t.lower.Root(ctx)
	if err != nil {
		return nil, err
	}
	upper, err := t.upper.Root(ctx)
	if err != nil {
		lower.Close()
		return nil, err
	}
	return &layeredDir{lower, upper}, nil
}

// layeredDir merges two directories; either may be nil.
type layeredDir struct{ lower, upper Directory }

func (d *layeredDir) Nodes(ctx context.Context) ([]Node, error) {
	var all []Node
	hidden := map[string]bool{}
	if d.upper != nil {
		nodes, err := d.upper.Nodes(ctx)
		if err != nil {
			return nil, err
		}
		for _, n := range nodes {
			hidden[n.Name] = true
			if n.Type == TypeWhiteout {
				continue
			}
			if n.Type == driver.TypeDir {
				if !n.Opaque && d.lower != nil {
					n.Content = ID{} // it may have more in it than the upper one has
				}
				n.Opaque = false
			}
			all = append(all, n)
		}
	}
	if d.lower != nil {
		nodes, err := d.lower.Nodes(ctx)
		if err != nil {
			return nil, err
		}
		for _, n := range nodes {
			if !hidden[n.Name] {
				all = append(all, n)
			}
		}
	}
	slices.SortFunc(all, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// in finds a node by name in one of the layers.
func in(ctx context.Context, dir Directory, name string) (*Node, error) {
	if dir == nil {
		return nil, nil
	}
	return find(ctx, dir, name)
}

func (d *layeredDir) Open(ctx context.Context, n *Node) (io.ReadCloser, error) {
	up, err := in(ctx, d.upper, n.Name)
	if err != nil {
		return nil, err
	}
	if up != nil {
		return d.upper.Open(ctx, n)
	}
	return d.lower.Open(ctx, n)
}

func (d *layeredDir) Dir(ctx context.Context, n *Node) (Directory, error) {
	up, err := in(ctx, d.upper, n.Name)
	if err != nil {
		return nil, err
	}
	if up == nil {
		return d.lower.Dir(ctx, n)
	}
	sub := &layeredDir{}
	if !up.Opaque {
		low, err := in(ctx, d.lower, n.Name)
		if err != nil {
			return nil, err
		}
		if low != nil && low.Type == driver.TypeDir {
			if sub.lower, err = d.lower.Dir(ctx, low); err != nil {
				return nil, err
			}
		}
	}
	if sub.upper, err = d.upper.Dir(ctx, up); err != nil {
		sub.Close()
		return nil, err
	}
	return sub, nil
}

func (d *layeredDir) Close() {
	for _, dir := range []Directory{d.lower, d.upper} {
		if dir != nil {
			dir.Close()
		}
	}
}
