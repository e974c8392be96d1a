package snapshot

import (
	"context"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/croft-run/croft/workspace/driver"
)

// Layer returns the merged view of an overlayfs: upper, with its whiteouts and
// opaque directories, over lower.
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
	return &layeredDir{lower: lower, upper: upper}, nil
}

// layeredDir merges two directories; either may be nil. Each is listed at most
// once, and shared by goroutines.
type layeredDir struct {
	lower, upper Directory

	mu                   sync.Mutex
	lowerList, upperList []Node // guarded by mu; nil until listed
}

// listLayer returns the entries of one layer, sorted by name.
func (d *layeredDir) listLayer(ctx context.Context, dir Directory, kept *[]Node) ([]Node, error) {
	if dir == nil {
		return nil, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if *kept != nil {
		return *kept, nil
	}
	nodes, err := dir.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	if nodes == nil {
		nodes = []Node{}
	}
	*kept = nodes
	return nodes, nil
}

func (d *layeredDir) Nodes(ctx context.Context) ([]Node, error) {
	var all []Node
	hidden := map[string]bool{}
	nodes, err := d.listLayer(ctx, d.upper, &d.upperList)
	if err != nil {
		return nil, err
	}
	for _, n := range nodes {
		hidden[n.Name] = true
		if n.Type == TypeWhiteout {
			continue
		}
		d.adjustUpper(&n)
		all = append(all, n)
	}
	if nodes, err = d.listLayer(ctx, d.lower, &d.lowerList); err != nil {
		return nil, err
	}
	for _, n := range nodes {
		if !hidden[n.Name] {
			all = append(all, n)
		}
	}
	slices.SortFunc(all, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// findIn finds a node by name in one layer; nil if it is missing.
func (d *layeredDir) findIn(ctx context.Context, dir Directory, kept *[]Node, name string) (*Node, error) {
	if dir == nil {
		return nil, nil
	}
	d.mu.Lock()
	nodes := *kept
	d.mu.Unlock()
	if nodes == nil {
		return findNode(ctx, dir, name)
	}
	return searchNodes(nodes, name), nil
}

func (d *layeredDir) find(ctx context.Context, name string) (*Node, error) {
	up, err := d.findIn(ctx, d.upper, &d.upperList, name)
	if err != nil || up == nil {
		if err == nil {
			up, err = d.findIn(ctx, d.lower, &d.lowerList, name)
		}
		return up, err
	}
	if up.Type == TypeWhiteout {
		return nil, nil
	}
	d.adjustUpper(up)
	return up, nil
}

// adjustUpper turns a node of the upper layer into one of the merged view.
func (d *layeredDir) adjustUpper(n *Node) {
	if n.Type != driver.TypeDir {
		return
	}
	if !n.Opaque && d.lower != nil {
		n.Content = ID{} // the lower layer may add entries
	}
	n.Opaque = false
}

// searchNodes finds a node by name in a sorted list; nil if it is missing.
func searchNodes(nodes []Node, name string) *Node {
	at, ok := slices.BinarySearchFunc(nodes, name, func(n Node, name string) int { return strings.Compare(n.Name, name) })
	if !ok {
		return nil
	}
	n := nodes[at]
	return &n
}

func (d *layeredDir) Open(ctx context.Context, n *Node) (io.ReadCloser, error) {
	up, err := d.findIn(ctx, d.upper, &d.upperList, n.Name)
	if err != nil {
		return nil, err
	}
	if up != nil {
		return d.upper.Open(ctx, n)
	}
	return d.lower.Open(ctx, n)
}

func (d *layeredDir) Dir(ctx context.Context, n *Node) (Directory, error) {
	up, err := d.findIn(ctx, d.upper, &d.upperList, n.Name)
	if err != nil {
		return nil, err
	}
	if up == nil {
		return d.lower.Dir(ctx, n)
	}
	sub := &layeredDir{}
	if !up.Opaque {
		low, err := d.findIn(ctx, d.lower, &d.lowerList, n.Name)
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
