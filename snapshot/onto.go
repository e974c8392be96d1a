package snapshot

import (
	"maps"
	"slices"
)

// Onto returns what ours, the tree that was merged into, becomes by the merge, and
// the paths at which it changes.
func (m *Merged) Onto(ours Tree) (Tree, []string) {
	return newEdited(ours, m.patches), slices.Sorted(maps.Keys(m.patches))
}
