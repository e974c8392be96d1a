package workspacetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

var treeChecks = []Check{
	{"List/goes-as-deep-as-asked", needFS, listDepth},
	{"List/puts-parents-first-and-sorts-siblings", needFS, listOrder},
	{"List/comes-in-pages", needFS, listPages},
	{"List/of-what-is-no-directory-is-refused", needFS, listRefused},
	{"Mkdir/makes-one-directory", needFS, mkdirOne},
	{"Mkdir/makes-parents-on-request", needFS, mkdirParents},
	{"Mkdir/refuses-what-exists", needFS, mkdirExists},
	{"Remove/removes-one-thing", needFS, removeOne},
	{"Remove/recursion-is-opt-in", needFS, removeRecursive},
	{"Remove/leaves-the-workspace", needFS, removeRoot},
	{"Remove/of-a-symlink-leaves-its-target", needFunc("Symlink"), removeSymlink},
	{"Digest/of-a-tree-sees-every-change", needFS, digestTree},
	{"Digest/of-a-file-is-that-of-its-content", needFS, digestFile},
}

func listDepth(t testing.TB, e *Env) {
	p := e.open(t)
	p.write(t, "a/b/c/d", "x")
	p.write(t, "top", "x")
	tests := []struct {
		name  string
		depth int
		want  string
	}{
		{".", 0, "a top"}, {".", 1, "a top"}, {".", 2, "a a/b top"}, {".", 3, "a a/b a/b/c top"},
		{".", -1, "a a/b a/b/c a/b/c/d top"}, {"a/b", -1, "a/b/c a/b/c/d"}, {"a/b/c", 1, "a/b/c/d"},
	}
	for _, tt := range tests {
		page, err := p.List(t.Context(), tt.name, &workspace.ListOptions{Depth: tt.depth})
		if !wantNil(t, "List", err) {
			continue
		}
		if got := strings.Join(pathsOf(page.Entries), " "); got != tt.want || page.Next != "" {
			t.Errorf("List(%q, depth %d) = %q, next %q; want %q", tt.name, tt.depth, got, page.Next, tt.want)
		}
	}
}

func listOrder(t testing.TB, e *Env) {
	p := e.open(t)
	for _, name := range []string{"a/x", "a.b", "a-b", "a/b/c", "A", "ä", "b"} {
		p.write(t, name, "x")
	}
	got := pathsOf(p.listTree(t))
	// Siblings are in byte order of their names, not of their paths.
	want := []string{"A", "a", "a/b", "a/b/c", "a/x", "a-b", "a.b", "b", "ä"}
	if !slices.Equal(got, want) {
		t.Errorf("List gives %q, want %q", got, want)
	}
}

func listPages(t testing.TB, e *Env) {
	p := e.open(t)
	for i := range 23 {
		p.write(t, fmt.Sprintf("dir-%d/file-%02d", i%4, i), "x")
	}
	p.write(t, "dir-1-not/x", "x") // sorts between dir-1 and its children, in byte order of paths
	want := pathsOf(p.listTree(t))
	if len(want) != 23+4+2 {
		t.Fatalf("the tree has %d entries, want 29: %q", len(want), want)
	}
	for _, limit := range []int{1, 2, 5, 28, 29, 30, 1000} {
		var got []string
		opts := workspace.ListOptions{Depth: -1, Limit: limit}
		for pages := 0; ; pages++ {
			page, err := p.List(t.Context(), ".", &opts)
			if !wantNil(t, "List", err) {
				return
			}
			if len(page.Entries) > limit || pages > len(want) {
				t.Errorf("limit %d: a page has %d entries", limit, len(page.Entries))
				return
			}
			got = append(got, pathsOf(page.Entries)...)
			if opts.After = page.Next; opts.After == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("limit %d: the pages give %q, want %q", limit, got, want)
		}
	}
	// An entry that vanishes between pages, even the last of a page, causes no gap.
	page, err := p.List(t.Context(), ".", &workspace.ListOptions{Depth: -1, Limit: 3})
	if !wantNil(t, "List", err) {
		return
	}
	wantNil(t, "Remove", p.Remove(t.Context(), page.Entries[2].Path, nil))
	next, err := p.List(t.Context(), ".", &workspace.ListOptions{Depth: -1, After: page.Next})
	if got := pathsOf(next.Entries); wantNil(t, "List", err) && !slices.Equal(got, want[3:]) {
		t.Errorf("after the last entry of a page was removed the rest is %q, want %q", got, want[3:])
	}
}

