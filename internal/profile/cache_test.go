package profile

import (
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// counting counts what a file system is asked for.
type counting struct {
	fs.FS
	mu          sync.Mutex
	opens       int
	stats       int
	listedCalls int
}

func (c *counting) Open(name string) (fs.File, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opens++
	return c.FS.Open(name)
}

func (c *counting) Stat(name string) (fs.FileInfo, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats++
	return fs.Stat(c.FS, name)
}

func (c *counting) ReadDir(name string) ([]fs.DirEntry, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listedCalls++
	return fs.ReadDir(c.FS, name)
}

func get(t *testing.T, c *Cache, key string, fsys fs.FS) Profile {
	t.Helper()
	p, err := c.Get(key, fsys)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// kept reports whether two profiles are one and the same.
func kept(a, b Profile) bool { return &a.Projects[0] == &b.Projects[0] }

func write(t *testing.T, dir, name, text string, age time.Duration) {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if age > 0 {
		backdate(t, file, age)
	}
}

func backdate(t *testing.T, file string, age time.Duration) {
	t.Helper()
	when := time.Now().Add(-age)
	if err := os.Chtimes(file, when, when); err != nil {
		t.Fatal(err)
	}
}

func TestCacheKeepsWhatDidNotChange(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "package.json", pkg, time.Hour)
	write(t, dir, "src/a.ts", "", time.Hour)
	backdate(t, filepath.Join(dir, "src"), time.Hour)
	backdate(t, dir, time.Hour)
	fsys := &counting{FS: os.DirFS(dir)}
	c := NewCache()
	first := get(t, c, "a", fsys)
	fsys.opens, fsys.stats, fsys.listedCalls = 0, 0, 0
	second := get(t, c, "a", fsys)
	if !kept(first, second) {
		t.Error("detected again though nothing changed")
	}
	if fsys.opens != 0 || fsys.listedCalls != 0 || fsys.stats == 0 {
		t.Errorf("checking cost %d opens, %d listings and %d stats, want stats only", fsys.opens, fsys.listedCalls, fsys.stats)
	}
	if kept(first, get(t, c, "b", fsys)) {
		t.Error("two workspaces share one profile")
	}
	c.Forget("a")
	if kept(first, get(t, c, "a", fsys)) {
		t.Error("a forgotten profile came back")
	}
}

func TestCacheNoticesChanges(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(t *testing.T, dir string)
		stays  bool
	}{
		{"manifest edited", func(t *testing.T, dir string) { write(t, dir, "package.json", script("jest"), 0) }, false},
		{"manifest edited to the same size", func(t *testing.T, dir string) { write(t, dir, "package.json", script("mocha "), time.Minute) }, false},
		{"manifest edited to the same size within a tick", func(t *testing.T, dir string) { write(t, dir, "package.json", script("mocha "), 0) }, false},
		{"lock file appears", func(t *testing.T, dir string) { write(t, dir, "pnpm-lock.yaml", "", 0) }, false},
		{"configuration removed", func(t *testing.T, dir string) { remove(t, dir, "biome.json") }, false},
		{"project appears in a directory that was there", func(t *testing.T, dir string) { write(t, dir, "src/go.mod", "module m\n", 0) }, false},
		{"project appears in a new directory", func(t *testing.T, dir string) { write(t, dir, "new/go.mod", "module m\n", 0) }, false},
		{"manifest written again with the same text", func(t *testing.T, dir string) { write(t, dir, "package.json", script("vitest"), 0) }, true},
		{"source edited", func(t *testing.T, dir string) { write(t, dir, "src/a.ts", "let x", 0) }, true},
		{"source replaced by rename", func(t *testing.T, dir string) {
			write(t, dir, "src/tmp", "let y", 0)
			if err := os.Rename(filepath.Join(dir, "src/tmp"), filepath.Join(dir, "src/a.ts")); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"skipped directory changed", func(t *testing.T, dir string) { write(t, dir, "node_modules/x/package.json", "{}", 0) }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "package.json", script("vitest"), 0)
			write(t, dir, "biome.json", "{}", 0)
			write(t, dir, "src/a.ts", "", 0)
			write(t, dir, "node_modules/y/package.json", "{}", 0)
			cache := NewCache()
			before := get(t, cache, "k", os.DirFS(dir))
			c.change(t, dir)
			after := get(t, cache, "k", os.DirFS(dir))
			if kept(before, after) != c.stays {
				t.Errorf("kept = %t, want %t", kept(before, after), c.stays)
			}
			fresh := detect(t, os.DirFS(dir))
			if d := cmp.Diff(fresh.Projects, after.Projects); d != "" {
				t.Errorf("cached profile differs from a fresh one (-fresh +cached):\n%s", d)
			}
			if !kept(after, get(t, cache, "k", os.DirFS(dir))) {
				t.Error("detected once more though nothing changed since")
			}
		})
	}
}

