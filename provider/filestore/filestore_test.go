package filestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
	"github.com/croft-run/croft/workspace/workspacetest"
)

// leftovers lists what the store in dir holds of any workspace.
func leftovers(t testing.TB, dir string) []string {
	t.Helper()
	p := newProvider(t, &Config{Dir: dir})
	s, err := p.openedStore(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	err = s.view(t.Context(), func(tx *tx) error {
		for _, table := range []string{"workspace", "node", "content", "pending", "garbage"} {
			var n int
			if err := tx.QueryRowContext(t.Context(), "SELECT count(*) FROM "+table).Scan(&n); err != nil {
				return err
			}
			if n > 0 {
				left = append(left, fmt.Sprintf("%d rows in %s", n, table))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return append(left, objectFiles(t, dir)...)
}

func objectFiles(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "filestore", "objects"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func newProvider(t testing.TB, cfg *Config) *Provider {
	t.Helper()
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func harness(cfg Config) workspacetest.Harness {
	return workspacetest.Harness{
		Provider: func(t testing.TB, dir string) driver.Provider {
			c := cfg
			c.Dir = dir
			c.Snapshots = snapshot.Open(snapshot.Dir(filepath.Join(dir, "store")), nil)
			return newProvider(t, &c)
		},
		Leftovers: leftovers,
	}
}

//croft:slow-race ^(Concurrency|Watch)
func TestConformance(t *testing.T) { workspacetest.Run(t, harness(Config{})) }

func BenchmarkConformance(b *testing.B) { workspacetest.Bench(b, harness(Config{})) }

// TestConformanceSpilled runs the suite with every content in the bucket.
//
//croft:slow
//croft:slow-race ^(Concurrency|Watch)
func TestConformanceSpilled(t *testing.T) {
	workspacetest.Run(t, harness(Config{InlineThreshold: -1}))
}

func open(t testing.TB, p *Provider, mods ...func(*driver.Spec)) *driver.Workspace {
	t.Helper()
	spec := driver.Spec{ID: driver.NewID(), Kind: Kind}
	for _, mod := range mods {
		mod(&spec)
	}
	ws, err := p.Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := ws.Validate(nil); err != nil {
		t.Fatal(err)
	}
	return ws
}

func write(t testing.TB, ws *driver.Workspace, name string, data []byte) driver.WriteResult {
	t.Helper()
	res, err := ws.FS.Write(t.Context(), name, bytes.NewReader(data), &driver.WriteOptions{Parents: true})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func read(t testing.TB, ws *driver.Workspace, name string, opts driver.ReadOptions) []byte {
	t.Helper()
	body, _, err := ws.FS.Read(t.Context(), name, &opts)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func wantCode(t testing.TB, what string, err error, want fault.Code) {
	t.Helper()
	if got := fault.Of(err); got != want {
		t.Errorf("%s: got %q (%v), want %q", what, got, err, want)
	}
}

func TestThresholdDecidesWhereContentGoes(t *testing.T) {
	dir := t.TempDir()
	p := newProvider(t, &Config{Dir: dir, InlineThreshold: 1000})
	ws := open(t, p)
	for size, want := range map[int]int{0: 0, 1: 0, 999: 0, 1000: 0, 1001: 1, 5000: 1} {
		data := bytes.Repeat([]byte("x"), size)
		write(t, ws, "f", data)
		if got := len(objectFiles(t, dir)); got != want {
			t.Errorf("%d bytes: %d objects, want %d", size, got, want)
		}
		if got := read(t, ws, "f", driver.ReadOptions{}); !bytes.Equal(got, data) {
			t.Errorf("%d bytes: read %d back", size, len(got))
		}
		for _, r := range []driver.ReadOptions{{Offset: 1}, {Limit: 2}, {Offset: 998, Limit: 10}, {Offset: 1 << 40}, {Offset: int64(size)}} {
			from := min(r.Offset, int64(size))
			to := int64(size)
			if r.Limit > 0 {
				to = min(to, from+r.Limit)
			}
			if got := read(t, ws, "f", r); !bytes.Equal(got, data[from:to]) {
				t.Errorf("%d bytes, %+v: read %d bytes, want %d", size, r, len(got), to-from)
			}
		}
	}
	if err := ws.Life.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := leftovers(t, dir); len(left) > 0 {
		t.Errorf("left over: %q", left)
	}
}

func TestDefaultThreshold(t *testing.T) {
	dir := t.TempDir()
	ws := open(t, newProvider(t, &Config{Dir: dir}))
	write(t, ws, "inside", make([]byte, 1_500_000))
	if got := objectFiles(t, dir); len(got) != 0 {
		t.Errorf("1.5 MB made objects: %q", got)
	}
	write(t, ws, "outside", make([]byte, 1_500_001))
	if got := objectFiles(t, dir); len(got) != 1 {
		t.Errorf("a byte more than 1.5 MB made objects %q, want one", got)
	}
}

func TestNamespaceRules(t *testing.T) {
	tests := []struct {
		session, config, want string // want "" is refused
	}{
		{"abc", "", "abc"},
		{"A_1", "", "A_1"},
		{"1a", "", "s_3161"},
		{"a-b", "", "s_612d62"},
		{"_a", "", "s_5f61"},
		{"ä", "", "s_c3a4"},
		{"abc", `{"namespace":"team_a"}`, "team_a"},
		{"abc", `{"namespace":"1a"}`, ""},
		{"abc", `{"namespace":""}`, ""},
		{"abc", `{"namespace":"a-b"}`, ""},
		{"abc", `{"namespace":"a/../b"}`, ""},
		{"abc", `{"namespace":7}`, ""},
		{"abc", `{"name":"x"}`, ""},
	}
	dir := t.TempDir()
	p := newProvider(t, &Config{Dir: dir, InlineThreshold: -1})
	for _, tt := range tests {
		t.Run(tt.session+tt.config, func(t *testing.T) {
			spec := driver.Spec{ID: driver.NewID(), Kind: Kind, Session: driver.SessionRef{ID: tt.session}, Config: []byte(tt.config)}
			ws, err := p.Open(t.Context(), spec)
			if tt.want == "" {
				wantCode(t, "Open", err, fault.InvalidArgument)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			write(t, ws, "f", []byte("x"))
			names := objectFiles(t, dir)
			if len(names) != 1 || !strings.Contains(names[0], "."+tt.want+"."+spec.ID+".") {
				t.Errorf("the object is %q, want the namespace %q in it", names, tt.want)
			}
			if err := ws.Life.Destroy(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestOneNamespaceSharesNothing(t *testing.T) {
	p := newProvider(t, &Config{Dir: t.TempDir()})
	in := func(s *driver.Spec) { s.Config = []byte(`{"namespace":"same"}`) }
	a, b := open(t, p, in), open(t, p, in)
	write(t, a, "secret", []byte("x"))
	_, err := b.FS.Stat(t.Context(), "secret", &driver.StatOptions{})
	wantCode(t, "Stat in the other workspace", err, fault.NotFound)
}

func TestReaderOutlivesWhatItReads(t *testing.T) {
	p := newProvider(t, &Config{Dir: t.TempDir(), InlineThreshold: 10})
	ws := open(t, p)
	old := bytes.Repeat([]byte("old"), 100_000)
	write(t, ws, "f", old)
	body, _, err := ws.FS.Read(t.Context(), "f", &driver.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	write(t, ws, "f", []byte("something new, large enough"))
	got, err := io.ReadAll(body)
	if err != nil || !bytes.Equal(got, old) {
		t.Errorf("a reader of what was replaced got %d bytes and %v, want all %d", len(got), err, len(old))
	}
}

func TestCopySharesObjectsUntilTheLastIsGone(t *testing.T) {
	dir := t.TempDir()
	ws := open(t, newProvider(t, &Config{Dir: dir, InlineThreshold: 10}))
	data := bytes.Repeat([]byte("large"), 1000)
	write(t, ws, "a/f", data)
	if err := ws.FS.Copy(t.Context(), "a", "b", &driver.CopyOptions{Recursive: true}); err != nil {
		t.Fatal(err)
	}
	if got := objectFiles(t, dir); len(got) != 1 {
		t.Errorf("a copy made the objects %q, want them shared", got)
	}
	if err := ws.FS.Remove(t.Context(), "a", &driver.RemoveOptions{Recursive: true}); err != nil {
		t.Fatal(err)
	}
	if got := read(t, ws, "b/f", driver.ReadOptions{}); !bytes.Equal(got, data) {
		t.Errorf("the copy has %d bytes after the original is gone, want %d", len(got), len(data))
	}
	write(t, ws, "b/f", []byte("small"))
	if got := objectFiles(t, dir); len(got) != 0 {
		t.Errorf("objects are left: %q", got)
	}
}

func TestAnotherBoot(t *testing.T) {
	dir := t.TempDir()
	at := func(boot string) *Provider { return newProvider(t, &Config{Dir: dir, BootID: boot}) }
	plain := open(t, at("one"))
	durable := open(t, at("one"), func(s *driver.Spec) { s.Policy.Durable = true })
	if plain.Traits.Damaged != "" || durable.Traits.Damaged != "" {
		t.Errorf("new workspaces may be damaged: %q, %q", plain.Traits.Damaged, durable.Traits.Damaged)
	}
	resolve := func(boot string, ref driver.Ref, want bool) *driver.Workspace {
		t.Helper()
		ws, err := at(boot).Resolve(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		if got := ws.Traits.Damaged != ""; got != want {
			t.Errorf("in boot %s Damaged is %q, want any: %v", boot, ws.Traits.Damaged, want)
		}
		return ws
	}
	resolve("one", plain.Ref, false)
	resolve("two", durable.Ref, false)
	// To become durable does not undo what may have happened.
	ref, err := resolve("two", plain.Ref, true).Life.Update(t.Context(), driver.Policy{Durable: true})
	if err != nil {
		t.Fatal(err)
	}
	resolve("two", ref, true)
	// And one that was durable all the time is not harmed by having been so.
	ref, err = resolve("two", durable.Ref, false).Life.Update(t.Context(), driver.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	resolve("two", ref, false)
	resolve("three", ref, true)
}

func TestEveryHandleObeysThePolicy(t *testing.T) {
	dir := t.TempDir()
	ws := open(t, newProvider(t, &Config{Dir: dir}))
	other, err := newProvider(t, &Config{Dir: dir}).Resolve(t.Context(), ws.Ref)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ws.Life.Update(t.Context(), driver.Policy{ReadOnly: true}); err != nil {
		t.Fatal(err)
	}
	_, err = other.FS.Write(t.Context(), "f", strings.NewReader("x"), &driver.WriteOptions{})
	wantCode(t, "Write by an older handle", err, fault.PermissionDenied)
	if err := ws.Life.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err = other.FS.Stat(t.Context(), ".", &driver.StatOptions{})
	wantCode(t, "Stat after Destroy", err, fault.Evicted)
}

func TestForeignObjectsAreKept(t *testing.T) {
	dir := t.TempDir()
	p := newProvider(t, &Config{Dir: dir})
	open(t, p)
	foreign := filepath.Join(dir, "filestore", "objects", "somebody.elses")
	if err := os.WriteFile(foreign, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.Sweep(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Errorf("Sweep removed what it did not make: %v", err)
	}
}

func TestSymlinks(t *testing.T) {
	ws := open(t, newProvider(t, &Config{Dir: t.TempDir()}))
	write(t, ws, "dir/file", []byte("content"))
	ctx := t.Context()
	for target, want := range map[string]fault.Code{
		"dir/file": "", "dir/../dir/file": "", "nothing/yet": "",
		"../x": fault.SandboxViolation, "/etc/passwd": fault.SandboxViolation, "dir/../../x": fault.SandboxViolation, "": fault.InvalidArgument,
	} {
		wantCode(t, "Symlink to "+target, ws.FS.Symlink(ctx, target, "link"), want)
		ws.FS.Remove(ctx, "link", &driver.RemoveOptions{})
	}
	for link, target := range map[string]string{"dir/up": "..", "loop1": "loop2", "loop2": "loop1", "deep": "dir/up/dir/file"} {
		if err := ws.FS.Symlink(ctx, target, link); err != nil {
			t.Fatal(err)
		}
	}
	if got := read(t, ws, "deep", driver.ReadOptions{}); string(got) != "content" {
		t.Errorf("through symlinks: %q", got)
	}
	_, err := ws.FS.Stat(ctx, "loop1", &driver.StatOptions{})
	wantCode(t, "Stat of a loop", err, fault.InvalidArgument)
	wantCode(t, "Symlink that leaves through another", ws.FS.Symlink(ctx, "dir/up/../x", "out"), fault.SandboxViolation)
	// A link that stays inside where it is made may leave when its directory moves.
	if err := ws.FS.Rename(ctx, "dir/up", "up", &driver.RenameOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err = ws.FS.Stat(ctx, "up", &driver.StatOptions{})
	wantCode(t, "Stat of a link that leaves since it was moved", err, fault.SandboxViolation)
	_, err = ws.FS.Write(ctx, "up/f", strings.NewReader("x"), &driver.WriteOptions{Parents: true})
	wantCode(t, "Write through it", err, fault.SandboxViolation)
}

func TestDiskLimit(t *testing.T) {
	ws := open(t, newProvider(t, &Config{Dir: t.TempDir(), InlineThreshold: 100}), func(s *driver.Spec) { s.Policy.Limits = driver.Limits{driver.ResourceDisk: {Max: 1000}} })
	write(t, ws, "a", make([]byte, 600))
	_, err := ws.FS.Write(t.Context(), "b", bytes.NewReader(make([]byte, 600)), &driver.WriteOptions{})
	wantCode(t, "Write beyond the limit", err, fault.ResourceExhausted)
	wantCode(t, "Copy beyond the limit", ws.FS.Copy(t.Context(), "a", "b", &driver.CopyOptions{}), fault.ResourceExhausted)
	_, err = ws.FS.Stat(t.Context(), "b", &driver.StatOptions{})
	wantCode(t, "Stat of what was refused", err, fault.NotFound)
	write(t, ws, "a", make([]byte, 1000))
}

func TestCanceledWriteLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	ws := open(t, newProvider(t, &Config{Dir: dir, InlineThreshold: 10}))
	ctx, cancel := context.WithCancel(t.Context())
	body := io.MultiReader(strings.NewReader(strings.Repeat("x", 1<<20)), readerFunc(func([]byte) (int, error) {
		cancel()
		return 0, nil
	}), strings.NewReader("more"))
	_, err := ws.FS.Write(ctx, "f", body, &driver.WriteOptions{})
	wantCode(t, "Write", err, fault.Canceled)
	if got := objectFiles(t, dir); len(got) != 0 {
		t.Errorf("objects are left: %q", got)
	}
	if err := ws.Life.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := leftovers(t, dir); len(left) != 0 {
		t.Errorf("left over: %q", left)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// Nobody else can read what is in the store, whatever the umask was.
func TestDatabaseIsPrivate(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "filestore.db"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	p := newProvider(t, &Config{Dir: dir})
	if _, err := p.openedStore(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"filestore.db", "filestore.db-wal", "filestore.db-shm"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := info.Mode().Perm(), os.FileMode(0o600); got != want {
			t.Errorf("%s has mode %o, want %o", name, got, want)
		}
	}
}

// Nobody has to go through package workspace, which refuses such modes as well.
func TestModesBeyondPermissionsAreRefused(t *testing.T) {
	ws := open(t, newProvider(t, &Config{Dir: t.TempDir()}))
	for _, mode := range []fs.FileMode{0o1777, 0o4755, fs.ModeSetgid | 0o755} {
		_, writeErr := ws.FS.Write(t.Context(), "f", strings.NewReader("x"), &driver.WriteOptions{Mode: mode})
		for verb, err := range map[string]error{
			"write": writeErr,
			"mkdir": ws.FS.Mkdir(t.Context(), "d", &driver.MkdirOptions{Mode: mode}),
			"chmod": ws.FS.Chmod(t.Context(), ".", mode),
		} {
			if fault.Of(err) != fault.InvalidArgument || !strings.Contains(err.Error(), "0o777 at most") {
				t.Errorf("%s with %#o: %v, want InvalidArgument that says what is allowed", verb, uint32(mode), err)
			}
		}
	}
}
