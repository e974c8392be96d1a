package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

func take(t testing.TB, s *Store, dir string, opts *TakeOptions) *Manifest {
	t.Helper()
	m, err := s.Take(t.Context(), HostDir(dir, nil), opts)
	must0(t, err)
	return m
}

func diskUse(t testing.TB, dir string) (files int, size int64) {
	t.Helper()
	must0(t, filepath.Walk(dir, func(_ string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			files, size = files+1, size+info.Size()
		}
		return err
	}))
	return files, size
}

func TestManySmallFilesAreFewObjects(t *testing.T) {
	dir, store := t.TempDir(), filepath.Join(t.TempDir(), "store")
	for i := range 3000 {
		must0(t, os.MkdirAll(filepath.Join(dir, strconv.Itoa(i%50)), 0o755))
		must0(t, os.WriteFile(filepath.Join(dir, strconv.Itoa(i%50), strconv.Itoa(i)), []byte(fmt.Sprintf("file %d\n", i)), 0o644))
	}
	s := Open(Dir(store), &Options{CacheDir: filepath.Join(store, "cache")})
	take(t, s, dir, &TakeOptions{Cache: "x"})
	files, first := diskUse(t, filepath.Join(store, "packs"))
	if files != 1 {
		t.Errorf("3000 small files are in %d packs, want 1", files)
	}
	must0(t, os.WriteFile(filepath.Join(dir, "1", "1"), []byte("changed"), 0o644))
	take(t, s, dir, &TakeOptions{Cache: "x"})
	if _, second := diskUse(t, filepath.Join(store, "packs")); second-first > 16<<10 {
		t.Errorf("a second snapshot with one change takes %d bytes more", second-first)
	}
}

// TestCacheSeesChanges changes files in all the ways that leave size or times alone.
func TestCacheSeesChanges(t *testing.T) {
	dir, store := t.TempDir(), t.TempDir()
	s := Open(Dir(store), &Options{CacheDir: filepath.Join(store, "cache")})
	path := filepath.Join(dir, "f")
	must0(t, os.WriteFile(path, []byte("aaaa"), 0o644))
	old := time.Now().Add(-time.Hour)
	must0(t, os.Chtimes(path, old, old))
	time.Sleep(2 * clockStep)
	first := take(t, s, dir, &TakeOptions{Cache: "k"})
	if again := take(t, s, dir, &TakeOptions{Cache: "k"}); again.Digest != first.Digest {
		t.Errorf("an unchanged tree has the digests %s and %s", first.Digest, again.Digest)
	}
	must0(t, os.WriteFile(path, []byte("bbbb"), 0o644))
	must0(t, os.Chtimes(path, old, old))
	if got := take(t, s, dir, &TakeOptions{Cache: "k"}); got.Digest == first.Digest {
		t.Error("a change that keeps size and time was not seen")
	}
	must0(t, os.WriteFile(path+"2", []byte("cccc"), 0o644))
	must0(t, os.Chtimes(path+"2", old, old))
	before := take(t, s, dir, &TakeOptions{Cache: "k"})
	must0(t, os.Rename(path+"2", path))
	if got := take(t, s, dir, &TakeOptions{Cache: "k"}); got.Digest == before.Digest {
		t.Error("a file that replaced another was not seen")
	}
	must0(t, os.WriteFile(s.cachePath("k"), []byte("damaged"), 0o600))
	take(t, s, dir, &TakeOptions{Cache: "k"})
}

// TestCacheKnowsWhatGCRemoved: the cache names an object that is gone.
func TestCacheKnowsWhatGCRemoved(t *testing.T) {
	dir, store := t.TempDir(), t.TempDir()
	s := Open(Dir(store), &Options{CacheDir: filepath.Join(store, "cache")})
	must0(t, os.WriteFile(filepath.Join(dir, "f"), bytes.Repeat([]byte("0123456789"), 200_000), 0o644))
	must0(t, os.WriteFile(filepath.Join(dir, "g"), []byte("small"), 0o644))
	time.Sleep(2 * clockStep)
	m := take(t, s, dir, &TakeOptions{Cache: "k"})
	must0(t, s.Delete(t.Context(), m.ID))
	if _, err := s.GC(t.Context()); err != nil {
		t.Fatal(err)
	}
	take(t, s, dir, &TakeOptions{Cache: "k"})
	sound(t, s)
}