func listRefused(t testing.TB, e *Env) {
	p := e.open(t)
	p.write(t, "file", "x")
	_, err := p.List(t.Context(), "missing", nil)
	wantCode(t, "List of what is missing", err, fault.NotFound)
	_, err = p.List(t.Context(), "file", nil)
	wantCode(t, "List of a file", err, fault.InvalidArgument)
	_, err = p.List(t.Context(), ".", &workspace.ListOptions{Depth: -2})
	wantCode(t, "List with a negative depth", err, fault.InvalidArgument)
	_, err = p.List(t.Context(), ".", &workspace.ListOptions{Limit: -1})
	wantCode(t, "List with a negative limit", err, fault.InvalidArgument)
}

func mkdirOne(t testing.TB, e *Env) {
	p := e.open(t)
	wantNil(t, "Mkdir", p.Mkdir(t.Context(), "dir", nil))
	info, err := p.Stat(t.Context(), "dir", nil)
	if wantNil(t, "Stat", err) && (info.Type != driver.TypeDir || info.Mode != 0o755) {
		t.Errorf("Mkdir makes %+v, want a directory of mode 755", info)
	}
	wantNil(t, "Mkdir with mode", p.Mkdir(t.Context(), "private", &workspace.MkdirOptions{Mode: 0o700}))
	info, err = p.Stat(t.Context(), "private", nil)
	if wantNil(t, "Stat", err) && info.Mode != 0o700 {
		t.Errorf("Mkdir makes a directory of mode %o, want 700", info.Mode)
	}
	wantCode(t, "Mkdir in what is missing", p.Mkdir(t.Context(), "a/b", nil), fault.NotFound)
	p.wantMissing(t, "a")
}

func mkdirParents(t testing.TB, e *Env) {
	p := e.open(t)
	for range 2 {
		wantNil(t, "Mkdir with parents", p.Mkdir(t.Context(), "a/b/c", &workspace.MkdirOptions{Parents: true}))
	}
	wantNil(t, "Mkdir of the workspace with parents", p.Mkdir(t.Context(), ".", &workspace.MkdirOptions{Parents: true}))
	p.wantNames(t, "a/b", "c")
}

func mkdirExists(t testing.TB, e *Env) {
	p := e.open(t)
	p.write(t, "dir/file", "x")
	wantCode(t, "Mkdir of a directory that exists", p.Mkdir(t.Context(), "dir", nil), fault.AlreadyExists)
	wantCode(t, "Mkdir over a file", p.Mkdir(t.Context(), "dir/file", nil), fault.AlreadyExists)
	err := p.Mkdir(t.Context(), "dir/file", &workspace.MkdirOptions{Parents: true})
	wantCode(t, "Mkdir with parents over a file", err, fault.AlreadyExists, fault.InvalidArgument)
	err = p.Mkdir(t.Context(), "dir/file/below", &workspace.MkdirOptions{Parents: true})
	wantCode(t, "Mkdir with parents below a file", err, fault.AlreadyExists, fault.InvalidArgument, fault.NotFound)
	p.wantContent(t, "dir/file", "x")
}

func removeOne(t testing.TB, e *Env) {
	p := e.open(t)
	p.write(t, "file", "x")
	wantNil(t, "Mkdir", p.Mkdir(t.Context(), "void", nil))
	wantNil(t, "Remove of a file", p.Remove(t.Context(), "file", nil))
	wantNil(t, "Remove of an empty directory", p.Remove(t.Context(), "void", nil))
	p.wantNames(t, ".")
	wantCode(t, "Remove of what is missing", p.Remove(t.Context(), "file", nil), fault.NotFound)
	err := p.Remove(t.Context(), "file", &workspace.RemoveOptions{Recursive: true})
	wantCode(t, "recursive Remove of what is missing", err, fault.NotFound)
}

