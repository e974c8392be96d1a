package testenv

import (
	"fmt"
	"syscall"
	"testing"
)

// NeedsTmpfs mounts a file system of the given size that is empty, so that a
// test can fill it, or skips the test where the process may not mount one.
func NeedsTmpfs(t testing.TB, size int64) string {
	t.Helper()
	dir := t.TempDir() // removed last, after it is unmounted
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		t.Skipf("skipped: host: it lacks the right to mount a tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}
