package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/internal/host/wsdir"
	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
	"github.com/croft-run/croft/workspace/workspacetest"
)

func newProvider(t testing.TB, dir string) *Provider {
	t.Helper()
	p, err := New(&Config{Snapshots: snapshot.Open(snapshot.Dir(filepath.Join(dir, "store")), &snapshot.Options{CacheDir: filepath.Join(dir, "cache")}), Root: filepath.Join(dir, "ws")})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func leftovers(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "ws"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if e.Name() != wsdir.LockName(Kind) {
			names = append(names, e.Name())
		}
	}
	return names
}

var harness = workspacetest.Harness{
	Provider:  func(t testing.TB, dir string) driver.Provider { return newProvider(t, dir) },
	Leftovers: leftovers,
}

//croft:race ^(Concurrency|Shell|Sessions|Watch)
func TestConformance(t *testing.T) { workspacetest.Run(t, harness) }

func BenchmarkConformance(b *testing.B) { workspacetest.Bench(b, harness) }

func spec(mods ...func(*driver.Spec)) driver.Spec {
	s := driver.Spec{ID: driver.NewID(), Kind: Kind}
	for _, mod := range mods {
		mod(&s)
	}
	return s
}

func in(dir string) func(*driver.Spec) { return func(s *driver.Spec) { s.Dir = dir } }

func open(t testing.TB, p *Provider, mods ...func(*driver.Spec)) *driver.Workspace {
	t.Helper()
	ws, err := p.Open(t.Context(), spec(mods...))
	if err != nil {
		t.Fatal(err)
	}
	if err := ws.Validate(nil); err != nil {
		t.Fatal(err)
	}
	return ws
}

func write(t testing.TB, ws *driver.Workspace, name, content string) {
	t.Helper()
	if _, err := ws.FS.Write(t.Context(), name, strings.NewReader(content), &driver.WriteOptions{Parents: true}); err != nil {
		t.Fatal(err)
	}
}

func wantCode(t testing.TB, what string, err error, want fault.Code) {
	t.Helper()
	if got := fault.Of(err); got != want {
		t.Errorf("%s: got %q (%v), want %q", what, got, err, want)
	}
}

func idOf(t testing.TB, ws *driver.Workspace) string {
	t.Helper()
	var pl driver.RefID
	if err := json.Unmarshal(ws.Ref.Payload, &pl); err != nil {
		t.Fatal(err)
	}
	return pl.ID
}

// tree lists a directory of the host, with the content of files.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		found[rel] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestInPlaceDirectoryOutlivesItsWorkspace(t *testing.T) {
	data, dir := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mine"), []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := newProvider(t, data)
	ws := open(t, p, in(dir))
	if ws.Traits.Root != dir {
		t.Errorf("Root is %q, want %q", ws.Traits.Root, dir)
	}
	write(t, ws, "sub/new", "made")
	if err := ws.Life.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"mine": "old", "sub/new": "made"}
	if diff := cmp.Diff(want, tree(t, dir)); diff != "" {
		t.Errorf("after Destroy the directory differs (-want +got):\n%s", diff)
	}
	open(t, p, in(dir))
	if err := p.Sweep(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, tree(t, dir)); diff != "" {
		t.Errorf("after Sweep the directory differs (-want +got):\n%s", diff)
	}
	if left := leftovers(t, data); len(left) != 0 {
		t.Errorf("left over: %q", left)
	}
}

func TestInPlaceRefusals(t *testing.T) {
	data := t.TempDir()
	p := newProvider(t, data)
	other := open(t, p)
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	alias := filepath.Join(dir, "alias")
	if err := os.Symlink(filepath.Join(data, "ws", idOf(t, other)), alias); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(dir, "missing")
	tests := []struct {
		name, dir string
		code      fault.Code
		text      string
	}{
		{"missing", missing, fault.NotFound, "Workspace path does not exist: " + missing},
		{"a file", file, fault.InvalidArgument, "Workspace path is not a directory: " + file},
		{"below a file", filepath.Join(file, "x"), fault.InvalidArgument, ""},
		{"relative", "some/dir", fault.InvalidArgument, "absolute"},
		{"files of another workspace", other.Traits.Root, fault.InvalidArgument, "other workspaces"},
		{"the root", filepath.Join(data, "ws"), fault.InvalidArgument, "other workspaces"},
		{"above the root", data, fault.InvalidArgument, "other workspaces"},
		{"everything", "/", fault.InvalidArgument, "other workspaces"},
		{"a symlink to another workspace", alias, fault.InvalidArgument, "other workspaces"},
	}
	before := leftovers(t, data)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := p.Open(t.Context(), spec(in(tt.dir)))
			wantCode(t, "Open", err, tt.code)
			if err != nil && !strings.Contains(err.Error(), tt.text) {
				t.Errorf("the message is %q, want %q in it", err, tt.text)
			}
		})
	}
	if diff := cmp.Diff(before, leftovers(t, data)); diff != "" {
		t.Errorf("refused opens changed the root (-before +after):\n%s", diff)
	}
}

