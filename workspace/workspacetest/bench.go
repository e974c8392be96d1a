package workspacetest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// Bench measures the operations of a provider, each as a sub-benchmark. File
// operations go through package workspace, as in programs.
func Bench(b *testing.B, h Harness) {
	env := newSample(b, h)
	for _, bench := range []struct {
		name string
		fs   bool
		f    func(*testing.B, *Env)
	}{
		{"Open", false, benchOpen},
		{"Resolve", false, benchResolve},
		{"Stat", true, benchStat},
		{"Read4K", true, benchRead},
		{"Write4K", true, benchWrite},
		{"List1000", true, benchList},
		{"Glob", true, benchGlob},
		{"Grep", true, benchGrep},
	} {
		b.Run(bench.name, func(b *testing.B) {
			if bench.fs && env.sample.FS == nil {
				b.Skip("skipped: module fs is absent")
			}
			bench.f(b, env.newEnv(b))
		})
	}
}

// must ends a benchmark that failed.
func must(b *testing.B, err error) {
	if err != nil {
		b.Helper()
		b.Fatal(err)
	}
}

func benchOpen(b *testing.B, e *Env) {
	p := e.sharedProvider(b)
	var opened []*driver.Workspace
	for b.Loop() {
		d, err := p.Open(b.Context(), e.spec())
		must(b, err)
		opened = append(opened, d)
	}
	for _, d := range opened {
		must(b, d.Life.Destroy(context.WithoutCancel(b.Context())))
	}
}

func benchResolve(b *testing.B, e *Env) {
	p, ref := e.sharedProvider(b), e.open(b).Ref()
	for b.Loop() {
		d, err := p.Resolve(b.Context(), ref)
		must(b, err)
		must(b, d.Life.Close(b.Context()))
	}
}

func benchStat(b *testing.B, e *Env) {
	p := e.open(b)
	p.write(b, "a/b/c", "x")
	for b.Loop() {
		_, err := p.Stat(b.Context(), "a/b/c", nil)
		must(b, err)
	}
}

func benchRead(b *testing.B, e *Env) {
	p := e.open(b)
	p.write(b, "a/b/c", string(patternBytes(1, 4096)))
	b.SetBytes(4096)
	for b.Loop() {
		body, _, err := p.Read(b.Context(), "a/b/c", nil)
		must(b, err)
		_, err = io.Copy(io.Discard, body)
		must(b, err)
		must(b, body.Close())
	}
}

func benchWrite(b *testing.B, e *Env) {
	p := e.open(b)
	p.write(b, "a/b/c", "x")
	data := patternBytes(1, 4096)
	b.SetBytes(4096)
	for b.Loop() {
		_, err := p.Write(b.Context(), "a/b/c", bytes.NewReader(data), nil)
		must(b, err)
	}
}

// fillForest fills a workspace with 1,000 small files in 20 directories.
func fillForest(b *testing.B, e *Env) *testWorkspace {
	p := e.open(b)
	for i := range 1000 {
		p.write(b, fmt.Sprintf("dir-%02d/file-%03d.go", i%20, i), fmt.Sprintf("package p%d\n\nfunc f() int { return %d }\n", i, i))
	}
	return p
}

func benchList(b *testing.B, e *Env) {
	p := fillForest(b, e)
	for b.Loop() {
		page, err := p.List(b.Context(), ".", &workspace.ListOptions{Depth: -1, Limit: 2000})
		must(b, err)
		if len(page.Entries) != 1020 {
			b.Fatalf("%d entries, want 1020", len(page.Entries))
		}
	}
}

func benchGlob(b *testing.B, e *Env) {
	p := fillForest(b, e)
	for b.Loop() {
		res, err := p.Glob(b.Context(), "**/*7.go", nil)
		must(b, err)
		if len(res.Entries) != 100 {
			b.Fatalf("%d entries, want 100", len(res.Entries))
		}
	}
}

func benchGrep(b *testing.B, e *Env) {
	p := fillForest(b, e)
	for b.Loop() {
		res, err := p.Grep(b.Context(), `return 99\d`, nil)
		must(b, err)
		if len(res.Matches) != 10 {
			b.Fatalf("%d matches, want 10", len(res.Matches))
		}
	}
}
