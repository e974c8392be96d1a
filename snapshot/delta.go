package snapshot

import (
	"bytes"
	"context"

	"github.com/croft-run/croft/workspace/driver"
)

// Delta returns the upper layer that makes the stored tree old equal to the stored tree
// now when it lies over it: see [Layer]. It costs what differs: equal subtrees are not read. It
// returns nil if more than most entries differ.
func (s *Store) Delta(ctx context.Context, old, now ID, most int) (Tree, error) {
	c := &deltaTree{s: s, left: most}
	root, err := c.compare(ctx, old, now)
	if err != nil || c.left < 0 {
		return nil, err
	}
	c.root = root
	return c, nil
}

type deltaTree struct {
	s    *Store
	left int // entries that may still differ
	root *deltaDir
}

func (t *deltaTree) Root(context.Context) (Directory, error) { return t.root, nil }

// A deltaDir is a directory of an upper layer.
type deltaDir struct {
	storedDir
	nodes []Node
	below map[string]*deltaDir
}

// compare returns the upper layer of a directory; the zero ID is an empty one.
func (t *deltaTree) compare(ctx context.Context, old, now ID) (*deltaDir, error) {
	d := &deltaDir{storedDir: storedDir{s: t.s, id: now}, below: map[string]*deltaDir{}}
	if old == now {
		return d, nil
	}
	var lists [2][]Node
	for i, id := range []ID{old, now} {
		if !id.IsZero() {
			var err error
			if lists[i], err = t.s.readTree(ctx, id); err != nil {
				return nil, err
			}
		}
	}
	before, after := lists[0], lists[1]
	for (len(before) > 0 || len(after) > 0) && t.left >= 0 {
		switch {
		case len(after) == 0 || len(before) > 0 && before[0].Name < after[0].Name:
			t.left--
			d.nodes = append(d.nodes, Node{Name: before[0].Name, Type: TypeWhiteout})
			before = before[1:]
			continue
		case len(before) > 0 && before[0].Name == after[0].Name:
			if bytes.Equal(appendNode(nil, &before[0]), appendNode(nil, &after[0])) {
				before, after = before[1:], after[1:]
				continue
			}
		}
		n, was := after[0], ID{}
		if len(before) > 0 && before[0].Name == n.Name {
			if before[0].Type == driver.TypeDir {
				was = before[0].Content
			}
			before = before[1:]
		}
		after = after[1:]
		t.left--
		d.nodes = append(d.nodes, n)
		if n.Type == driver.TypeDir {
			sub, err := t.compare(ctx, was, n.Content)
			if err != nil {
				return nil, err
			}
			d.below[n.Name] = sub
		}
	}
	return d, nil
}

func (d *deltaDir) Nodes(context.Context) ([]Node, error) { return d.nodes, nil }

func (d *deltaDir) Dir(_ context.Context, n *Node) (Directory, error) { return d.below[n.Name], nil }

func (d *deltaDir) find(_ context.Context, name string) (*Node, error) {
	return searchNodes(d.nodes, name), nil
}