func TestInPlaceThroughASymlink(t *testing.T) {
	data, dir, elsewhere := t.TempDir(), t.TempDir(), t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	p := newProvider(t, data)
	ws := open(t, p, in(link))
	write(t, ws, "f", "x")
	// The workspace is the directory that the link meant when it was opened.
	if err := errors.Join(os.Remove(link), os.Symlink(elsewhere, link)); err != nil {
		t.Fatal(err)
	}
	again, err := p.Resolve(t.Context(), ws.Ref)
	if err != nil {
		t.Fatal(err)
	}
	write(t, again, "g", "y")
	if diff := cmp.Diff(map[string]string{"f": "x", "g": "y"}, tree(t, dir)); diff != "" {
		t.Errorf("the directory differs (-want +got):\n%s", diff)
	}
	if got := tree(t, elsewhere); len(got) != 0 {
		t.Errorf("the link took the workspace elsewhere: %v", got)
	}
}

func TestInPlaceDirectoryThatVanishes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "project")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	p := newProvider(t, t.TempDir())
	ws := open(t, p, in(dir))
	if err := os.Rename(dir, dir+"-moved"); err != nil {
		t.Fatal(err)
	}
	_, err := ws.FS.Stat(t.Context(), ".", &driver.StatOptions{})
	wantCode(t, "Stat", err, fault.Evicted)
	_, err = p.Resolve(t.Context(), ws.Ref)
	wantCode(t, "Resolve", err, fault.Failed)
	if got := fault.CauseOf(err); got != fault.CauseGone {
		t.Errorf("the cause is %q, want %q", got, fault.CauseGone)
	}
	if strings.Contains(err.Error(), dir) {
		t.Errorf("the message echoes what was stored: %v", err)
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = p.Resolve(t.Context(), ws.Ref)
	wantCode(t, "Resolve where a file is now", err, fault.Failed)
	if fault.CauseOf(err) == fault.CauseGone {
		t.Errorf("a path that is not a directory has the cause gone")
	}
}

