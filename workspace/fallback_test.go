package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/workspace/driver"
)

// contents describes a tree: path, type, mode, and content or target.
func contents(t *testing.T, w *Workspace) map[string]string {
	t.Helper()
	tree := map[string]string{}
	page, err := w.List(t.Context(), ".", &ListOptions{Depth: -1})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range page.Entries {
		text := e.Target
		if e.Type == driver.TypeFile {
			data, err := w.ReadFile(t.Context(), e.Path)
			if err != nil {
				t.Fatal(err)
			}
			text = string(data)
		}
		tree[e.Path] = fmt.Sprintf("%s %o %s", e.Type, e.Mode, text)
	}
	return tree
}

// TestRenameFallbackIsLikeRename does the same moves with the provider's own
// Rename and with the fallback, and compares what becomes of the tree.
func TestRenameFallbackIsLikeRename(t *testing.T) {
	moves := []struct {
		from, to string
		opts     RenameOptions
	}{
		{"file", "new", RenameOptions{}},
		{"file", "other", RenameOptions{}},
		{"file", "other", RenameOptions{CreateOnly: true}},
		{"file", "file", RenameOptions{}},
		{"file", "file", RenameOptions{CreateOnly: true}},
		{"file", "x/y/z", RenameOptions{}},
		{"file", "x/y/z", RenameOptions{Parents: true}},
		{"file", "dir", RenameOptions{}},
		{"file", "empty", RenameOptions{}},
		{"file", "link", RenameOptions{}},
		{"link", "file", RenameOptions{}},
		{"link", "dir/link", RenameOptions{}},
		{"dir", "new", RenameOptions{}},
		{"dir", "empty", RenameOptions{}},
		{"dir", "empty", RenameOptions{CreateOnly: true}},
		{"dir", "full", RenameOptions{}},
		{"dir", "file", RenameOptions{}},
		{"dir", "dir/sub/x", RenameOptions{}},
		{"dir", "dir/n/m", RenameOptions{Parents: true}},
		{"missing", "new", RenameOptions{}},
		{"missing", "new/x", RenameOptions{Parents: true}},
	}
	build := func(t *testing.T, fallback bool) *Workspace {
		d := openMemory(t, new(memory.Provider))
		for name, mode := range map[string]int{"file": 0o600, "other": 0o644, "dir/sub/a": 0o755, "dir/b": 0o400, "full/c": 0o644} {
			_, err := d.FS.Write(t.Context(), name, strings.NewReader("of "+name), &driver.WriteOptions{Parents: true, Mode: iofs.FileMode(mode)})
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, err := range []error{
			d.FS.Mkdir(t.Context(), "empty", &driver.MkdirOptions{}),
			d.FS.Chmod(t.Context(), "dir/sub", 0o500),
			d.FS.Symlink(t.Context(), "dir/b", "link"),
			d.FS.Symlink(t.Context(), "../b", "dir/sub/up"),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if fallback {
			next := *d
			next.FS = &driver.FS{Files: d.FS.Files, Symlink: d.FS.Symlink, Chmod: d.FS.Chmod}
			d = &next
		}
		return newHandle(t, d, nil)
	}
	for _, m := range moves {
		t.Run(fmt.Sprintf("%s to %s %+v", m.from, m.to, m.opts), func(t *testing.T) {
			native, fallback := build(t, false), build(t, true)
			want := native.Rename(t.Context(), m.from, m.to, &m.opts)
			got := fallback.Rename(t.Context(), m.from, m.to, &m.opts)
			if fault.Of(got) != fault.Of(want) {
				t.Errorf("the fallback answers %v, the provider %v", got, want)
			}
			if diff := cmp.Diff(contents(t, native), contents(t, fallback)); diff != "" {
				t.Errorf("trees differ (-provider +fallback):\n%s", diff)
			}
		})
	}
}

// Somebody makes a directory at the new name while the fallback works: theirs
// must stay, and what was to be moved, too.
func TestRenameFallbackRemovesNothingOfOthers(t *testing.T) {
	d := openMemory(t, new(memory.Provider))
	prepare(t, d)
	ctx := t.Context()
	var once sync.Once
	w := newHandle(t, hooked(bare(d), func(call, name string, _ any) error {
		if call == "mkdir" && name == "new" {
			once.Do(func() {
				if _, err := d.FS.Write(ctx, "new/theirs", strings.NewReader("t"), &driver.WriteOptions{Parents: true}); err != nil {
					t.Error(err)
				}
			})
		}
		return nil
	}), nil)
	if err := w.Rename(ctx, "b", "new", nil); fault.Of(err) != fault.AlreadyExists {
		t.Errorf("Rename = %v, want AlreadyExists", err)
	}
	for _, name := range []string{"new/theirs", "b/f"} {
		if _, err := w.Stat(ctx, name, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A rename that fails in the middle leaves the old tree whole and nothing of
// the new one.
func TestRenameFallbackThatFailsLeavesThingsAsTheyWere(t *testing.T) {
	d := openMemory(t, new(memory.Provider))
	prepare(t, d)
	for i := range 5 {
		if _, err := d.FS.Write(t.Context(), fmt.Sprint("b/f", i), strings.NewReader("x"), &driver.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	fail := true
	w := newHandle(t, hooked(bare(d), func(call, name string, _ any) error {
		if fail && call == "write" && name == "new/f3" {
			return fault.ResourceExhausted
		}
		return nil
	}), nil)
	before := contents(t, w)
	if err := w.Rename(t.Context(), "b", "new", nil); fault.Of(err) != fault.ResourceExhausted {
		t.Errorf("Rename = %v", err)
	}
	if diff := cmp.Diff(before, contents(t, w)); diff != "" {
		t.Errorf("the tree changed:\n%s", diff)
	}
	fail = false
	if err := w.Rename(t.Context(), "b", "new", nil); err != nil {
		t.Errorf("Rename again = %v", err)
	}
}

func TestListFallbackPagesOverATreeThatChanges(t *testing.T) {
	d := openMemory(t, new(memory.Provider))
	w := newHandle(t, bare(d), nil)
	ctx := t.Context()
	names := []string{"a", "a-b", "a/b", "a/b/c", "a/b-c", "b", "b/x/y/z", "c"} // "a-b" < "a/b" by bytes, but a's children come first
	for _, name := range names {
		w.WriteFile(ctx, name+"/f", nil, &WriteOptions{Parents: true})
	}
	whole, err := w.List(ctx, ".", &ListOptions{Depth: -1})
	if err != nil || whole.Next != "" {
		t.Fatal(whole.Next, err)
	}
	for limit := 1; limit <= len(whole.Entries); limit++ {
		var got []Info
		opts := ListOptions{Depth: -1, Limit: limit}
		for {
			page, err := w.List(ctx, ".", &opts)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, page.Entries...)
			if opts.After = page.Next; page.Next == "" {
				break
			}
		}
		if diff := cmp.Diff(whole.Entries, got); diff != "" {
			t.Fatalf("pages of %d differ from the whole:\n%s", limit, diff)
		}
	}
	// What the last page ended with is removed: the next one goes on all the same.
	page, err := w.List(ctx, ".", &ListOptions{Depth: -1, Limit: 3})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Remove(ctx, "a/b", &RemoveOptions{Recursive: true}); err != nil {
		t.Fatal(err)
	}
	rest, err := w.List(ctx, ".", &ListOptions{Depth: -1, After: page.Next})
	if err != nil || len(rest.Entries) == 0 || rest.Entries[len(rest.Entries)-1].Path != "c/f" {
		t.Errorf("after the removal: %+v, %v", rest, err)
	}
	if _, err := w.List(ctx, "b", &ListOptions{After: "a/b"}); fault.Of(err) != fault.InvalidArgument {
		t.Errorf("After of another listing = %v, want InvalidArgument", err)
	}
}

func TestEditFallbackLooksAgainWhenSomebodyElseWrote(t *testing.T) {
	d := openMemory(t, new(memory.Provider))
	prepare(t, d)
	ctx := t.Context()
	others := 3
	w := newHandle(t, hooked(bare(d), func(call, _ string, _ any) error {
		if call == "write" && others > 0 {
			others--
			_, err := d.FS.Write(ctx, "edit", strings.NewReader(fmt.Sprint("old and ", others)), &driver.WriteOptions{})
			return err
		}
		return nil
	}), nil)
	if _, err := w.Edit(ctx, "edit", []Edit{{Old: "old", New: "new"}}, nil); err != nil {
		t.Fatal(err)
	}
	if data, err := w.ReadFile(ctx, "edit"); string(data) != "new and 0" || err != nil {
		t.Errorf("the file holds %q, %v; want the edit on top of what the others wrote", data, err)
	}
}

func TestAWatcherEndsWithItsHandle(t *testing.T) {
	d := openMemory(t, new(memory.Provider))
	waiting := make(chan struct{})
	d.FS.Watch = func(context.Context, string, *driver.WatchOptions) (driver.Watcher, error) {
		return deafWatcher{waiting}, nil
	}
	w := newHandle(t, d, nil)
	watcher, err := w.Watch(t.Context(), ".", nil)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := watcher.Next(t.Context()); !errors.Is(err, io.EOF) {
			t.Errorf("Next = %v, want EOF", err)
		}
	})
	<-waiting
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if _, err := watcher.Next(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("Next after Close = %v, want EOF", err)
	}
	if err := watcher.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
}

// deafWatcher knows nothing but its context.
type deafWatcher struct{ waiting chan struct{} }

func (d deafWatcher) Next(ctx context.Context) (driver.Changes, error) {
	close(d.waiting)
	<-ctx.Done()
	return driver.Changes{}, ctx.Err()
}

func (deafWatcher) Close() error { panic("called after the handle was closed") }
