package snapshot

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/workspace/driver"
)

// hostile are names that programs make and others trip over.
var hostile = []string{
	"a", "b", "c.txt", "-rf", "--", "a b", "new\nline", "tab\t", "\xff\xfe", "ä", "a\u0308", "*", "?", "[x]", "$(x)", "`x`", "'", "\"", "\\",
	"..x", "...", ".hidden", "~", "#", "%", "con", "a;b", "\x01", "\x7f", strings.Repeat("n", 255),
}

// grow makes a random tree.
func grow(t testing.TB, r *rand.Rand, dir string, budget *int, depth int) {
	t.Helper()
	for range r.IntN(6) {
		if *budget--; *budget < 0 {
			return
		}
		name := hostile[r.IntN(len(hostile))]
		path := filepath.Join(dir, name)
		if _, err := os.Lstat(path); err == nil {
			continue
		}
		switch k := r.IntN(10); {
		case k < 3 && depth < 5:
			must0(t, os.Mkdir(path, 0o755))
			grow(t, r, path, budget, depth+1)
			must0(t, os.Chmod(path, []fs.FileMode{0o755, 0o700, 0o555 | fs.ModeSticky, 0o1777}[r.IntN(4)]|0o500))
		case k == 3:
			must0(t, os.Symlink([]string{"a", "../..", "/nowhere/at/all", "nowhere", "\xff"}[r.IntN(5)], path))
		default:
			must0(t, os.WriteFile(path, content(r), 0o644))
			must0(t, os.Chmod(path, []fs.FileMode{0o644, 0o600, 0o755, 0o400, 0o000, 0o777 | fs.ModeSetuid}[r.IntN(6)]))
			if r.IntN(8) == 0 {
				unix.Setxattr(path, "user.croft", []byte(strconv.Itoa(r.IntN(100))), 0)
			}
		}
		if r.IntN(3) == 0 {
			when := unix.NsecToTimespec(r.Int64N(2_000_000_000_000_000_000))
			must0(t, unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{when, when}, unix.AT_SYMLINK_NOFOLLOW))
		}
	}
}

func content(r *rand.Rand) []byte {
	switch r.IntN(120) {
	case 0, 3, 4, 5:
		return nil
	case 1: // larger than a chunk, with a hole
		big := make([]byte, ChunkSize+r.IntN(2*ChunkSize))
		copy(big[r.IntN(len(big)):], "something")
		return big
	case 2:
		return bytes.Repeat([]byte{byte(r.IntN(256))}, ChunkSize)
	case 6, 7, 8:
		return bytes.Repeat([]byte("x\n"), r.IntN(10_000))
	}
	data := make([]byte, r.IntN(300))
	for i := range data {
		data[i] = byte(r.IntN(256))
	}
	return data
}

func must0(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// describe lists all that a snapshot keeps of a directory.
func describe(t testing.TB, tree Tree) []string {
	t.Helper()
	var all []string
	err := Walk(t.Context(), tree, func(path string, dir Directory, n *Node) (bool, error) {
		if n.Type == driver.TypeFile {
			r, err := dir.Open(t.Context(), n)
			if err != nil {
				return false, err
			}
			n.Content, err = hashOpen(t.Context(), r, n)
			r.Close()
			if err != nil {
				return false, err
			}
		}
		content := n.Content
		if n.Type == driver.TypeDir {
			content = ID{}
		}
		all = append(all, fmt.Sprintf("%q %s %o %d %s %q %v %s", path, n.Type, n.Mode, n.Size, n.ModTime.Format(time.RFC3339Nano), n.Target, n.Xattrs, content))
		return true, nil
	})
	must0(t, err)
	return all
}

func rounds(name string, normal int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return normal
}

// mutate changes a random tree at random.
func mutate(t testing.TB, r *rand.Rand, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must0(t, err)
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch r.IntN(6) {
		case 0:
			if e.IsDir() { // never by a symlink: it may lead out
				must0(t, os.Chmod(path, 0o700))
			}
			must0(t, os.RemoveAll(path))
		case 1:
			if e.Type().IsRegular() && len(e.Name()) < 200 {
				must0(t, os.WriteFile(path+"~", content(r), 0o640))
				if r.IntN(2) == 0 {
					must0(t, os.Rename(path+"~", path))
				}
			}
		case 2:
			if e.IsDir() {
				mutate(t, r, path)
			}
		}
	}
	budget := 4
	grow(t, r, dir, &budget, 3)
}

