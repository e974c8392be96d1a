package snapshot

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// cleanPaths normalises paths of user input: "./src/" is "src". A path outside the
// tree is refused.
func cleanPaths(paths []string) ([]string, error) {
	if paths == nil {
		return nil, nil
	}
	clean := make([]string, len(paths))
	for i, p := range paths {
		clean[i] = path.Clean(p)
		if p == "" || !driver.ValidName(clean[i]) {
			return nil, fmt.Errorf("snapshot: path %q: %w: a path must be relative and inside the tree", p, fault.InvalidArgument)
		}
	}
	return clean, nil
}

// A pathSet is a set of paths with their subtrees. Nil contains everything.
type pathSet struct {
	all    bool // "." is in it
	sorted []string
}

func newPathSet(paths []string) *pathSet {
	if paths == nil {
		return nil
	}
	s := &pathSet{sorted: paths}
	if !slices.IsSorted(paths) {
		s.sorted = slices.Sorted(slices.Values(paths))
	}
	s.all = s.has(".")
	return s
}

// has reports whether name itself is one of the paths.
func (s *pathSet) has(name string) bool {
	_, ok := slices.BinarySearch(s.sorted, name)
	return ok
}

// contains reports whether name is one of the paths, or below one.
func (s *pathSet) contains(name string) bool {
	if s == nil || s.all || s.has(name) {
		return true
	}
	for i := range len(name) {
		if name[i] == '/' && s.has(name[:i]) {
			return true
		}
	}
	return false
}

// hasBelow reports whether one of the paths is below the directory name.
func (s *pathSet) hasBelow(name string) bool {
	if s == nil || s.all {
		return true
	}
	at, _ := slices.BinarySearch(s.sorted, name+"/")
	return at < len(s.sorted) && strings.HasPrefix(s.sorted[at], name+"/")
}
