package workspacetest

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// An optional function of a provider must do the same as the fallback of package
// workspace, so that providers do not differ for callers.
var fallbackChecks = []Check{
	{"Fallback/of-List-is-the-same", needFunc("List"), fallbackList},
	{"Fallback/of-Glob-is-the-same", needFunc("Glob"), fallbackGlob},
	{"Fallback/of-Grep-is-the-same", needFunc("Grep"), fallbackGrep},
	{"Fallback/of-Digest-is-the-same", needFunc("Digest"), fallbackDigest},
	{"Fallback/of-Copy-is-the-same", needFunc("Copy"), fallbackCopy},
	{"Fallback/of-Rename-is-the-same", needFunc("Rename"), fallbackRename},
	{"Fallback/of-Edit-is-the-same", needFunc("Edit"), fallbackEdit},
}

// withoutFunctions returns the same workspace without some of its functions.
func (p *testWorkspace) withoutFunctions(t testing.TB, forget func(*driver.FS)) *testWorkspace {
	t.Helper()
	d := *p.d
	fs := *d.FS
	forget(&fs)
	d.FS = &fs
	return newTestWorkspace(t, p.spec, &d)
}

// openHardGarden is a garden with files that are hard to search.
func (e *Env) openHardGarden(t testing.TB) *testWorkspace {
	t.Helper()
	p := e.openGarden(t)
	p.write(t, "binary", "TODO\x00\n")
	p.write(t, "src/big", string(patternBytes(1, 20_000)))
	p.write(t, "src/.gitignore", "b_*\n!b_test.go\ndeep/er\n")
	p.write(t, "a.b/x", "TODO x")
	p.write(t, "a/x", "TODO y\n\n\nTODO z\nTODO")
	p.write(t, ".git/HEAD", "TODO")
	p.write(t, "crlf", "TODO\r\n\r\nTODO\r\n")
	wantNil(t, "Mkdir", p.Mkdir(t.Context(), "void/inner", &workspace.MkdirOptions{Parents: true}))
	if p.d.FS.Symlink != nil {
		wantNil(t, "Symlink", p.Symlink(t.Context(), "src", "link"))
		wantNil(t, "Symlink", p.Symlink(t.Context(), "../main.go", "src/link.go"))
		wantNil(t, "Symlink", p.Symlink(t.Context(), "nowhere", "src/dangling.go"))
	}
	return p
}

// wantSame reports differing results of the function and of the fallback.
func wantSame(t testing.TB, what string, got any, gotErr error, want any, wantErr error) {
	t.Helper()
	if g, w := errorClass(gotErr), errorClass(wantErr); g != w {
		t.Errorf("%s: the function answers %q (%v), the fallback %q (%v)", what, g, gotErr, w, wantErr)
		return
	}
	if gotErr != nil {
		return
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s: the fallback (-) and the function (+) differ:\n%s", what, diff)
	}
}

// errorClass returns the code of an error; codes among which the contract lets the
// provider choose count as one: an obstacle of a move may be AlreadyExists or
// InvalidArgument.
func errorClass(err error) fault.Code {
	switch code := fault.Of(err); code {
	case fault.AlreadyExists, fault.Conflict:
		return fault.InvalidArgument
	default:
		return code
	}
}

func fallbackList(t testing.TB, e *Env) {
	p := e.openHardGarden(t)
	q := p.withoutFunctions(t, func(fs *driver.FS) { fs.List = nil })
	for _, name := range []string{".", "src", "missing", "main.go", "link"} {
		for _, depth := range []int{0, 1, 2, -1} {
			for _, limit := range []int{0, 3} {
				opts := workspace.ListOptions{Depth: depth, Limit: limit}
				for page := 0; page < 50; page++ {
					got, err1 := p.List(t.Context(), name, &opts)
					want, err2 := q.List(t.Context(), name, &opts)
					wantSame(t, "List of "+name+" "+itoa(depth)+" "+itoa(limit), got, err1, want, err2)
					if opts.After = want.Next; opts.After == "" || t.Failed() {
						break
					}
				}
			}
		}
	}
}

