package tool

import (
	"fmt"
	"testing"
)

// TestTrackerIsBounded: whatever clients read, what is known of it stays small,
// and what was used last is what is known.
func TestTrackerIsBounded(t *testing.T) {
	var tr Tracker
	key := func(i int) fileKey { return fileKey{"s", "w", fmt.Sprint(i)} }
	put := func(k fileKey, s Seen) {
		tr.mu.Lock()
		defer tr.mu.Unlock()
		tr.putLocked(k, s)
	}
	for i := range maxTrackedFiles + 10 {
		put(key(i), Seen{Digest: "d"})
		tr.get(key(0)) // in use all the time
	}
	if got := tr.Len(); got != maxTrackedFiles {
		t.Errorf("%d files are known, want %d", got, maxTrackedFiles)
	}
	_, first := tr.get(key(0))
	_, second := tr.get(key(1))
	if !first || second {
		t.Errorf("the one in use is known: %v; the one used longest ago: %v", first, second)
	}
	marks := make([]uint32, maxTrackedLines/2)
	for i := range 3 {
		put(key(-1-i), Seen{Digest: "d", lineHashes: marks})
	}
	if got := tr.Len(); got != 2 || tr.lines != maxTrackedLines {
		t.Errorf("%d files with %d lines are known, want 2 with %d", got, tr.lines, maxTrackedLines)
	}
	tr.removeIf(func(k fileKey) bool { return k.reader == "s" })
	if tr.Len() != 0 || tr.lines != 0 {
		t.Errorf("%d files with %d lines are known of a client that is gone", tr.Len(), tr.lines)
	}
}