func TestIgnoreAndCredentials(t *testing.T) {
	dir := plant(t, map[string]string{"a.go": "x", "a.log": "x", "build/out": "x", ".env": "TOKEN=1", ".env.example": "TOKEN=", "sub/id_rsa": "k", ".ssh/config": "h"})
	s := Open(Memory(), nil)
	names := func(m *Manifest) (all []string) {
		must0(t, Walk(t.Context(), s.StoredTree(m.Root), func(p string, _ Directory, n *Node) (bool, error) {
			if n.Type != driver.TypeDir {
				all = append(all, p)
			}
			return true, nil
		}))
		return all
	}
	if diff := cmp.Diff([]string{".env", ".env.example", ".ssh/config", "a.go", "sub/id_rsa"}, names(take(t, s, dir, &TakeOptions{Ignore: []string{"*.log", "build/"}}))); diff != "" {
		t.Errorf("with rules -want +got:\n%s", diff)
	}
	m := take(t, s, dir, &TakeOptions{NoCredentials: true})
	if diff := cmp.Diff([]string{".env.example", "a.go", "a.log", "build/out"}, names(m)); diff != "" {
		t.Errorf("without credentials -want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{".env", ".ssh", "sub/id_rsa"}, m.LeftOut); diff != "" {
		t.Errorf("left out -want +got:\n%s", diff)
	}
}

func TestSpecialFilesAreCounted(t *testing.T) {
	dir := plant(t, map[string]string{"a": "x"})
	must0(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o644))
	if m := take(t, Open(Memory(), nil), dir, nil); m.Files != 1 || m.Skipped != 1 {
		t.Errorf("%d files and %d left out, want 1 and 1", m.Files, m.Skipped)
	}
}

// failing is a tree of which some files can't be read: the error of each by its name.
type failing struct {
	Tree
	errs map[string]error
	each func(name string) // before a file is opened
}

func (f failing) Root(ctx context.Context) (Directory, error) {
	dir, err := f.Tree.Root(ctx)
	return failingDir{dir, f}, err
}

type failingDir struct {
	Directory
	f failing
}

func (d failingDir) Dir(ctx context.Context, n *Node) (Directory, error) {
	if err := d.f.errs[n.Name]; err != nil {
		return nil, err
	}
	dir, err := d.Directory.Dir(ctx, n)
	return failingDir{dir, d.f}, err
}

// find is for several at once, unlike Nodes.
func (d failingDir) find(ctx context.Context, name string) (*Node, error) {
	return findNode(ctx, d.Directory, name)
}

func (d failingDir) Open(ctx context.Context, n *Node) (io.ReadCloser, error) {
	if d.f.each != nil {
		d.f.each(n.Name)
	}
	err := d.f.errs[n.Name]
	if err == nil {
		return d.Directory.Open(ctx, n)
	}
	if strings.HasPrefix(n.Name, "read") {
		return io.NopCloser(iotest.ErrReader(err)), nil
	}
	return nil, err
}

// TestMissingFilesAreNamed: a file that can't be opened or read is not in the
// snapshot, and the snapshot says so.
func TestMissingFilesAreNamed(t *testing.T) {
	dir := plant(t, map[string]string{"a": "1", "open": "1", "read": "1", "sub/read-too": "1", "locked/b": "1", "gone": "1", "turned": "1"})
	tree := failing{Tree: HostDir(dir, nil), errs: map[string]error{
		"open": fault.NotFound, "read": fault.InvalidArgument, "read-too": fault.Conflict, "locked": fault.NotFound,
	}, each: func(name string) {
		switch name {
		case "gone":
			must0(t, os.Remove(filepath.Join(dir, name)))
		case "turned":
			must0(t, os.Remove(filepath.Join(dir, name)))
			must0(t, os.Mkdir(filepath.Join(dir, name), 0o755))
		}
	}}
	s := Open(Memory(), nil)
	m, err := s.Take(t.Context(), tree, nil)
	must0(t, err)
	want := []driver.Skip{
		{Path: "gone", Reason: driver.SkipVanished}, {Path: "locked", Reason: driver.SkipUnreadable}, {Path: "open", Reason: driver.SkipUnreadable},
		{Path: "read", Reason: driver.SkipUnreadable}, {Path: "sub/read-too", Reason: driver.SkipUnreadable}, {Path: "turned", Reason: driver.SkipVanished},
	}
	if diff := cmp.Diff(want, m.Missing); diff != "" || m.MissingTotal != 6 || m.Files != 1 {
		t.Errorf("%d files, %d missing, want 1 and 6; -want +got:\n%s", m.Files, m.MissingTotal, diff)
	}
	got, err := s.Get(t.Context(), m.ID)
	must0(t, err)
	if diff := cmp.Diff(want, got.Missing); diff != "" || got.MissingTotal != 6 {
		t.Errorf("the manifest has %d missing; -want +got:\n%s", got.MissingTotal, diff)
	}
	copied, err := s.Copy(t.Context(), m.ID, Open(Memory(), nil), nil)
	must0(t, err)
	if diff := cmp.Diff(want, copied.Missing); diff != "" || copied.MissingTotal != 6 {
		t.Errorf("a copy has %d missing; -want +got:\n%s", copied.MissingTotal, diff)
	}
}

