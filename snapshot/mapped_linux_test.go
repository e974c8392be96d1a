package snapshot

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMapped changes a file through memory that it is mapped to, which shows in its
// times at most once until the kernel has written it: each snapshot has what was
// there, also where an earlier one remembers how the file looked.
func TestMapped(t *testing.T) {
	dirs := []string{t.TempDir()}
	if dir, err := os.MkdirTemp("/dev/shm", "mapped-"); err == nil { //nolint:usetesting // in memory, where the other may be on a disk
		dirs = append(dirs, dir)
		t.Cleanup(func() { os.RemoveAll(dir) })
	}
	for _, dir := range dirs {
		var fs unix.Statfs_t
		if unix.Statfs(dir, &fs) != nil || fs.Type == unix.OVERLAYFS_SUPER_MAGIC {
			continue // an overlay does not say what is mapped of the file below it
		}
		path := filepath.Join(dir, "f")
		must0(t, os.WriteFile(path, make([]byte, 100), 0o644))
		must0(t, os.WriteFile(filepath.Join(dir, "other"), []byte("x"), 0o644))
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		must0(t, err)
		mem, err := unix.Mmap(int(f.Fd()), 0, 100, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		must0(t, err)
		must0(t, f.Close()) // the mapping stays
		s := Open(Memory(), &Options{CacheDir: t.TempDir()})
		look := func(want string) {
			t.Helper()
			time.Sleep(2 * clockStep)
			m, err := s.Take(t.Context(), HostDir(dir, nil), &TakeOptions{Cache: "tree"})
			must0(t, err)
			data, err := readFile(t.Context(), s.StoredTree(m.Root), "f", 100)
			must0(t, err)
			if got := string(data[:len(want)]); got != want {
				t.Errorf("in %s the snapshot has %q, want %q", dir, got, want)
			}
		}
		for i := range 4 {
			text := fmt.Sprintf("state %d", i)
			copy(mem, text)
			look(text)
		}
		if known := s.loadCache("tree").filesIn(""); len(known) != 1 {
			t.Errorf("in %s %d files are remembered, want the one that nobody has mapped", dir, len(known))
		}
		must0(t, unix.Munmap(mem))
		look("state 3")
		if known := s.loadCache("tree").filesIn(""); len(known) != 2 {
			t.Errorf("in %s %d files are remembered, want both when nobody has one mapped", dir, len(known))
		}
	}
}