// TestRandomTrees takes random trees, restores them elsewhere, and rolls changed
// ones back in place. CROFT_SNAPSHOT_TREES is how many, and CROFT_SNAPSHOT_SEED the
// seed of the first.
//
//croft:slow
func TestRandomTrees(t *testing.T) {
	base := memoryDir(t)
	s := Open(Memory(), &Options{CacheDir: filepath.Join(base, "cache")})
	first := rounds("CROFT_SNAPSHOT_SEED", 0)
	for i := range rounds("CROFT_SNAPSHOT_TREES", 300) {
		seed := uint64(first + i)
		r := rand.New(rand.NewPCG(seed, 7))
		dir := filepath.Join(base, "tree", strconv.Itoa(i))
		must0(t, os.MkdirAll(dir, 0o755))
		budget := 40
		grow(t, r, dir, &budget, 0)
		want := describe(t, HostDir(dir, nil))
		m, err := s.Take(t.Context(), HostDir(dir, nil), &TakeOptions{Cache: dir})
		must0(t, err)
		if got, _ := Digest(t.Context(), HostDir(dir, nil)); got != m.Digest {
			t.Fatalf("seed %d: the digest of the tree is %s, that of its snapshot %s", seed, got, m.Digest)
		}
		tree := s.StoredTree(m.Root)
		if diff := cmp.Diff(want, describe(t, tree)); diff != "" {
			t.Fatalf("seed %d: the snapshot differs (-tree +snapshot):\n%s", seed, diff)
		}
		copied := dir + ".copy"
		must0(t, os.Mkdir(copied, 0o755))
		must0(t, Extract(t.Context(), tree, copied, nil))
		if diff := cmp.Diff(want, describe(t, HostDir(copied, nil))); diff != "" {
			t.Fatalf("seed %d: what was restored differs (-tree +restored):\n%s", seed, diff)
		}
		mutate(t, r, dir)
		changed := describe(t, HostDir(dir, nil))
		m2, err := s.Take(t.Context(), HostDir(dir, nil), &TakeOptions{Cache: dir})
		must0(t, err)
		if diff := cmp.Diff(changed, describe(t, s.StoredTree(m2.Root))); diff != "" {
			t.Fatalf("seed %d: the second snapshot differs:\n%s", seed, diff)
		}
		_, err = Restore(t.Context(), tree, dir, nil)
		must0(t, err)
		if diff := cmp.Diff(want, describe(t, HostDir(dir, nil))); diff != "" {
			t.Fatalf("seed %d: after going back it differs (-before +after):\n%s", seed, diff)
		}
		res, err := Restore(t.Context(), tree, dir, nil)
		must0(t, err)
		if res.Changed != 0 {
			t.Errorf("seed %d: going back again changed %q", seed, res.Paths)
		}
		openAll(dir)
		must0(t, os.RemoveAll(dir))
		openAll(copied)
		must0(t, os.RemoveAll(copied))
		if i%2 == 0 {
			must0(t, s.Delete(t.Context(), m.ID))
		}
		if i%500 == 499 {
			_, err := s.GC(t.Context())
			must0(t, err)
		}
	}
	sound(t, s)
	_, err := s.GC(t.Context())
	must0(t, err)
	if r := sound(t, s); r.Unneeded > 0 && r.Packs > 1 {
		t.Logf("after gc: %+v", r)
	}
}

// memoryDir is a temporary directory in memory, where there is one: what is tried
// thousands of times need not reach a disk.
func memoryDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "croft-snapshot-*") //nolint:usetesting // in memory
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		openAll(dir)
		must0(t, os.RemoveAll(dir))
	})
	return dir
}

func openAll(dir string) {
	filepath.WalkDir(dir, func(path string, e fs.DirEntry, _ error) error {
		if e != nil && e.IsDir() {
			os.Chmod(path, 0o755)
		}
		return nil
	})
}

func sound(t testing.TB, s *Store) *Report {
	t.Helper()
	r, err := s.Check(context.WithoutCancel(t.Context()))
	must0(t, err)
	for _, p := range r.Problems {
		t.Errorf("fsck: %+v", p)
	}
	return r
}