func TestOpenAgainWithAnotherDirectory(t *testing.T) {
	p := newProvider(t, t.TempDir())
	s := spec(in(t.TempDir()))
	if _, err := p.Open(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	s.Dir = t.TempDir()
	_, err := p.Open(t.Context(), s)
	wantCode(t, "Open", err, fault.InvalidArgument)
	s.Dir = ""
	_, err = p.Open(t.Context(), s)
	wantCode(t, "Open", err, fault.InvalidArgument)
}

func TestSweepKeepsWhatIsOfOtherKinds(t *testing.T) {
	data := t.TempDir()
	p := newProvider(t, data)
	root := filepath.Join(data, "ws")
	open(t, p)
	kept := []string{}
	make := func(name, metaText string) {
		if err := os.MkdirAll(filepath.Join(root, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if metaText != "" {
			if err := os.WriteFile(filepath.Join(root, name, wsdir.StateName(Kind)), []byte(metaText), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		kept = append(kept, name)
	}
	sandbox := driver.NewID()
	make(".new-sandbox-"+driver.NewID(), "")
	make(".dead-sandbox-"+driver.NewID(), "")
	make(sandbox, `{"kind":"sandbox","id":"`+sandbox+`"}`)
	make(driver.NewID(), "")
	make(driver.NewID(), "not json")
	make(driver.NewID(), `{"kind":"local","id":"another"}`)
	make("somebody", `{"kind":"local"}`)
	make(".new-local-short", "")
	live := spec()
	if _, err := p.Open(t.Context(), live); err != nil {
		t.Fatal(err)
	}
	kept = append(kept, live.ID)
	for _, name := range []string{".new-local-" + driver.NewID(), ".dead-local-" + driver.NewID(), ".dead-local-" + live.ID} {
		if err := os.MkdirAll(filepath.Join(root, name, "files", "deep"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := p.Sweep(t.Context(), []string{live.ID}); err != nil {
			t.Fatal(err)
		}
	}
	got := map[string]bool{}
	for _, name := range leftovers(t, data) {
		got[name] = true
	}
	want := map[string]bool{}
	for _, name := range kept {
		want[name] = true
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("after Sweep (-want +got):\n%s", diff)
	}
}

func TestAnotherBoot(t *testing.T) {
	root := t.TempDir()
	at := func(boot string) *Provider {
		p, err := New(&Config{Root: root, BootID: boot})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
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
	ws := resolve("two", plain.Ref, true)
	// To become durable does not undo what may have happened.
	ref, err := ws.Life.Update(t.Context(), driver.Policy{Durable: true})
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

func TestOtherHandlesNotice(t *testing.T) {
	data := t.TempDir()
	ws := open(t, newProvider(t, data))
	other, err := newProvider(t, data).Resolve(t.Context(), ws.Ref)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := ws.Life.Update(t.Context(), driver.Policy{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	_, err = other.FS.Write(t.Context(), "f", strings.NewReader("x"), &driver.WriteOptions{})
	wantCode(t, "Write by a handle from before", err, fault.Evicted)
	_, err = ws.FS.Write(t.Context(), "f", strings.NewReader("x"), &driver.WriteOptions{})
	wantCode(t, "Write by the handle itself", err, fault.PermissionDenied)
	if other, err = newProvider(t, data).Resolve(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	if err := ws.Life.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err = other.FS.Stat(t.Context(), ".", &driver.StatOptions{})
	wantCode(t, "Stat after Destroy", err, fault.Evicted)
	if err := other.Life.Destroy(t.Context()); err != nil {
		t.Errorf("Destroy of what is destroyed: %v", err)
	}
	if left := leftovers(t, data); len(left) != 0 {
		t.Errorf("left over: %q", left)
	}
}

func TestDamagedMeta(t *testing.T) {
	data := t.TempDir()
	p := newProvider(t, data)
	ws := open(t, p)
	path := filepath.Join(data, "ws", idOf(t, ws), wsdir.StateName(Kind))
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"", "{", "null", `{"kind":"local"}`, strings.Replace(string(good), `"local"`, `"sandbox"`, 1),
		strings.Replace(string(good), `"version":1`, `"version":9`, 1),
		strings.Replace(string(good), `"revision":1`, `"revision":0`, 1),
		strings.Replace(string(good), `{`, `{"hunter2":1,`, 1),
		strings.Replace(string(good), `{`, `{"dir":"/etc","real":"etc",`, 1),
		strings.Replace(string(good), `{`, `{"dir":"/etc",`, 1),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := p.Resolve(t.Context(), ws.Ref)
		wantCode(t, "Resolve with the meta "+text, err, fault.Failed)
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the message echoes what was stored: %v", err)
		}
		if err != nil && (fault.CauseOf(err) != fault.CauseCorrupt || !strings.Contains(err.Error(), path)) {
			t.Errorf("got %v with the cause %q, want %q, and the file", err, fault.CauseOf(err), fault.CauseCorrupt)
		}
		if fault.IsTransient(err) {
			t.Errorf("%v is transient", err)
		}
	}
}

func TestTemporaryFilesOfACrashAreRemoved(t *testing.T) {
	data := t.TempDir()
	p := newProvider(t, data)
	ws := open(t, p)
	id := idOf(t, ws)
	dir := ws.Traits.Root
	temp := filepath.Join(dir, files.TempPrefix+"0123456789abc")
	if err := os.WriteFile(temp, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(temp, old, old); err != nil {
		t.Fatal(err)
	}
	exists := func() bool { _, err := os.Lstat(temp); return err == nil }
	resolve := func() *driver.Workspace {
		t.Helper()
		ws, err := p.Resolve(t.Context(), ws.Ref)
		if err != nil {
			t.Fatal(err)
		}
		return ws
	}
	closeAll := func(list ...*driver.Workspace) {
		t.Helper()
		for _, ws := range list {
			if err := ws.Life.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	// A workspace that everyone has closed is not searched.
	closeAll(resolve(), ws, resolve())
	if !exists() {
		t.Fatal("the tree was searched although nobody crashed")
	}
	// A crash is a mark that nobody holds a lock for.
	held := filepath.Join(data, "ws", id, wsdir.InUseName)
	if err := os.WriteFile(held, []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	closeAll(resolve())
	if exists() {
		t.Error("what a crash left is still there")
	}
	if _, err := os.Lstat(held + ".suspect"); err == nil {
		t.Error("the note of the crash is still there")
	}
}

// What a crash left in a directory of the user's goes with the workspace, however
// fresh it is and whether or not anyone noticed the crash, and a new workspace on
// the directory finds it, too. What is being written stays.
func TestTemporaryFilesInPlaceAreRemoved(t *testing.T) {
	dir := t.TempDir()
	p := newProvider(t, t.TempDir())
	temp := filepath.Join(dir, files.TempPrefix+"0123456789abc")
	leave := func() {
		t.Helper()
		if err := os.WriteFile(temp, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	gone := func(after string) {
		t.Helper()
		if _, err := os.Lstat(temp); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("after %s the temporary file is there: %v", after, err)
		}
	}
	leave()
	ws := open(t, p, in(dir))
	gone("Open")
	leave()
	other := open(t, p, in(dir))
	gone("Open of a second workspace")
	leave()
	body, more := io.Pipe()
	written := make(chan error)
	go func() {
		_, err := other.FS.Write(t.Context(), "slow", body, &driver.WriteOptions{})
		written <- err
	}()
	fmt.Fprint(more, "first ")
	if err := ws.Life.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	gone("Destroy")
	fmt.Fprint(more, "second")
	more.Close()
	if err := <-written; err != nil {
		t.Errorf("a write that was under way: %v", err)
	}
	if diff := cmp.Diff(map[string]string{"slow": "first second"}, tree(t, dir)); diff != "" {
		t.Errorf("the directory differs (-want +got):\n%s", diff)
	}
}

func TestDestroyOfUnwritableDirectories(t *testing.T) {
	data := t.TempDir()
	ws := open(t, newProvider(t, data))
	write(t, ws, "a/b/f", "x")
	for _, name := range []string{"a/b", "a"} {
		if err := ws.FS.Chmod(t.Context(), name, 0o500); err != nil {
			t.Fatal(err)
		}
	}
	if err := ws.Life.Destroy(t.Context()); err != nil {
		t.Errorf("Destroy: %v", err)
	}
	if left := leftovers(t, data); len(left) != 0 {
		t.Errorf("left over: %q", left)
	}
}

func TestDiskFull(t *testing.T) {
	dir := testenv.NeedsTmpfs(t, 2<<20)
	p := newProvider(t, dir)
	ws := open(t, p)
	write(t, ws, "kept", "kept")
	_, err := ws.FS.Write(t.Context(), "kept", strings.NewReader(strings.Repeat("x", 4<<20)), &driver.WriteOptions{})
	wantCode(t, "Write", err, fault.ResourceExhausted)
	if diff := cmp.Diff(map[string]string{"kept": "kept"}, tree(t, ws.Traits.Root)); diff != "" {
		t.Errorf("a write that failed changed the workspace (-want +got):\n%s", diff)
	}
	// Fill the rest; then nothing more can be opened, and that may pass.
	for size := 1 << 20; size >= 1; size /= 2 {
		for i := 0; err == nil || size > 1 && i == 0; i++ {
			_, err = ws.FS.Write(t.Context(), fmt.Sprintf("fill-%d-%d", size, i), strings.NewReader(strings.Repeat("x", size)), &driver.WriteOptions{})
		}
		err = nil
	}
	before := leftovers(t, dir)
	_, err = p.Open(t.Context(), spec())
	wantCode(t, "Open", err, fault.Failed)
	if !fault.IsTransient(err) {
		t.Errorf("%v is not transient", err)
	}
	if diff := cmp.Diff(before, leftovers(t, dir)); diff != "" {
		t.Errorf("an Open that failed left something (-before +after):\n%s", diff)
	}
	if err := ws.Life.Destroy(t.Context()); err != nil {
		t.Errorf("Destroy on a full disk: %v", err)
	}
	open(t, p)
}

// TestOpenAndDestroyAtOnce has many goroutines, with providers of their own as
// processes have them, make and end one workspace.
//
//croft:race
func TestOpenAndDestroyAtOnce(t *testing.T) {
	data := t.TempDir()
	s := spec()
	var wg sync.WaitGroup
	for range 8 {
		p := newProvider(t, data)
		wg.Go(func() {
			for range 25 {
				ws, err := p.Open(t.Context(), s)
				if err != nil {
					// Destroyed between being made and being attached to.
					if fault.Of(err) != fault.Failed {
						t.Errorf("Open: %v", err)
					}
					continue
				}
				_, err = ws.FS.Write(t.Context(), "f", strings.NewReader("x"), &driver.WriteOptions{})
				if code := fault.Of(err); err != nil && code != fault.Evicted && code != fault.NotFound {
					t.Errorf("Write: %v", err)
				}
				if err := ws.Life.Destroy(t.Context()); err != nil {
					t.Errorf("Destroy: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if left := leftovers(t, data); len(left) != 0 {
		t.Errorf("left over: %q", left)
	}
}

func TestUpdateIsNotSeenAsEviction(t *testing.T) {
	ws := open(t, newProvider(t, t.TempDir()))
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := ws.FS.Stat(t.Context(), ".", &driver.StatOptions{}); err != nil {
					t.Errorf("Stat during Update: %v", err)
					return
				}
			}
		})
	}
	last := ws.Ref.Revision
	for i := range 20 {
		ref, err := ws.Life.Update(t.Context(), driver.Policy{ReadOnly: i%2 == 0})
		if err != nil {
			t.Fatal(err)
		}
		if ref.Revision <= last {
			t.Errorf("revision %d follows %d", ref.Revision, last)
		}
		last = ref.Revision
	}
	close(stop)
	wg.Wait()
}
