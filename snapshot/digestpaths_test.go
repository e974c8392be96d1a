package snapshot

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/croft-run/croft/workspace/driver"
)

// TestDigestPathsMemory: the digests of many paths are computed one after another. A digest takes
// several KiB: an apply and its undo held one for each file.
func TestDigestPathsMemory(t *testing.T) {
	const files = 20_000
	patches := map[string]patch{"d": {node: &Node{Type: driver.TypeDir, Mode: 0o755}}}
	paths := []string{"d"}
	for i := range files {
		name := fmt.Sprintf("d/%05d", i)
		patches[name] = patch{node: &Node{Type: driver.TypeFile, Mode: 0o644, Content: sum(nil)}}
		paths = append(paths, name)
	}
	tree := newPatchedTree(Empty, patches)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, each, err := digestPaths(t.Context(), tree, paths)
	runtime.ReadMemStats(&after)
	if err != nil || len(each) != files+1 {
		t.Fatalf("%d digests, %v", len(each), err)
	}
	const most = 3 << 10 // bytes for each file, garbage included
	if used := (after.TotalAlloc - before.TotalAlloc) / files; used > most {
		t.Errorf("digestPaths allocates %d bytes for each path, want at most %d", used, most)
	}
}

// TestDigestPathsNested: the digest of a path is of what is below it, without what has a digest of
// its own.
func TestDigestPathsNested(t *testing.T) {
	file := func(text string) patch {
		return patch{node: &Node{Type: driver.TypeFile, Mode: 0o644, Content: sum([]byte(text))}}
	}
	dir := patch{node: &Node{Type: driver.TypeDir, Mode: 0o755}}
	digests := func(changed string) []string {
		patches := map[string]patch{"a": dir, "a/b": dir, "a/b/x": file(""), "a/b/y": file(""), "a/c": file(""), "a-b": file(""), "z": file("")}
		if changed != "" {
			patches[changed] = file("new")
		}
		_, each, err := digestPaths(t.Context(), newPatchedTree(Empty, patches), []string{"a", "a-b", "a/b", "a/b/x", "gone", "z"})
		if err != nil {
			t.Fatal(err)
		}
		return each
	}
	before := digests("")
	for changed, want := range map[string][]int{"a/c": {0}, "a-b": {1}, "a/b/y": {2}, "a/b/x": {3}, "z": {5}} {
		var differ []int
		for i, d := range digests(changed) {
			if d != before[i] {
				differ = append(differ, i)
			}
		}
		if !slices.Equal(differ, want) {
			t.Errorf("after a change of %s the digests %v differ, want %v", changed, differ, want)
		}
	}
}
