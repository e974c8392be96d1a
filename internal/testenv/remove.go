package testenv

import (
	"os"
	"testing"
	"time"
)

// RemoveAll removes a directory to which processes that are ending may still write, and
// retries until it succeeds.
func RemoveAll(t testing.TB, dir string) {
	t.Helper()
	const patience = 2 * time.Minute
	err := os.RemoveAll(dir)
	for start := time.Now(); err != nil && time.Since(start) < patience; err = os.RemoveAll(dir) {
		time.Sleep(100 * time.Millisecond)
	}
	if err != nil {
		t.Errorf("remove %s: %v", dir, err)
	}
}