func fallbackGlob(t testing.TB, e *Env) {
	p := e.openHardGarden(t)
	q := p.withoutFunctions(t, func(fs *driver.FS) { fs.Glob = nil })
	for _, pattern := range []string{
		"*", "**", "**/*.go", "*/*", "src/**", "**/x", "{a,a.b}/*", "[a-m]*", "?", ".*", "**/.*", "src/deep/**/*.go", "link/*", "*/", "void/*", "", "[", "../*", "/*", "a/..",
	} {
		for _, opts := range []workspace.GlobOptions{
			{}, {Hidden: true}, {Dirs: true}, {GitIgnore: true}, {GitIgnore: true, Hidden: true, Dirs: true}, {Path: "src"}, {Path: "src/deep", Dirs: true}, {Limit: 3}, {Stat: true}, {Path: "main.go"}, {Path: "link"},
		} {
			got, err1 := p.Glob(t.Context(), pattern, &opts)
			want, err2 := q.Glob(t.Context(), pattern, &opts)
			wantSame(t, "Glob of "+quote(pattern)+" "+encodeJSON(t, opts), got, err1, want, err2)
		}
	}
}

func fallbackGrep(t testing.TB, e *Env) {
	p := e.openHardGarden(t)
	q := p.withoutFunctions(t, func(fs *driver.FS) { fs.Grep = nil })
	for _, pattern := range []string{"TODO", "todo", "^TODO", "TODO$", "T.D", "^$", "a|b", "^package", "[xyz]$", "(", "", "x*", "\\n", "O\\nT", "."} {
		for _, opts := range []workspace.GrepOptions{
			{}, {IgnoreCase: true}, {Literal: true}, {Literal: true, IgnoreCase: true}, {Hidden: true}, {GitIgnore: true}, {Before: 1, After: 2},
			{MaxMatches: 3}, {MaxPerFile: 1}, {MaxFileSize: 10}, {MaxFileSize: -1}, {Include: []string{"*.go"}}, {Exclude: []string{"src/**"}}, {Path: "src"},
			{Path: "a/x"}, {Path: "missing"}, {Multiline: true}, {Multiline: true, Before: 1}, {Path: "binary"}, {Path: "link"},
		} {
			got, err1 := p.Grep(t.Context(), pattern, &opts)
			want, err2 := q.Grep(t.Context(), pattern, &opts)
			if got.Truncated != "" && got.Truncated == want.Truncated { // how much was searched by then is random
				got.Searched, got.Skips, got.Skipped = want.Searched, want.Skips, want.Skipped
			}
			wantSame(t, "Grep for "+quote(pattern)+" "+encodeJSON(t, opts), got, err1, want, err2)
		}
	}
}

func fallbackDigest(t testing.TB, e *Env) {
	p := e.openHardGarden(t)
	q := p.withoutFunctions(t, func(fs *driver.FS) { fs.Digest = nil })
	for _, name := range []string{".", "src", "main.go", "empty", "void", "missing", "link"} {
		got, err1 := p.Digest(t.Context(), name)
		want, err2 := q.Digest(t.Context(), name)
		wantSame(t, "Digest of "+name, got, err1, want, err2)
	}
}

// compareFallback runs the same changes with and without a function, each in its own workspace,
// and compares the results and the trees.
func compareFallback(t testing.TB, e *Env, forget func(*driver.FS), steps []func(ctx context.Context, p *testWorkspace) error) {
	t.Helper()
	p := e.openHardGarden(t)
	q := e.openHardGarden(t).withoutFunctions(t, forget)
	for i, step := range steps {
		err1, err2 := step(t.Context(), p), step(t.Context(), q)
		wantSame(t, "step "+itoa(i+1), nil, err1, nil, err2)
		got, err1 := p.Digest(t.Context(), ".")
		want, err2 := q.Digest(t.Context(), ".")
		wantSame(t, "the tree after step "+itoa(i+1), got, err1, want, err2)
		if got != want {
			wantSame(t, "the names after step "+itoa(i+1), pathsOf(p.listTree(t)), nil, pathsOf(q.listTree(t)), nil)
			return
		}
	}
}