func remove(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

func TestCacheWithoutTimes(t *testing.T) {
	fsys := tree("package.json", script("vitest"))
	cache := NewCache()
	before := get(t, cache, "k", fsys)
	if !kept(before, get(t, cache, "k", fsys)) {
		t.Error("detected again though nothing changed")
	}
	fsys["package.json"] = &fstest.MapFile{Data: []byte(script("mocha "))}
	if kept(before, get(t, cache, "k", fsys)) {
		t.Error("an edit of the same size went unnoticed")
	}
	fsys["go.mod"] = &fstest.MapFile{Data: []byte("module m\n")}
	if got, _ := get(t, cache, "k", fsys).Primary(); got.Ecosystem != Go {
		t.Errorf("primary = %s, want the module that appeared", got.Ecosystem)
	}
}

func TestCacheDoesNotKeepErrors(t *testing.T) {
	cache := NewCache()
	if _, err := cache.Get("k", unreadable{}); err == nil {
		t.Fatal("no error for a root that can't be read")
	}
	if _, ok := get(t, cache, "k", tree("go.mod", "module m\n")).Primary(); !ok {
		t.Error("no project after the root became readable")
	}
}

func TestCacheSharesOneDetection(t *testing.T) {
	fsys := &counting{FS: tree("go.mod", "module m\n")}
	cache := NewCache()
	profiles := make([]Profile, 50)
	var wg sync.WaitGroup
	for i := range profiles {
		wg.Go(func() { profiles[i], _ = cache.Get("k", fsys) })
	}
	wg.Wait()
	for _, p := range profiles {
		if !kept(profiles[0], p) {
			t.Fatal("callers at once got different profiles")
		}
	}
}

func TestEvidence(t *testing.T) {
	e := detect(t, tree("package.json", "{}", "biome.json", "{}", "src/a.ts", "", "node_modules/x/package.json", "{}")).Evidence
	if d := cmp.Diff([]string{"biome.json", "package.json"}, e.Files); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{".", "src"}, e.Dirs); d != "" {
		t.Errorf("directories (-want +got):\n%s", d)
	}
	for name, want := range map[string]bool{
		"package.json": true, "go.mod": true, "src/go.mod": true, "new/deep/Cargo.toml": true, "App.sln": true, "src": true, "./biome.json": true,
		"src/a.ts": false, "README.md": false, ".golangci.yml": false, "node_modules/x/package.json": false, ".git/config": false,
	} {
		if got := e.Affects(name); got != want {
			t.Errorf("Affects(%s) = %t, want %t", name, got, want)
		}
	}
}

func BenchmarkDetect(b *testing.B) {
	fsys := os.DirFS(bigTree(b))
	for b.Loop() {
		if _, err := Detect(fsys, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCacheGet(b *testing.B) {
	fsys, cache := os.DirFS(bigTree(b)), NewCache()
	for b.Loop() {
		if _, err := cache.Get("k", fsys); err != nil {
			b.Fatal(err)
		}
	}
}

// bigTree is a monorepo of 50 packages in 200 directories, an hour old.
func bigTree(b *testing.B) string {
	dir := b.TempDir()
	put := func(name, text string) {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	put("package.json", `{"workspaces":["packages/*"]}`)
	for i := range 50 {
		p := "packages/p" + string(rune('a'+i%26)) + string(rune('a'+i/26))
		put(p+"/package.json", pkg)
		put(p+"/src/a.ts", "")
		put(p+"/test/a.test.ts", "")
		put(p+"/src/lib/b.ts", "")
	}
	when := time.Now().Add(-time.Hour)
	_ = filepath.WalkDir(dir, func(name string, _ fs.DirEntry, _ error) error { return os.Chtimes(name, when, when) })
	return dir
}