func removeRecursive(t testing.TB, e *Env) {
	p := e.open(t)
	p.write(t, "a/b/c", "x")
	p.write(t, "ab", "kept")
	p.write(t, "a-b/c", "kept")
	err := p.Remove(t.Context(), "a", nil)
	wantCode(t, "Remove of a directory with entries", err, fault.AlreadyExists, fault.InvalidArgument, fault.Conflict, fault.WrongState)
	p.wantContent(t, "a/b/c", "x")
	wantNil(t, "recursive Remove", p.Remove(t.Context(), "a", &workspace.RemoveOptions{Recursive: true}))
	p.wantNames(t, ".", "a-b", "ab")
	p.wantContent(t, "a-b/c", "kept")
	wantNil(t, "recursive Remove of a file", p.Remove(t.Context(), "ab", &workspace.RemoveOptions{Recursive: true}))
	p.wantMissing(t, "ab")
}

func removeRoot(t testing.TB, e *Env) {
	p := e.open(t)
	p.write(t, "file", "kept")
	for _, name := range []string{".", "", "/", "dir/.."} {
		err := p.Remove(t.Context(), name, &workspace.RemoveOptions{Recursive: true})
		wantCode(t, "Remove of the workspace", err, fault.InvalidArgument)
	}
	p.wantContent(t, "file", "kept")
}

func removeSymlink(t testing.TB, e *Env) {
	p := e.open(t)
	p.write(t, "dir/file", "kept")
	for _, target := range []string{"dir", "dir/file", "missing"} {
		if err := p.Symlink(t.Context(), target, "link"); err != nil {
			t.Fatalf("Symlink: %v", err)
		}
		wantNil(t, "Remove of a symlink", p.Remove(t.Context(), "link", &workspace.RemoveOptions{Recursive: true}))
		p.wantMissing(t, "link")
	}
	// A recursive removal does not follow symlinks.
	wantNil(t, "Mkdir", p.Mkdir(t.Context(), "other", nil))
	wantNil(t, "Symlink", p.Symlink(t.Context(), "../dir", "other/link"))
	wantNil(t, "recursive Remove", p.Remove(t.Context(), "other", &workspace.RemoveOptions{Recursive: true}))
	p.wantContent(t, "dir/file", "kept")
}

func digestFile(t testing.TB, e *Env) {
	p := e.open(t)
	p.write(t, "file", "content")
	got, err := p.Digest(t.Context(), "file")
	if want := driver.DigestBytes([]byte("content")); wantNil(t, "Digest", err) && got != want {
		t.Errorf("Digest is %s, want %s", got, want)
	}
	_, err = p.Digest(t.Context(), "missing")
	wantCode(t, "Digest of what is missing", err, fault.NotFound)
}

func digestTree(t testing.TB, e *Env) {
	p := e.open(t)
	digest := func() string {
		t.Helper()
		sum, err := p.Digest(t.Context(), ".")
		wantNil(t, "Digest", err)
		if !driver.ValidDigest(sum) {
			t.Errorf("Digest is %q, which is no digest", sum)
		}
		return sum
	}
	seen := map[string]string{digest(): "an empty tree"}
	step := func(what string) {
		t.Helper()
		if d := digest(); seen[d] != "" {
			t.Errorf("%s has the digest of %s", what, seen[d])
		} else {
			seen[d] = what
		}
	}
	p.write(t, "a/file", "x")
	step("a file in a directory")
	p.write(t, "a/file", "y")
	step("another content")
	wantNil(t, "Rename", p.Rename(t.Context(), "a/file", "a/other", nil))
	step("another name")
	wantNil(t, "Mkdir", p.Mkdir(t.Context(), "void", nil))
	step("an empty directory")
	_, err := p.WriteFile(t.Context(), "a/other", []byte("y"), &workspace.WriteOptions{Mode: 0o755, SetMode: true})
	wantNil(t, "Write", err)
	step("another mode")
	// The same tree in another place has the same digest.
	wantNil(t, "Copy", p.Copy(t.Context(), "a", "b", &workspace.CopyOptions{Recursive: true}))
	a, err := p.Digest(t.Context(), "a")
	wantNil(t, "Digest", err)
	b, err := p.Digest(t.Context(), "b")
	if wantNil(t, "Digest", err) && a != b {
		t.Errorf("a copy has the digest %s, want %s", b, a)
	}
}
