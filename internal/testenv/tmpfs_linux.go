package testenv

import (
	"fmt"
	"syscall"
	"testing"
)

// NeedsTmpfs mounts an empty tmpfs of the given size, which a test can fill, or skips the
// test without the privilege to mount.
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