func TestManyMissingFiles(t *testing.T) {
	files, errs := map[string]string{}, map[string]error{}
	for i := range driver.MaxMissingListed + 5 {
		name := fmt.Sprint("f", i)
		files[name], errs[name] = "x", fault.NotFound
	}
	m, err := Open(Memory(), nil).Take(t.Context(), failing{Tree: HostDir(plant(t, files), nil), errs: errs}, nil)
	must0(t, err)
	if len(m.Missing) != driver.MaxMissingListed || m.MissingTotal != driver.MaxMissingListed+5 {
		t.Errorf("%d of %d are named", len(m.Missing), m.MissingTotal)
	}
}

// TestCompleteSnapshot fails where a file can't be in it, and leaves no snapshot.
func TestCompleteSnapshot(t *testing.T) {
	for _, tt := range []struct {
		name string
		hurt func(f *failing, dir string)
		want fault.Code
	}{
		{"nothing", func(*failing, string) {}, ""},
		{"unreadable", func(f *failing, _ string) { f.errs = map[string]error{"b": fault.InvalidArgument} }, fault.Unavailable},
		{"unreadable directory", func(f *failing, _ string) { f.errs = map[string]error{"sub": fault.NotFound} }, fault.Unavailable},
		{"vanished", func(f *failing, dir string) {
			f.each = func(name string) {
				if name == "b" {
					os.Remove(filepath.Join(dir, name))
				}
			}
		}, fault.Conflict},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := plant(t, map[string]string{"a": "1", "b": "1", "sub/c": "1"})
			f := failing{Tree: HostDir(dir, nil)}
			tt.hurt(&f, dir)
			s := Open(Memory(), nil)
			_, err := s.Take(t.Context(), f, &TakeOptions{Complete: true})
			if fault.Of(err) != tt.want {
				t.Errorf("Take: %v, want %v", err, tt.want)
			}
			list, err := s.List(t.Context())
			must0(t, err)
			if wrote := len(list) > 0; wrote != (tt.want == "") {
				t.Errorf("the store has %d snapshots", len(list))
			}
		})
	}
}

// TestSkipDenied leaves out, and names, what the user may not read; without the option that is
// an error.
func TestSkipDenied(t *testing.T) {
	tree := failing{Tree: HostDir(plant(t, map[string]string{"a": "1", "b": "1", "sub/c": "1"}), nil), errs: map[string]error{"b": fault.PermissionDenied, "sub": fault.PermissionDenied}}
	if _, err := Open(Memory(), nil).Take(t.Context(), tree, nil); fault.Of(err) != fault.PermissionDenied {
		t.Errorf("Take: %v, want %v", err, fault.PermissionDenied)
	}
	m, err := Open(Memory(), nil).Take(t.Context(), tree, &TakeOptions{SkipDenied: true})
	must0(t, err)
	want := []driver.Skip{{Path: "b", Reason: driver.SkipUnreadable}, {Path: "sub", Reason: driver.SkipUnreadable}}
	if diff := cmp.Diff(want, m.Missing); diff != "" || m.Files != 1 {
		t.Errorf("%d files, missing (-want +got):\n%s", m.Files, diff)
	}
}

