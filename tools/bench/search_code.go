package main

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/croft-run/croft/internal/tool/index"
	"github.com/croft-run/croft/provider/local"
	"github.com/croft-run/croft/workspace"
)

const codeFiles = 10_000

// codeTree makes files of Go with a dozen declarations each, about 2 KB.
func codeTree(dir string, n int) error {
	rnd := rand.New(rand.NewPCG(3, 4))
	words := strings.Fields("Parse Format Request Reply Server Client Index Token Buffer Reader Writer Config User Order Invoice Queue Worker Cache Lock Event")
	name := func() string {
		return words[rnd.IntN(len(words))] + words[rnd.IntN(len(words))] + words[rnd.IntN(len(words))]
	}
	for i := range n {
		sub := filepath.Join(dir, fmt.Sprintf("mod%02d", i/1000), fmt.Sprintf("pkg%02d", i/50%20))
		if err := os.MkdirAll(sub, 0o755); err != nil {
			return err
		}
		var b strings.Builder
		fmt.Fprintf(&b, "package pkg%02d\n\nimport \"fmt\"\n", i/50%20)
		for j := range 12 {
			if j%4 == 0 {
				fmt.Fprintf(&b, "\n// %s%d holds what a %s needs.\ntype %s%d struct {\n\tname string\n\tsize int\n}\n", name(), i, name(), name(), j)
				continue
			}
			fmt.Fprintf(&b, "\n// %s%d takes a %s and gives it to the %s.\nfunc %s%d(n int) error {\n\tif n > %d {\n\t\treturn fmt.Errorf(\"%%d is too much\", n)\n\t}\n\treturn nil\n}\n",
				name(), j, name(), name(), name(), j, j)
		}
		if err := os.WriteFile(filepath.Join(sub, fmt.Sprintf("file%05d.go", i)), []byte(b.String()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// benchSearchCode measures the index of search_code: building it, searching, and the
// delay after an edit.
func benchSearchCode(ctx context.Context, b *bench) error {
	dir, err := b.tempDir()
	if err != nil {
		return err
	}
	if err := codeTree(dir, codeFiles); err != nil {
		return err
	}
	ws, err := b.openInPlace(ctx, dir)
	if err != nil {
		return err
	}
	build := func() error {
		x := index.New(ws)
		defer x.Close(ctx)
		res, err := x.Search(ctx, "parse", 1)
		if err == nil && res.Files != codeFiles {
			err = fmt.Errorf("%d files are in the index, want %d", res.Files, codeFiles)
		}
		return err
	}
	if err := b.compareSides(ctx, "build, 10,000 files", "go/parser over the same", 0, repeatSide(build), repeatSide(func() error { return parseAll(dir) })); err != nil {
		return err
	}
	b.atMost(int64(2 * time.Second))
	x := index.New(ws)
	b.addCleanup(func() { x.Close(ctx) })
	ask := func() error {
		res, err := x.Search(ctx, "parse the server's request queue", 20)
		if err == nil && len(res.Hits) != 20 {
			err = fmt.Errorf("%d hits, want 20", len(res.Hits))
		}
		return err
	}
	rg := func(pattern string) func() error {
		return func() error { _, err := runRipgrep(ctx, dir, "--line-number", "-i", pattern); return err }
	}
	if err := b.compareSides(ctx, "ask, 10,000 files", "rg for one of its words", 0.5, repeatSide(ask), repeatSide(rg("func .*Queue"))); err != nil {
		return err
	}
	b.atMost(int64(10 * time.Millisecond))
	return b.benchFreshness(ctx, dir, x, rg)
}

// benchFreshness writes a new declaration and searches until it is found.
func (b *bench) benchFreshness(ctx context.Context, dir string, x *index.Index, rg func(string) func() error) error {
	n := 0
	fresh := func() (string, error) {
		n++
		name := fmt.Sprintf("Fresh%sNumber", strings.Repeat("x", n%50+1))
		return name, os.WriteFile(filepath.Join(dir, "fresh.go"), []byte("package fresh\n\nfunc "+name+"() {}\n"), 0o644)
	}
	ours := func() error {
		name, err := fresh()
		for err == nil {
			var res index.Result
			if res, err = x.Search(ctx, name, 1); len(res.Hits) == 1 && res.Hits[0].Symbol == name {
				return nil
			}
		}
		return err
	}
	theirs := func() error {
		name, err := fresh()
		if err != nil {
			return err
		}
		return rg("func " + name)()
	}
	if err := b.compareSides(ctx, "know of an edit", "the edit, and rg for it", 0, repeatSide(ours), repeatSide(theirs)); err != nil {
		return err
	}
	b.atMost(int64(time.Second))
	return nil
}

// openInPlace opens a directory as a workspace in place.
func (b *bench) openInPlace(ctx context.Context, dir string) (*workspace.Workspace, error) {
	data, err := b.tempDir()
	if err != nil {
		return nil, err
	}
	p, err := local.New(&local.Config{Root: data})
	if err != nil {
		return nil, err
	}
	ws, err := workspace.NewMux(p).Open(ctx, workspace.Spec{Kind: "local", ID: workspace.NewID(), Dir: dir}, nil)
	if err != nil {
		return nil, err
	}
	b.addCleanup(func() { ws.Close(context.WithoutCancel(ctx)) })
	return ws, nil
}

func parseAll(dir string) error {
	return filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err == nil && file.Decls == nil {
			err = fmt.Errorf("%s: no declarations", name)
		}
		ast.FileExports(file)
		return err
	})
}
