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

// A function that a provider has beyond the required ones must do what package
// workspace does without it, or callers could tell providers apart.
var fallbackChecks = []Check{
	{"Fallback/of-List-is-the-same", needFunc("List"), fallbackList},
	{"Fallback/of-Glob-is-the-same", needFunc("Glob"), fallbackGlob},
	{"Fallback/of-Grep-is-the-same", needFunc("Grep"), fallbackGrep},
	{"Fallback/of-Digest-is-the-same", needFunc("Digest"), fallbackDigest},
	{"Fallback/of-Copy-is-the-same", needFunc("Copy"), fallbackCopy},
	{"Fallback/of-Rename-is-the-same", needFunc("Rename"), fallbackRename},
	{"Fallback/of-Edit-is-the-same", needFunc("Edit"), fallbackEdit},
}

// without returns the same workspace without some of its functions.
func (p *place) without(t testing.TB, forget func(*driver.FS)) *place {
	t.Helper()
	d := *p.d
	fs := *d.FS
	forget(&fs)
	d.FS = &fs
	return hold(t, p.spec, &d)
}

// jungle is a garden with what makes searching hard.
func (e *Env) jungle(t testing.TB) *place {
	t.Helper()
	p := e.garden(t)
	p.write(t, "binary", "TODO\x00\n")
	p.write(t, "src/big", string(pattern(1, 20_000)))
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

// same reports results of the function and of the fallback that differ.
func same(t testing.TB, what string, got any, gotErr error, want any, wantErr error) {
	t.Helper()
	if g, w := class(gotErr), class(wantErr); g != w {
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

// class is the code of an error, where codes that the contract leaves to the
// provider count as one: what stands in the way of a move may be called an
// existing thing or a wrong argument.
func class(err error) fault.Code {
	switch code := fault.Of(err); code {
	case fault.AlreadyExists, fault.Conflict:
		return fault.InvalidArgument
	default:
		return code
	}
}

func fallbackList(t testing.TB, e *Env) {
	p := e.jungle(t)
	q := p.without(t, func(fs *driver.FS) { fs.List = nil })
	for _, name := range []string{".", "src", "missing", "main.go", "link"} {
		for _, depth := range []int{0, 1, 2, -1} {
			for _, limit := range []int{0, 3} {
				opts := workspace.ListOptions{Depth: depth, Limit: limit}
				for page := 0; page < 50; page++ {
					got, err1 := p.List(t.Context(), name, &opts)
					want, err2 := q.List(t.Context(), name, &opts)
					same(t, "List of "+name+" "+itoa(depth)+" "+itoa(limit), got, err1, want, err2)
					if opts.After = want.Next; opts.After == "" || t.Failed() {
						break
					}
				}
			}
		}
	}
}

func fallbackGlob(t testing.TB, e *Env) {
	p := e.jungle(t)
	q := p.without(t, func(fs *driver.FS) { fs.Glob = nil })
	for _, pattern := range []string{
		"*", "**", "**/*.go", "*/*", "src/**", "**/x", "{a,a.b}/*", "[a-m]*", "?", ".*", "**/.*", "src/deep/**/*.go", "link/*", "*/", "void/*", "", "[", "../*", "/*", "a/..",
	} {
		for _, opts := range []workspace.GlobOptions{
			{}, {Hidden: true}, {Dirs: true}, {GitIgnore: true}, {GitIgnore: true, Hidden: true, Dirs: true}, {Path: "src"}, {Path: "src/deep", Dirs: true}, {Limit: 3}, {Stat: true}, {Path: "main.go"}, {Path: "link"},
		} {
			got, err1 := p.Glob(t.Context(), pattern, &opts)
			want, err2 := q.Glob(t.Context(), pattern, &opts)
			same(t, "Glob of "+quote(pattern)+" "+encode(t, opts), got, err1, want, err2)
		}
	}
}

func fallbackGrep(t testing.TB, e *Env) {
	p := e.jungle(t)
	q := p.without(t, func(fs *driver.FS) { fs.Grep = nil })
	for _, pattern := range []string{"TODO", "todo", "^TODO", "TODO$", "T.D", "^$", "a|b", "^package", "[xyz]$", "(", "", "x*", "\\n", "O\\nT", "."} {
		for _, opts := range []workspace.GrepOptions{
			{}, {IgnoreCase: true}, {Literal: true}, {Literal: true, IgnoreCase: true}, {Hidden: true}, {GitIgnore: true}, {Before: 1, After: 2},
			{MaxMatches: 3}, {MaxPerFile: 1}, {MaxFileSize: 10}, {MaxFileSize: -1}, {Include: []string{"*.go"}}, {Exclude: []string{"src/**"}}, {Path: "src"},
			{Path: "a/x"}, {Path: "missing"}, {Multiline: true}, {Multiline: true, Before: 1}, {Path: "binary"}, {Path: "link"},
		} {
			got, err1 := p.Grep(t.Context(), pattern, &opts)
			want, err2 := q.Grep(t.Context(), pattern, &opts)
			if got.Truncated != "" && got.Truncated == want.Truncated { // how much was looked at by then is chance
				got.Searched, got.Skips, got.Skipped = want.Searched, want.Skips, want.Skipped
			}
			same(t, "Grep for "+quote(pattern)+" "+encode(t, opts), got, err1, want, err2)
		}
	}
}

func fallbackDigest(t testing.TB, e *Env) {
	p := e.jungle(t)
	q := p.without(t, func(fs *driver.FS) { fs.Digest = nil })
	for _, name := range []string{".", "src", "main.go", "empty", "void", "missing", "link"} {
		got, err1 := p.Digest(t.Context(), name)
		want, err2 := q.Digest(t.Context(), name)
		same(t, "Digest of "+name, got, err1, want, err2)
	}
}

// act runs the same changes with and without a function, each in a workspace of
// its own, and compares the answers and the trees that they leave.
func act(t testing.TB, e *Env, forget func(*driver.FS), steps []func(ctx context.Context, p *place) error) {
	t.Helper()
	p := e.jungle(t)
	q := e.jungle(t).without(t, forget)
	for i, step := range steps {
		err1, err2 := step(t.Context(), p), step(t.Context(), q)
		same(t, "step "+itoa(i+1), nil, err1, nil, err2)
		got, err1 := p.Digest(t.Context(), ".")
		want, err2 := q.Digest(t.Context(), ".")
		same(t, "the tree after step "+itoa(i+1), got, err1, want, err2)
		if got != want {
			same(t, "the names after step "+itoa(i+1), pathsOf(p.tree(t)), nil, pathsOf(q.tree(t)), nil)
			return
		}
	}
}

func fallbackCopy(t testing.TB, e *Env) {
	cp := func(from, to string, opts workspace.CopyOptions) func(context.Context, *place) error {
		return func(ctx context.Context, p *place) error { return p.Copy(ctx, from, to, &opts) }
	}
	act(t, e, func(fs *driver.FS) { fs.Copy = nil }, []func(context.Context, *place) error{
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
	mv := func(from, to string, opts workspace.RenameOptions) func(context.Context, *place) error {
		return func(ctx context.Context, p *place) error { return p.Rename(ctx, from, to, &opts) }
	}
	act(t, e, func(fs *driver.FS) { fs.Rename = nil }, []func(context.Context, *place) error{
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
	edit := func(name string, edits ...workspace.Edit) func(context.Context, *place) error {
		return func(ctx context.Context, p *place) error {
			_, err := p.Edit(ctx, name, edits, nil)
			return err
		}
	}
	act(t, e, func(fs *driver.FS) { fs.Edit = nil }, []func(context.Context, *place) error{
		edit("main.go", workspace.Edit{Old: "Hello", New: "Bye"}),
		edit("main.go", workspace.Edit{Old: "Bye", New: "x"}, workspace.Edit{Old: "nowhere", New: "y"}),
		edit("a/x", workspace.Edit{Old: "TODO", New: "DONE"}),
		edit("a/x", workspace.Edit{Old: "TODO", New: "DONE", All: true}),
		edit("missing", workspace.Edit{Old: "a", New: "b"}),
		edit("src", workspace.Edit{Old: "a", New: "b"}),
		edit("main.go"),
	})
}