// TestSparseFile takes and restores a large file that is mostly a hole, with
// bounded memory. CROFT_SNAPSHOT_SPARSE is its size in MiB.
func TestSparseFile(t *testing.T) {
	size := int64(rounds("CROFT_SNAPSHOT_SPARSE", 256)) << 20
	dir, out := t.TempDir(), t.TempDir()
	f, err := os.Create(filepath.Join(dir, "disk.img"))
	must0(t, err)
	_, err = f.WriteAt([]byte("in the middle"), size/2+12345)
	must0(t, err)
	must0(t, f.Truncate(size))
	must0(t, f.Close())
	s := Open(Dir(filepath.Join(t.TempDir(), "store")), nil)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	m := take(t, s, dir, nil)
	must0(t, Extract(t.Context(), s.StoredTree(m.Root), out, nil))
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 64<<20 {
		t.Errorf("it took %d MiB of memory", used>>20)
	}
	var st syscall.Stat_t
	must0(t, syscall.Stat(filepath.Join(out, "disk.img"), &st))
	if st.Size != size || st.Blocks*512 > 4<<20 {
		t.Errorf("the restored file has %d bytes and takes %d", st.Size, st.Blocks*512)
	}
	got, err := Digest(t.Context(), HostDir(out, nil))
	must0(t, err)
	if got != m.Digest {
		t.Errorf("the restored file differs")
	}
}

// TestSparseApply: Apply keeps the holes of a file, and Undo takes it back.
func TestSparseApply(t *testing.T) {
	const size = 64<<20 + 1
	dir, to := t.TempDir(), t.TempDir()
	path := filepath.Join(dir, "holes")
	must0(t, os.WriteFile(path, nil, 0o644))
	must0(t, os.Truncate(path, size))
	s := Open(Dir(filepath.Join(t.TempDir(), "store")), nil)
	m := take(t, s, dir, nil)
	res, err := Apply(t.Context(), Empty, Files(Module(s.StoredTree(m.Root))), to, &ApplyOptions{Undo: s})
	must0(t, err)
	var st syscall.Stat_t
	must0(t, syscall.Stat(filepath.Join(to, "holes"), &st))
	if st.Size != size || st.Blocks*512 > 4<<20 {
		t.Errorf("the applied file has %d bytes and takes %d", st.Size, st.Blocks*512)
	}
	for _, tree := range []Tree{HostDir(to, nil), HostDir(dir, nil)} {
		if got, err := Digest(t.Context(), tree); err != nil || got != m.Digest {
			t.Errorf("the file has the digest %s, %v; want %s", got, err, m.Digest)
		}
	}
	_, err = Undo(t.Context(), s, res.Undo, to, nil)
	must0(t, err)
}

// TestHolesAreBounded: a file of a workspace with huge holes is refused at once, and named.
func TestHolesAreBounded(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "holes")
	must0(t, os.WriteFile(path, []byte("data"), 0o644))
	must0(t, os.Truncate(path, maxHoles+1<<20))
	_, err := inPlaceAdapter(t, dir, nil).Snapshot(t.Context(), &driver.SnapshotOptions{})
	if fault.Of(err) != fault.ResourceExhausted || !strings.Contains(err.Error(), "holes") {
		t.Errorf("Snapshot: %v, want %v", err, fault.ResourceExhausted)
	}
}

