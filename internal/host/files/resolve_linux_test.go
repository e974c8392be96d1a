package files

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestWalkBeneathIsOpenat2: what a walk answers where the kernel has no openat2 is
// what the kernel answers.
func TestWalkBeneathIsOpenat2(t *testing.T) {
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	for _, d := range []string{"a/b/c", "x"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"root/f", "root/a/b/f", "out"} {
		if err := os.WriteFile(filepath.Join(dir, f), []byte(f), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{
		"file": "f", "up": "..", "a/up": "../f", "a/twice": "up", "a/b/top": "../..", "out": "../out", "a/out": "../../out", "abs": "/etc/passwd", "self": "/proc/self/root",
		"loop": "loop", "l1": "l2", "l2": "l1", "gone": "nothing", "dir": "a/b", "a/b/here": ".", "slash": "a/b/", "dots": "./a/./b//f", "a/away": "../../root/f",
	} {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 45 { // a chain that is as long as may be, and longer ones
		if err := os.Symlink("chain"+string(rune('A'+i+1)), filepath.Join(root, "chain"+string(rune('A'+i)))); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "chain"+string(rune('A'+45))), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := openSystem(root, false)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	names := []string{
		".", "f", "a", "a/b/f", "a/b/c", "nothing", "a/nothing/x", "f/x", "a/b/f/x", "..", "a/../..", "a/../f", "file", "file/x", "up", "up/x", "a/up", "a/twice", "a/b/top", "a/b/top/f", "a/b/top/a/b/f",
		"out", "a/out", "abs", "self", "self/etc/passwd", "loop", "loop/x", "l1", "gone", "gone/x", "dir", "dir/f", "dir/c", "a/b/here/f", "slash", "slash/f", "dots", "a/away",
		strings.Repeat("x", 300), "a/" + strings.Repeat("x", 300), "chainB", "chainE", "chainF", "chainG", "chainJ", "chain" + string(rune('A'+44)),
	}
	for _, flags := range []int{
		unix.O_RDONLY, unix.O_RDONLY | unix.O_DIRECTORY, unix.O_PATH, unix.O_PATH | unix.O_NOFOLLOW, unix.O_RDONLY | unix.O_NOFOLLOW, unix.O_PATH | unix.O_DIRECTORY, unix.O_WRONLY | unix.O_NONBLOCK,
	} {
		for _, how := range []uint64{unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS, unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS} {
			for _, name := range names {
				want := opened(unix.Openat2(s.fd, name, &unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: how}))
				got := opened(s.walkBeneath(name, flags, how))
				if got != want {
					t.Errorf("%.40s with %#x, %#x: got %+v, want %+v", name, flags, how, got, want)
				}
			}
		}
	}
}

type found struct {
	ino uint64
	err error
}

func opened(fd int, err error) found {
	if err != nil {
		return found{err: err}
	}
	defer closeFD(fd)
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	return found{st.Ino, err}
}

// TestWalkBeneathNeverLeaves swaps directories and symlinks during the walk.
func TestWalkBeneathNeverLeaves(t *testing.T) {
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	for _, d := range []string{"root/d/sub", "out/sub"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "out/sub/secret"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "d/sub/secret"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../out", filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	var secret unix.Stat_t
	if err := unix.Stat(filepath.Join(dir, "out/sub/secret"), &secret); err != nil {
		t.Fatal(err)
	}
	s, err := openSystem(root, false)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(s.fd, "d", s.fd, "link", unix.RENAME_EXCHANGE)           // a directory becomes a symlink
				_ = os.Rename(filepath.Join(root, "link/sub"), filepath.Join(dir, "moved")) // and moves out,
				_ = os.Rename(filepath.Join(dir, "moved"), filepath.Join(root, "link/sub")) // and back
			}
		}
	}()
	defer func() { close(stop); <-done }()
	errs := []error{nil, unix.EXDEV, unix.ENOENT, unix.EAGAIN, unix.ENOTDIR}
	for range 3000 {
		for _, name := range []string{"d/sub/secret", "d/sub/../sub/secret", "link/sub/../../link/sub/secret"} {
			got := opened(s.walkBeneath(name, unix.O_RDONLY, unix.RESOLVE_BENEATH))
			if got.ino == secret.Ino || !slices.ContainsFunc(errs, func(e error) bool { return errors.Is(got.err, e) }) {
				t.Fatalf("%s: got %+v", name, got)
			}
		}
	}
}
