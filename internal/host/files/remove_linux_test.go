package files

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestRemoveTreeThatIsDeep: no tree is too deep, or has modes, that it could not be
// removed, with few files open.
func TestRemoveTreeThatIsDeep(t *testing.T) {
	dir := t.TempDir()
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	few := before
	few.Cur = 200
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	defer syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before)
	top := filepath.Join(dir, "top")
	if err := os.Mkdir(top, 0o755); err != nil {
		t.Fatal(err)
	}
	dig(t, top, 1000)
	for name, mode := range map[string]os.FileMode{"closed": 0, "listed": 0o400, "fixed": 0o500} {
		at := filepath.Join(top, name)
		if err := os.MkdirAll(filepath.Join(at, "sub"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(at, "file"), nil, 0); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(at, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(dir, filepath.Join(top, "link")); err != nil {
		t.Fatal(err)
	}
	if err := RemoveTree(top); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
	if err := RemoveTree(top); err != nil {
		t.Errorf("once more: %v", err)
	}
}

// dig makes a directory in a directory, and so on; each has a file, and the last
// one can't be read.
func dig(t *testing.T, dir string, depth int) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	var at *os.Root
	for i := range depth {
		if at, err = down(root, i == depth-1); err != nil {
			t.Fatal(err)
		}
		root.Close()
		root = at
	}
	root.Close()
}

func down(root *os.Root, closed bool) (*os.Root, error) {
	if err := root.Mkdir("d", 0o755); err != nil {
		return nil, err
	}
	if err := root.WriteFile("f", []byte("x"), 0o600); err != nil {
		return nil, err
	}
	sub, err := root.OpenRoot("d")
	if err == nil && closed {
		err = root.Chmod("d", 0)
	}
	return sub, err
}

// TestRemoveTreeAtOnce: any number may remove the same tree.
//
//croft:race
func TestRemoveTreeAtOnce(t *testing.T) {
	dir := t.TempDir()
	for range 5 {
		top := filepath.Join(dir, "top")
		if err := os.Mkdir(top, 0o755); err != nil {
			t.Fatal(err)
		}
		dig(t, top, 150)
		errs := make(chan error)
		const together = 4
		for range together {
			go func() { errs <- RemoveTree(top) }()
		}
		for range together {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Fatalf("left are %v, %v", left, err)
		}
	}
}