// TestDamageIsFound flips a bit in every file of a store, one after another, at
// several places: Check and every read must return an error.
func TestDamageIsFound(t *testing.T) {
	dir := plant(t, map[string]string{"a": "some text\n", "dir/b": strings.Repeat("other text\n", 1000), "dir/c": "-> a"})
	must0(t, os.WriteFile(filepath.Join(dir, "big"), bytes.Repeat([]byte("0123456789abcdef"), 100_000), 0o644))
	store := filepath.Join(t.TempDir(), "store")
	m := take(t, Open(Dir(store), nil), dir, nil)
	want := describe(t, HostDir(dir, nil))
	for _, kind := range []string{kindPacks, kindSnapshots} {
		entries, err := os.ReadDir(filepath.Join(store, kind))
		must0(t, err)
		path := filepath.Join(store, kind, entries[0].Name())
		good, err := os.ReadFile(path)
		must0(t, err)
		for i := range 40 {
			at := i * (len(good) - 1) / 39
			bad := bytes.Clone(good)
			bad[at] ^= 0x10
			must0(t, os.WriteFile(path, bad, 0o600))
			s := Open(Dir(store), nil)
			r, err := s.Check(t.Context())
			must0(t, err)
			if r.OK() {
				t.Errorf("%s: a bit at %d of %d flipped, and Check found nothing", kind, at, len(good))
			}
			out := t.TempDir()
			tree, _, err := s.Tree(t.Context(), m.ID)
			if err == nil {
				err = Extract(t.Context(), tree, out, nil)
			}
			if err == nil { // what begins a pack is not read
				if diff := cmp.Diff(want, describe(t, HostDir(out, nil))); diff != "" {
					t.Fatalf("%s: a bit at %d flipped, and this was restored:\n%s", kind, at, diff)
				}
				if kind != kindPacks || at >= len(packMagic) {
					t.Errorf("%s: a bit at %d flipped, and it was restored all the same", kind, at)
				}
			} else if fault.CauseOf(err) != fault.CauseCorrupt {
				t.Errorf("%s: a bit at %d: %v, which has not the cause corrupt", kind, at, err)
			}
			s.GC(t.Context())
			if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, bad) {
				t.Fatalf("%s: a bit at %d: gc touched what a snapshot needs: %v", kind, at, err)
			}
		}
		must0(t, os.WriteFile(path, good[:len(good)/2], 0o600))
		if r, err := Open(Dir(store), nil).Check(t.Context()); err != nil || r.OK() {
			t.Errorf("%s: cut in half: %+v, %v", kind, r, err)
		}
		must0(t, os.WriteFile(path, good, 0o600))
	}
	sound(t, Open(Dir(store), nil))
}

func TestGCAndRetention(t *testing.T) {
	store := filepath.Join(t.TempDir(), "store")
	s := Open(Dir(store), nil)
	var all []*Manifest
	var want [][]string
	for i := range 24 {
		dir := plant(t, map[string]string{"common": strings.Repeat("common\n", 100), "own": strconv.Itoa(i), "bulk": randomBytes(uint64(i), 50_000)})
		m := take(t, s, dir, &TakeOptions{Info: driver.SnapshotInfo{Workspace: strconv.Itoa(i % 2)}})
		all, want = append(all, m), append(want, describe(t, HostDir(dir, nil)))
	}
	gone, err := s.Prune(t.Context(), Retention{Keep: 3}, func(m *Manifest) bool { return m.Workspace == "1" })
	must0(t, err)
	if len(gone) != 9 {
		t.Errorf("%d were pruned, want 9", len(gone))
	}
	if gone, err := s.Prune(t.Context(), Retention{Keep: 1, MaxAge: time.Hour}, nil); err != nil || len(gone) != 0 {
		t.Errorf("what is younger than an hour was pruned: %v, %v", gone, err)
	}
	_, before := diskUse(t, store)
	res, err := s.GC(t.Context())
	must0(t, err)
	_, after := diskUse(t, store)
	if before-after < 9*50_000 || res.Freed < 9*50_000 {
		t.Errorf("gc freed %d bytes and says %+v", before-after, res)
	}
	if res.Packs > 3 {
		t.Errorf("gc left %d packs of %d; small ones are to be joined", res.Packs, len(all))
	}
	fresh := Open(Dir(store), nil)
	if r := sound(t, fresh); r.Snapshots != 15 || r.Unneeded != 0 {
		t.Errorf("after gc: %+v", r)
	}
	for i, m := range all {
		tree, _, err := fresh.Tree(t.Context(), m.ID)
		if fault.Of(err) == fault.NotFound && i%2 == 1 {
			continue
		}
		must0(t, err)
		if diff := cmp.Diff(want[i], describe(t, tree)); diff != "" {
			t.Errorf("snapshot %d after gc:\n%s", i, diff)
		}
		if diff := cmp.Diff(want[i], describe(t, s.StoredTree(m.Root))); diff != "" {
			t.Errorf("snapshot %d after gc, by the one who did it:\n%s", i, diff)
		}
	}
}

func randomBytes(seed uint64, n int) string {
	r := rand.New(rand.NewPCG(seed, 1))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return string(b)
}

// noLocks hides that a backend can be locked, as a bucket can't.
type noLocks struct{ Backend }

// age makes all that a backend in memory holds older.
func (b *memoryBackend) age(by time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, o := range b.objects {
		b.objects[name] = memoryObject{o.data, o.when.Add(-by)}
	}
}

