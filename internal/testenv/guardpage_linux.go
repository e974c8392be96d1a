package testenv

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// BytesBeforeGuardPage returns n bytes that end at a guard page: an access beyond them
// crashes the test.
func BytesBeforeGuardPage(t *testing.T, n int) []byte {
	t.Helper()
	page := os.Getpagesize()
	size := (n + page - 1) / page * page
	mem, err := unix.Mmap(-1, 0, size+page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Munmap(mem); err != nil {
			t.Error(err)
		}
	})
	if err := unix.Mprotect(mem[size:], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	return mem[size-n : size : size]
}