func fallbackCopy(t testing.TB, e *Env) {
	cp := func(from, to string, opts workspace.CopyOptions) func(context.Context, *testWorkspace) error {
		return func(ctx context.Context, p *testWorkspace) error { return p.Copy(ctx, from, to, &opts) }
	}
	compareFallback(t, e, func(fs *driver.FS) { fs.Copy = nil }, []func(context.Context, *testWorkspace) error{
		cp("main.go", "copy.go", workspace.CopyOptions{}),
		cp("main.go", "src/a.go", workspace.CopyOptions{}),
		cp("main.go", "README.md", workspace.CopyOptions{CreateOnly: true}),
		cp("main.go", "new/dir/main.go", workspace.CopyOptions{}),
		cp("main.go", "new/dir/main.go", workspace.CopyOptions{Parents: true}),
		cp("src", "copy", workspace.CopyOptions{}),
		cp("src", "copy", workspace.CopyOptions{Recursive: true}),
		cp("build", "copy", workspace.CopyOptions{Recursive: true, CreateOnly: true}),
		cp("a", "a.b", workspace.CopyOptions{Recursive: true}),
		cp("missing", "x", workspace.CopyOptions{Recursive: true}),
		cp("src", "src/inside", workspace.CopyOptions{Recursive: true}),
		cp("main.go", "void", workspace.CopyOptions{}),
		cp("void", "void2", workspace.CopyOptions{Recursive: true}),
		cp("link", "link2", workspace.CopyOptions{Recursive: true}),
		cp("main.go", "main.go/x", workspace.CopyOptions{Parents: true}),
	})
}

func fallbackRename(t testing.TB, e *Env) {
	mv := func(from, to string, opts workspace.RenameOptions) func(context.Context, *testWorkspace) error {
		return func(ctx context.Context, p *testWorkspace) error { return p.Rename(ctx, from, to, &opts) }
	}
	compareFallback(t, e, func(fs *driver.FS) { fs.Rename = nil }, []func(context.Context, *testWorkspace) error{
		mv("main.go", "moved.go", workspace.RenameOptions{}),
		mv("moved.go", "README.md", workspace.RenameOptions{CreateOnly: true}),
		mv("moved.go", "README.md", workspace.RenameOptions{}),
		mv("README.md", "new/x", workspace.RenameOptions{}),
		mv("README.md", "new/x", workspace.RenameOptions{Parents: true}),
		mv("build", "void/inner", workspace.RenameOptions{}),
		mv("missing", "x", workspace.RenameOptions{}),
		mv("a", "a/inside", workspace.RenameOptions{}),
		mv("no-newline", "a", workspace.RenameOptions{}),
		mv("a.b", "no-newline", workspace.RenameOptions{}),
		mv("link", "link2", workspace.RenameOptions{}),
	})
}

func fallbackEdit(t testing.TB, e *Env) {
	edit := func(name string, edits ...workspace.Edit) func(context.Context, *testWorkspace) error {
		return func(ctx context.Context, p *testWorkspace) error {
			_, err := p.Edit(ctx, name, edits, nil)
			return err
		}
	}
	compareFallback(t, e, func(fs *driver.FS) { fs.Edit = nil }, []func(context.Context, *testWorkspace) error{
		edit("main.go", workspace.Edit{Old: "Hello", New: "Bye"}),
		edit("main.go", workspace.Edit{Old: "Bye", New: "x"}, workspace.Edit{Old: "nowhere", New: "y"}),
		edit("a/x", workspace.Edit{Old: "TODO", New: "DONE"}),
		edit("a/x", workspace.Edit{Old: "TODO", New: "DONE", All: true}),
		edit("missing", workspace.Edit{Old: "a", New: "b"}),
		edit("src", workspace.Edit{Old: "a", New: "b"}),
		edit("main.go"),
	})
}
