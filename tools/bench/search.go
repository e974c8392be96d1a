package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"

	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/workspace/driver"
)

const searchFiles = 20_000

// makeSearchTree makes the tree that grep and glob search.
func makeSearchTree(b *bench) (string, *files.Root, error) {
	if _, err := exec.LookPath("rg"); err != nil {
		return "", nil, fmt.Errorf("ripgrep (rg) is the reference: %w", err)
	}
	dir, err := b.tempDir()
	if err != nil {
		return "", nil, err
	}
	if err := sourceTree(dir, searchFiles); err != nil {
		return "", nil, err
	}
	root, err := files.Open(dir, nil)
	if err != nil {
		return "", nil, err
	}
	b.addCleanup(func() { root.Close() })
	return dir, root, nil
}

// runRipgrep runs rg and returns the number of lines that it printed.
func runRipgrep(ctx context.Context, dir string, args ...string) (int, error) {
	cmd := exec.CommandContext(ctx, "rg", args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("rg %q: %w", args, err)
	}
	return bytes.Count(out, []byte{'\n'}), nil
}

// benchGrep compares Grep with ripgrep, which searches with as many threads.
func benchGrep(ctx context.Context, b *bench) error {
	dir, root, err := makeSearchTree(b)
	if err != nil {
		return err
	}
	rows := []struct {
		name, pattern string
		opts          driver.GrepOptions
		rg            []string
		bound         float64
	}{
		{"literal", needle, driver.GrepOptions{Literal: true}, []string{"-F", needle}, 1.3},
		{"regexp with a literal part", `call \w+Reconciliation\(\d+\)`, driver.GrepOptions{}, []string{`call \w+Reconciliation\(\d+\)`}, 2},
		{"literal, ignoring case", "QUARTERLYreconciliation", driver.GrepOptions{Literal: true, IgnoreCase: true},
			[]string{"-i", "-F", "QUARTERLYreconciliation"}, 2},
	}
	for _, r := range rows {
		args := append([]string{"--line-number", "--no-ignore"}, r.rg...)
		want, err := runRipgrep(ctx, dir, args...)
		if err != nil {
			return err
		}
		ours := func() error {
			opts := r.opts
			res, err := root.Grep(ctx, r.pattern, &opts)
			if err == nil && len(res.Matches) != want {
				err = fmt.Errorf("found %d lines, and rg %d", len(res.Matches), want)
			}
			return err
		}
		theirs := func() error { _, err := runRipgrep(ctx, dir, args...); return err }
		if err := b.compareSides(ctx, r.name, "rg", r.bound, repeatSide(ours), repeatSide(theirs)); err != nil {
			return err
		}
	}
	return nil
}

// benchGlob compares Glob of everything with rg --files.
func benchGlob(ctx context.Context, b *bench) error {
	dir, root, err := makeSearchTree(b)
	if err != nil {
		return err
	}
	for _, r := range []struct {
		name, pattern string
		rg            []string
		want          int
	}{
		{"all files", "**/*", []string{"--files", "--no-ignore"}, searchFiles},
		{"one suffix, gitignore-aware", "**/*7.go", []string{"--files", "--no-require-git", "-g", "*7.go"}, searchFiles / 10},
	} {
		ours := func() error {
			res, err := root.Glob(ctx, r.pattern, &driver.GlobOptions{GitIgnore: r.name != "all files"})
			if err == nil && len(res.Entries) != r.want {
				err = fmt.Errorf("found %d files, want %d", len(res.Entries), r.want)
			}
			return err
		}
		theirs := func() error { _, err := runRipgrep(ctx, dir, r.rg...); return err }
		if err := b.compareSides(ctx, r.name, "rg --files", 1.3, repeatSide(ours), repeatSide(theirs)); err != nil {
			return err
		}
	}
	return nil
}
