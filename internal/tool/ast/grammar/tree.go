package grammar

import "iter"

// A Tree is the syntax tree of a text.
type Tree struct {
	Language Language
	Source   []byte
	Nodes    []Node // the root first, parents before children, siblings in order
}

// A Node is one node of a tree: a named one of the grammar, or an error.
type Node struct {
	Kind       string // the grammar's name: "function_definition"
	Field      string // field in its parent: "body"; may be ""
	Start, End int    // bytes of the source
	Parent     int    // index; the root is its own parent
	flags      uint8
}

const (
	flagNamed = 1 << iota
	flagError
	flagMissing
)

// Error reports whether the node is a syntax error or a missing node.
func (n *Node) Error() bool { return n.flags&(flagError|flagMissing) != 0 }

// Text returns the source of a node.
func (t *Tree) Text(i int) string { return string(t.Source[t.Nodes[i].Start:t.Nodes[i].End]) }

// Errors returns the nodes with syntax errors.
func (t *Tree) Errors() []int {
	var list []int
	for i := range t.Nodes {
		if t.Nodes[i].Error() {
			list = append(list, i)
		}
	}
	return list
}

// Children yields the children of i, in order.
func (t *Tree) Children(i int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for j := i + 1; j < len(t.Nodes) && t.Nodes[j].Parent >= i; j++ {
			if t.Nodes[j].Parent == i && !yield(j) {
				return
			}
		}
	}
}

// Child returns the first child of i with the field, -1 if there is none.
func (t *Tree) Child(i int, field string) int {
	for j := range t.Children(i) {
		if t.Nodes[j].Field == field {
			return j
		}
	}
	return -1
}
