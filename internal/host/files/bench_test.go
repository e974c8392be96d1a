package files_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/workspace/driver"
)

// makeTree makes n files of program-like text, a hundred to a directory, three
// levels deep. One file in fifty has the word that the benchmarks look for.
func makeTree(t testing.TB, dir string, n int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields("func return error context string package import range struct interface value handler request response " +
		"buffer index table column server client token parse encode decode write read close open if else for nil true false int64 byte")
	var b bytes.Buffer
	for i := range n {
		sub := filepath.Join(dir, fmt.Sprintf("top%02d", i/2000), fmt.Sprintf("mid%d", i/500%4), fmt.Sprintf("sub%d", i/100%5))
		if i%100 == 0 {
			if err := os.MkdirAll(sub, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		b.Reset()
		for size := 500 + rng.IntN(7000); b.Len() < size; {
			for range 3 + rng.IntN(9) {
				b.WriteString(words[rng.IntN(len(words))])
				b.WriteString([]string{" ", "_", ".", "(", ") ", ", "}[rng.IntN(6)])
			}
			b.WriteByte('\n')
		}
		if i%50 == 7 {
			b.WriteString("x := FindMagneticNeedle42(haystack)\n")
		}
		if err := os.WriteFile(filepath.Join(sub, fmt.Sprintf("file%05d.go", i)), b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// ratio runs both in turn and reports the median of each and their ratio.
func ratio(b *testing.B, ours, theirs func() error) {
	b.Helper()
	var a, c []time.Duration
	run := func(f func() error, times *[]time.Duration) {
		start := time.Now()
		if err := f(); err != nil {
			b.Fatal(err)
		}
		*times = append(*times, time.Since(start))
	}
	for _, f := range []func() error{ours, theirs} {
		if err := f(); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		run(ours, &a)
		run(theirs, &c)
	}
	slices.Sort(a)
	slices.Sort(c)
	x, y := a[len(a)/2], c[len(c)/2]
	b.ReportMetric(float64(x.Nanoseconds()), "ours-ns")
	b.ReportMetric(float64(y.Nanoseconds()), "ref-ns")
	b.ReportMetric(float64(x)/float64(y), "ratio")
}

func needsRipgrep(b *testing.B) string {
	b.Helper()
	rg, err := exec.LookPath("rg")
	if err != nil {
		b.Skip("skipped: host: it lacks ripgrep")
	}
	return rg
}

func BenchmarkSearch(b *testing.B) {
	rg := needsRipgrep(b)
	dir := b.TempDir()
	makeTree(b, dir, 20_000)
	r, err := files.Open(dir, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	ctx := context.Background()
	run := func(args ...string) func() error {
		return func() error {
			cmd := exec.Command(rg, args...)
			cmd.Dir = dir
			out, err := cmd.Output()
			if len(out) == 0 {
				return fmt.Errorf("rg found nothing: %w", err)
			}
			return err
		}
	}
	grep := func(pattern string, want int, o driver.GrepOptions) func() error {
		return func() error {
			res, err := r.Grep(ctx, pattern, &o)
			if err == nil && (len(res.Matches) != want || res.Searched != 20_000) {
				err = fmt.Errorf("%d matches in %d files", len(res.Matches), res.Searched)
			}
			return err
		}
	}
	b.Run("literal", func(b *testing.B) {
		ratio(b, grep("FindMagneticNeedle42", 400, driver.GrepOptions{Literal: true, GitIgnore: true}), run("-F", "-n", "FindMagneticNeedle42"))
	})
	b.Run("regexp", func(b *testing.B) {
		ratio(b, grep(`\w+Needle\d+\(\w+\)`, 400, driver.GrepOptions{GitIgnore: true}), run("-n", `\w+Needle\d+\(\w+\)`))
	})
	b.Run("ignorecase", func(b *testing.B) {
		ratio(b, grep("findmagneticneedle42", 400, driver.GrepOptions{Literal: true, IgnoreCase: true, GitIgnore: true}), run("-F", "-i", "-n", "findmagneticneedle42"))
	})
	b.Run("glob", func(b *testing.B) {
		ratio(b, func() error {
			res, err := r.Glob(ctx, "**/*", &driver.GlobOptions{GitIgnore: true})
			if err == nil && len(res.Entries) != 20_000 {
				err = fmt.Errorf("%d entries", len(res.Entries))
			}
			return err
		}, run("--files"))
	})
}

func BenchmarkReadWrite(b *testing.B) {
	dir := b.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "a/b/c"), 0o755); err != nil {
		b.Fatal(err)
	}
	r, err := files.Open(dir, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	ctx := context.Background()
	data := bytes.Repeat([]byte("0123456789abcdef"), 256)
	buf := make([]byte, 8192)
	plain := filepath.Join(dir, "a/b/c/plain")
	for _, name := range []string{"plain", "ours"} {
		if err := os.WriteFile(filepath.Join(dir, "a/b/c", name), data, 0o644); err != nil {
			b.Fatal(err)
		}
	}
	const times = 10 // of each before the other has its turn
	b.Run("read", func(b *testing.B) {
		ratio(b, repeat(times, func() error {
			body, _, err := r.Read(ctx, "a/b/c/ours", &driver.ReadOptions{})
			if err != nil {
				return err
			}
			if n, err := body.Read(buf); n != len(data) {
				return fmt.Errorf("%d bytes, %w", n, err)
			}
			return body.Close()
		}), repeat(times, func() error {
			f, err := os.Open(plain)
			if err != nil {
				return err
			}
			if n, err := f.Read(buf); n != len(data) {
				return fmt.Errorf("%d bytes, %w", n, err)
			}
			return f.Close()
		}))
	})
	b.Run("write", func(b *testing.B) {
		ratio(b, repeat(times, func() error {
			_, err := r.Write(ctx, "a/b/c/ours", bytes.NewReader(data), &driver.WriteOptions{})
			return err
		}), repeat(times, func() error {
			f, err := os.CreateTemp(filepath.Dir(plain), "tmp")
			if err != nil {
				return err
			}
			if _, err := io.Copy(f, bytes.NewReader(data)); err != nil {
				return err
			}
			if err := f.Close(); err != nil {
				return err
			}
			return os.Rename(f.Name(), plain)
		}))
	})
}

func repeat(n int, f func() error) func() error {
	return func() error {
		for range n {
			if err := f(); err != nil {
				return err
			}
		}
		return nil
	}
}