// TestGCWithoutLocks: what a snapshot that is being taken builds on is not removed
// under it, and what nobody needs goes after the grace period.
func TestGCWithoutLocks(t *testing.T) {
	memory := &memoryBackend{objects: map[string]memoryObject{}}
	be := noLocks{memory}
	const grace = time.Hour // nobody waits for it: what is there is made older
	s, other := Open(be, &Options{Grace: grace}), Open(be, &Options{Grace: grace})
	dir := plant(t, map[string]string{"f": randomBytes(1, 10_000)})
	m := take(t, s, dir, nil)
	must0(t, s.Delete(t.Context(), m.ID))
	w, err := s.newWriter(t.Context())
	must0(t, err)
	_, late, err := w.archive(t.Context(), HostDir(dir, nil), &TakeOptions{}) // builds on what is there
	must0(t, err)
	must0(t, w.flush(t.Context()))
	res, err := other.GC(t.Context())
	must0(t, err)
	if res.Condemned != 1 || res.Removed != 0 {
		t.Errorf("the first gc: %+v, want one condemned", res)
	}
	must0(t, w.checkGrace())
	must0(t, s.publishManifest(t.Context(), late))
	w.close()
	memory.age(grace)
	res, err = other.GC(t.Context())
	must0(t, err)
	if res.Removed != 0 {
		t.Errorf("gc removed what a snapshot needs: %+v", res)
	}
	sound(t, other)
	must0(t, s.Delete(t.Context(), late.ID))
	if _, err = other.GC(t.Context()); err != nil {
		t.Fatal(err)
	}
	again := take(t, s, dir, nil) // must not build on what is condemned
	memory.age(grace)
	if res, err = other.GC(t.Context()); err != nil || res.Removed != 1 {
		t.Errorf("after the grace period: %+v, %v, want one removed", res, err)
	}
	sound(t, other)
	if diff := cmp.Diff(describe(t, HostDir(dir, nil)), describe(t, s.StoredTree(again.Root))); diff != "" {
		t.Error(diff)
	}
	slow, err := s.newWriter(t.Context())
	must0(t, err)
	slow.started = slow.started.Add(-grace)
	if err := slow.checkGrace(); fault.Of(err) != fault.Conflict {
		t.Errorf("a snapshot that took too long: %v, want Conflict", err)
	}
	slow.close()
}

