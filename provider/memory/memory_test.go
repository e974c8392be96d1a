package memory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

func open(t *testing.T, p *Provider, mods ...func(*driver.Spec)) *driver.Workspace {
	t.Helper()
	spec := driver.Spec{ID: driver.NewID(), Kind: Kind}
	for _, mod := range mods {
		mod(&spec)
	}
	w, err := p.Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Validate(driver.NewCapabilities(driver.CapFS)); err != nil {
		t.Fatal(err)
	}
	return w
}

func write(t *testing.T, w *driver.Workspace, name, content string, opts driver.WriteOptions) driver.WriteResult {
	t.Helper()
	res, err := w.FS.Write(t.Context(), name, strings.NewReader(content), &opts)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func read(t *testing.T, w *driver.Workspace, name string) string {
	t.Helper()
	body, _, err := w.FS.Read(t.Context(), name, &driver.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// entries describes a whole tree, one line per entry.
func entries(t *testing.T, w *driver.Workspace, dir string) (lines []string) {
	t.Helper()
	infos, err := w.FS.ReadDir(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range infos {
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s %o %d %s", i.Path, i.Type, i.Mode, i.Size, i.Target)))
		if i.Type == driver.TypeDir {
			lines = append(lines, entries(t, w, i.Path)...)
		}
	}
	return lines
}

func TestSymlinksInsideAreFollowedAndNoneLeaves(t *testing.T) {
	w := open(t, new(Provider))
	ctx := t.Context()
	write(t, w, "a/b/file", "x", driver.WriteOptions{Parents: true})
	links := map[string]string{ // name: target
		"dir": "a/b", "a/up": "../a/b/file", "dangling": "a/new", "chain": "dir/file",
		"loop": "loop2", "loop2": "loop", "self": "self",
	}
	for name, target := range links {
		if err := w.FS.Symlink(ctx, target, name); err != nil {
			t.Errorf("Symlink(%q, %q) = %v", target, name, err)
		}
	}
	for _, name := range []string{"dir/file", "a/up", "chain"} {
		if got := read(t, w, name); got != "x" {
			t.Errorf("%s holds %q, want x", name, got)
		}
	}
	for _, name := range []string{"loop", "self", "loop/x"} {
		if _, err := w.FS.Stat(ctx, name, &driver.StatOptions{}); fault.Of(err) != fault.InvalidArgument {
			t.Errorf("Stat(%q) = %v, want InvalidArgument", name, err)
		}
	}
	write(t, w, "dangling", "through", driver.WriteOptions{})
	if got := read(t, w, "a/new"); got != "through" {
		t.Errorf("what was written through a symlink to nothing is %q", got)
	}
	for name, target := range map[string]string{
		"out1": "..", "out2": "/etc/passwd", "a/out3": "../../x", "out4": "dir/../../../x", "out5": "nothing/../../x", "out6": "/",
	} {
		if err := w.FS.Symlink(ctx, target, name); fault.Of(err) != fault.SandboxViolation {
			t.Errorf("Symlink(%q, %q) = %v, want SandboxViolation", target, name, err)
		}
		if _, err := w.FS.Stat(ctx, name, &driver.StatOptions{NoFollow: true}); fault.Of(err) != fault.NotFound {
			t.Errorf("%s was made: %v", name, err)
		}
	}
}

// A symlink that was good where it was made may lead out where it is moved to.
func TestSymlinkThatIsMovedIsJudgedAnew(t *testing.T) {
	w := open(t, new(Provider))
	ctx := t.Context()
	write(t, w, "a/b/x", "", driver.WriteOptions{Parents: true})
	if err := w.FS.Symlink(ctx, "../../top", "a/b/link"); err != nil {
		t.Fatal(err)
	}
	if err := w.FS.Rename(ctx, "a/b/link", "link", &driver.RenameOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := w.FS.Write(ctx, "link", strings.NewReader("x"), &driver.WriteOptions{})
	if fault.Of(err) != fault.SandboxViolation {
		t.Errorf("Write through it = %v, want SandboxViolation", err)
	}
	if err := w.FS.Remove(ctx, "link", &driver.RemoveOptions{}); err != nil {
		t.Errorf("it can't be removed: %v", err)
	}
}

func TestRefusedWritesChangeNothing(t *testing.T) {
	w := open(t, new(Provider), func(s *driver.Spec) { s.Policy.Limits = driver.Limits{driver.ResourceDisk: {Max: 10}} })
	write(t, w, "f", "12345", driver.WriteOptions{})
	write(t, w, "d/x", "", driver.WriteOptions{Parents: true})
	before := entries(t, w, ".")
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	tests := []struct {
		what, name string
		ctx        context.Context
		body       io.Reader
		opts       driver.WriteOptions
		want       fault.Code
	}{
		{"body fails", "f", t.Context(), io.MultiReader(strings.NewReader("new"), failing{}), driver.WriteOptions{}, fault.Unavailable},
		{"body fails, with parents", "n/m/f", t.Context(), failing{}, driver.WriteOptions{Parents: true}, fault.Unavailable},
		{"too big", "f", t.Context(), strings.NewReader("123"), driver.WriteOptions{MaxSize: 2}, fault.ResourceExhausted},
		{"disk", "n/f", t.Context(), strings.NewReader("123456"), driver.WriteOptions{Parents: true}, fault.ResourceExhausted},
		{"create only", "f", t.Context(), strings.NewReader("x"), driver.WriteOptions{CreateOnly: true}, fault.AlreadyExists},
		{"if match", "f", t.Context(), strings.NewReader("x"), driver.WriteOptions{IfMatch: driver.DigestBytes([]byte("other"))}, fault.Conflict},
		{"if match of nothing", "n/f", t.Context(), strings.NewReader("x"), driver.WriteOptions{IfMatch: driver.DigestBytes(nil), Parents: true}, fault.Conflict},
		{"directory", "d", t.Context(), strings.NewReader("x"), driver.WriteOptions{}, fault.InvalidArgument},
		{"below a file", "f/x", t.Context(), strings.NewReader("x"), driver.WriteOptions{Parents: true}, fault.InvalidArgument},
		{"no parent", "n/f", t.Context(), strings.NewReader("x"), driver.WriteOptions{}, fault.NotFound},
		{"canceled", "f", canceled, strings.NewReader("x"), driver.WriteOptions{}, fault.Canceled},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			_, err := w.FS.Write(tt.ctx, tt.name, tt.body, &tt.opts)
			if got := fault.Of(err); got != tt.want {
				t.Errorf("got %v, want %s", err, tt.want)
			}
			if diff := cmp.Diff(before, entries(t, w, ".")); diff != "" {
				t.Errorf("the tree changed (-before +after):\n%s", diff)
			}
			if got := read(t, w, "f"); got != "12345" {
				t.Errorf("the file holds %q", got)
			}
		})
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, fmt.Errorf("body: %w", fault.Unavailable) }

func TestDiskLimitCountsWhatIsThere(t *testing.T) {
	w := open(t, new(Provider), func(s *driver.Spec) { s.Policy.Limits = driver.Limits{driver.ResourceDisk: {Max: 10}} })
	ctx := t.Context()
	write(t, w, "a", "12345", driver.WriteOptions{})
	write(t, w, "b", "12345", driver.WriteOptions{})
	write(t, w, "a", "54321", driver.WriteOptions{}) // grows nothing
	if err := w.FS.Rename(ctx, "a", "b", &driver.RenameOptions{}); err != nil {
		t.Fatal(err)
	}
	write(t, w, "c", "12345", driver.WriteOptions{})
	if err := w.FS.Remove(ctx, "c", &driver.RemoveOptions{}); err != nil {
		t.Fatal(err)
	}
	write(t, w, "d/e", "12345", driver.WriteOptions{Parents: true})
	if err := w.FS.Remove(ctx, "d", &driver.RemoveOptions{Recursive: true}); err != nil {
		t.Fatal(err)
	}
	write(t, w, "b", "1234567890", driver.WriteOptions{})
}

func TestDeterministicTreesAreAlike(t *testing.T) {
	var ids IDs
	if id := ids.Next(); !driver.ValidID(id) || id != "memory00000000000001" {
		t.Errorf("first id is %q", id)
	}
	build := func() []driver.Info {
		w := open(t, new(Provider), func(s *driver.Spec) { s.Config = json.RawMessage(`{"deterministic":true}`) })
		write(t, w, "d/f", "x", driver.WriteOptions{Parents: true})
		write(t, w, "g", "y", driver.WriteOptions{})
		infos, err := w.FS.ReadDir(t.Context(), ".")
		if err != nil {
			t.Fatal(err)
		}
		return infos
	}
	first := build()
	if diff := cmp.Diff(first, build()); diff != "" {
		t.Errorf("two runs differ:\n%s", diff)
	}
	if !first[0].ModTime.Before(first[1].ModTime) || first[0].ModTime.Year() != 2000 {
		t.Errorf("times are %v and %v", first[0].ModTime, first[1].ModTime)
	}
}

func TestSpecsThatAreRefusedLeaveNothing(t *testing.T) {
	p := new(Provider)
	tests := map[string]struct {
		mod  func(*driver.Spec)
		want fault.Code
	}{
		"id":       {func(s *driver.Spec) { s.ID = "../x" }, fault.InvalidArgument},
		"kind":     {func(s *driver.Spec) { s.Kind = "local" }, fault.InvalidArgument},
		"config":   {func(s *driver.Spec) { s.Config = json.RawMessage(`{"determinstic":true}`) }, fault.InvalidArgument},
		"dir":      {func(s *driver.Spec) { s.Dir = "/tmp" }, fault.Unsupported},
		"template": {func(s *driver.Spec) { s.From.Template = "go" }, fault.Unsupported},
		"want":     {func(s *driver.Spec) { s.Want = driver.NewCapabilities(driver.CapShell) }, fault.Failed},
		"limit":    {func(s *driver.Spec) { s.Policy.Limits = driver.Limits{driver.ResourceCPU: {Max: 1}} }, fault.Unsupported},
		"network":  {func(s *driver.Spec) { s.Policy.Network.Open = true }, fault.Unsupported},
		"durable":  {func(s *driver.Spec) { s.Policy.Durable = true }, fault.Unsupported},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			spec := driver.Spec{ID: driver.NewID(), Kind: Kind}
			tt.mod(&spec)
			_, err := p.Open(t.Context(), spec)
			if got := fault.Of(err); got != tt.want {
				t.Errorf("got %v, want %s", err, tt.want)
			}
			if len(p.trees) != 0 {
				t.Errorf("%d trees were made", len(p.trees))
			}
		})
	}
}

func TestWatchBatchesDebouncesAndOverflows(t *testing.T) {
	w := open(t, new(Provider))
	ctx := t.Context()
	watcher, err := w.FS.Watch(ctx, ".", &driver.WatchOptions{Recursive: true, Debounce: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	write(t, w, "d/f", "1", driver.WriteOptions{Parents: true})
	write(t, w, "d/f", "2", driver.WriteOptions{})
	if err := w.FS.Rename(ctx, "d", "e", &driver.RenameOptions{}); err != nil {
		t.Fatal(err)
	}
	got := map[string]driver.ChangeOp{}
	for len(got) < 4 {
		batch, err := watcher.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range batch.Changes {
			got[c.Path] = c.Op
		}
	}
	want := map[string]driver.ChangeOp{"d": driver.OpRemove, "d/f": driver.OpRemove, "e": driver.OpCreate, "e/f": driver.OpCreate}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	for i := range maxPending + 1 {
		write(t, w, fmt.Sprint("many", i), "", driver.WriteOptions{})
	}
	time.Sleep(2 * time.Millisecond) // the batch is due after the debounce
	batch, err := watcher.Next(ctx)
	if err != nil || !batch.Overflow || len(batch.Changes) != maxPending {
		t.Errorf("Next after %d changes: %d, overflow %v, %v", maxPending+1, len(batch.Changes), batch.Overflow, err)
	}
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := watcher.Next(canceled); !errors.Is(err, context.Canceled) {
		t.Errorf("Next under a canceled context = %v", err)
	}
}

func TestWatchersEndWithTheirHandleAndTheirTree(t *testing.T) {
	p := new(Provider)
	for name, end := range map[string]func(*driver.Workspace) error{
		"close":   func(w *driver.Workspace) error { return w.Life.Close(t.Context()) },
		"destroy": func(w *driver.Workspace) error { return w.Life.Destroy(t.Context()) },
		"sweep":   func(*driver.Workspace) error { return p.Sweep(t.Context(), nil) },
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t, p)
			watcher, err := w.FS.Watch(t.Context(), ".", &driver.WatchOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			for range 3 { // all who wait are told
				wg.Go(func() {
					if _, err := watcher.Next(t.Context()); !errors.Is(err, io.EOF) {
						t.Errorf("Next = %v, want EOF", err)
					}
				})
			}
			if err := end(w); err != nil {
				t.Fatal(err)
			}
			wg.Wait()
		})
	}
}

func TestADestroyedTreeIsEvictedForOtherHandles(t *testing.T) {
	p := new(Provider)
	w := open(t, p)
	other, err := p.Resolve(t.Context(), w.Ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Life.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := other.FS.Stat(t.Context(), ".", &driver.StatOptions{}); fault.Of(err) != fault.Evicted {
		t.Errorf("Stat = %v, want Evicted", err)
	}
	if _, err := p.Resolve(t.Context(), w.Ref); fault.CauseOf(err) != fault.CauseGone {
		t.Errorf("Resolve = %v, want the cause gone", err)
	}
}

// Nobody has to go through package workspace, which refuses such modes as well.
func TestModesBeyondPermissionsAreRefused(t *testing.T) {
	ws := open(t, new(Provider))
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