// TestManyWriters takes snapshots in several stores at once, while gc runs.
func TestManyWriters(t *testing.T) {
	base := t.TempDir()
	store := filepath.Join(base, "store")
	ctx, cancel := context.WithCancel(t.Context())
	var wg, gc sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			s := Open(Dir(store), nil)
			r := rand.New(rand.NewPCG(uint64(i), 9))
			dir := filepath.Join(base, strconv.Itoa(i))
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Error(err)
			}
			for range 8 {
				budget := 10
				grow(t, r, dir, &budget, 3)
				m, err := s.Take(t.Context(), HostDir(dir, nil), nil)
				if err != nil {
					t.Error(err)
					return
				}
				if r.IntN(2) == 0 {
					if err := s.Delete(t.Context(), m.ID); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	gc.Go(func() {
		s := Open(Dir(store), nil)
		for ctx.Err() == nil {
			if _, err := s.GC(ctx); err != nil && ctx.Err() == nil {
				t.Errorf("gc: %v", err)
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
	wg.Wait()
	cancel()
	gc.Wait()
	sound(t, Open(Dir(store), nil))
}

func TestTakeIsAllOrNothing(t *testing.T) {
	s := Open(Memory(), nil)
	dir := plant(t, map[string]string{"a": "x"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Take(ctx, HostDir(dir, nil), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled take: %v", err)
	}
	if _, err := s.Take(t.Context(), HostDir(filepath.Join(dir, "nowhere"), nil), nil); fault.Of(err) != fault.NotFound {
		t.Errorf("a tree that is not there: %v", err)
	}
	if list, err := s.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("there are %d snapshots, %v", len(list), err)
	}
	if _, err := s.Get(t.Context(), "../../etc/passwd"); fault.Of(err) != fault.NotFound {
		t.Errorf("a snapshot that is no id: %v", err)
	}
}

// full is a backend that has no room.
type full struct{ Backend }

func (b full) Create(ctx context.Context, name string) (Pending, error) {
	p, err := b.Backend.Create(ctx, name)
	return fullObject{p}, err
}

type fullObject struct{ Pending }

func (fullObject) Write([]byte) (int, error) {
	return 0, fmt.Errorf("no room is left: %w", fault.ResourceExhausted)
}

// TestTakeSaysWhatFailed: other goroutines write blocks. If one fails, the goroutines that
// read return its error, and not only that the work was ended.
func TestTakeSaysWhatFailed(t *testing.T) {
	files := map[string]string{}
	for i := range 8 {
		files[strconv.Itoa(i)] = randomBytes(uint64(i), ChunkSize)
	}
	s := Open(full{Memory()}, nil)
	if _, err := s.Take(t.Context(), HostDir(plant(t, files), nil), nil); fault.Of(err) != fault.ResourceExhausted {
		t.Errorf("without room: %v, want %v", err, fault.ResourceExhausted)
	}
}

func FuzzDecodeTree(f *testing.F) {
	f.Add(encodeTree(nil))
	f.Add(encodeTree([]Node{{Name: "a", Type: driver.TypeFile, Mode: 0o644, Size: 5, ModTime: time.Unix(1, 2), Xattrs: []Xattr{{"user.x", []byte("y")}}}, {Name: "b", Type: driver.TypeDir, Opaque: true}, {Name: "c", Type: driver.TypeSymlink, Target: "a"}, {Name: "d", Type: TypeWhiteout}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		nodes, err := decodeTree(data)
		if err != nil {
			return
		}
		if again := encodeTree(nodes); !bytes.Equal(again, data) {
			t.Errorf("%x decodes to %+v, which is %x", data, nodes, again)
		}
	})
}

func FuzzDecodeFooter(f *testing.F) {
	foot := footer{blocks: []packBlock{{size: 10, raw: 20}}, entries: []entry{{block: 0, off: 5, size: 15}}}
	f.Add(foot.encode(), int64(18))
	f.Fuzz(func(t *testing.T, data []byte, end int64) {
		got, err := decodeFooter(data, end)
		if err != nil {
			return
		}
		for _, e := range got.entries {
			if b := got.blocks[e.block]; e.off+e.size > b.raw || b.off+b.size > end {
				t.Errorf("out of bounds: %+v in %+v", e, b)
			}
		}
	})
}

func FuzzDecodeManifest(f *testing.F) {
	good, _ := encodeManifest(&Manifest{})
	f.Add(good)
	f.Fuzz(func(t *testing.T, data []byte) {
		if m, err := decodeManifest(data); err == nil {
			if _, err := encodeManifest(m); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestPathsWithoutEnd: directories in directories, thousands deep, would take memory
// that grows with the square of that. Far beyond what can be named they are refused,
// in words that can be read.
func TestPathsWithoutEnd(t *testing.T) {
	deep := func(levels int) string {
		dir := t.TempDir()
		at, err := os.OpenRoot(dir)
		must0(t, err)
		for range levels {
			must0(t, at.Mkdir(strings.Repeat("n", 200), 0o755))
			next, err := at.OpenRoot(strings.Repeat("n", 200))
			must0(t, err)
			must0(t, at.Close())
			at = next
		}
		must0(t, at.Close())
		return dir
	}
	s := Open(Memory(), nil)
	take(t, s, deep(60), nil)
	tree := HostDir(deep(100), nil)
	_, err := s.Take(t.Context(), tree, nil)
	_, walked := Digest(t.Context(), tree)
	_, compared := Diff(t.Context(), Empty, tree, nil)
	for _, err := range []error{err, walked, compared} {
		if fault.Of(err) != fault.ResourceExhausted || len(err.Error()) > 1000 {
			t.Errorf("%v, want %v in few words", err, fault.ResourceExhausted)
		}
	}
}

// TestFileOfHoles: a file that takes no room can have any size, and to read it may
// take days.
func TestFileOfHoles(t *testing.T) {
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "holes"))
	must0(t, err)
	defer f.Close()
	if err := f.Truncate(3 << 40); err != nil {
		t.Skipf("skipped: host: the file system of %s has no files of 3 TiB: %v", dir, err)
	}
	s := Open(Memory(), nil)
	if _, err := s.Take(t.Context(), HostDir(dir, nil), nil); fault.Of(err) != fault.ResourceExhausted {
		t.Errorf("%v, want %v", err, fault.ResourceExhausted)
	}
	must0(t, f.Truncate(20<<20))
	take(t, s, dir, nil)
}
