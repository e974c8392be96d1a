package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/croft-run/croft/internal/testenv"
)

// What commands of croft may take, from the start of the program to its end.
const (
	cliRunMost  = int64(45 * time.Millisecond) // croft run -- true
	cliForkMost = int64(60 * time.Millisecond) // croft ws fork of templateFiles files
	cliListMost = int64(25 * time.Millisecond) // croft ws list

	cliWorkMost = cliRunMost + int64(150*time.Millisecond) // croft work -- true
)

// benchCLI compares commands that a person types with bwrap, srt and docker run, each a new
// process.
func benchCLI(ctx context.Context, b *bench) error {
	b.logLoad()
	defer b.logLoad()
	bin, err := b.buildCroft(ctx)
	if err != nil {
		return err
	}
	dir, err := b.tempDir()
	if err != nil {
		return err
	}
	croft := func(args ...string) error {
		out, err := exec.CommandContext(ctx, bin, append(args, "--data", filepath.Join(dir, "data"))...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("croft %v: %w: %s", args, err, out)
		}
		return nil
	}
	ours := repeatSide(func() error {
		return exec.CommandContext(ctx, bin, "run", "--data", filepath.Join(dir, "data"), "--", "true").Run()
	})
	list := repeatSide(func() error { return croft("ws", "list") })
	template := filepath.Join(dir, "template")
	if err := fillTemplate(template); err != nil {
		return err
	}
	if err := croft("ws", "open", "origin", "--template", template); err != nil {
		return err
	}
	forks := 0
	fork := repeatSide(func() error {
		forks++
		return croft("ws", "fork", "origin", fmt.Sprintf("fork%d", forks))
	})
	b.between = func() {
		for ; forks > 0; forks-- {
			croft("ws", "rm", fmt.Sprintf("fork%d", forks)) // the directory goes with the family
		}
	}
	b.addCleanup(func() { croft("ws", "rm", "origin") }) // likewise
	b.addCleanup(b.between)
	rows := func(ref string, theirs side) error {
		for _, row := range []struct {
			name string
			ours side
			most int64
		}{{"croft run -- true", ours, cliRunMost}, {"croft ws fork, 10,000 files", fork, cliForkMost}, {"croft ws list", list, cliListMost}} {
			if err := b.compareSides(ctx, row.name, ref, 0, row.ours, theirs); err != nil {
				return err
			}
			b.atMost(row.most)
		}
		return nil
	}
	if err := benchWork(ctx, b, bin, dir); err != nil {
		return err
	}
	if _, err := exec.LookPath("srt"); err != nil {
		fmt.Fprintln(b.log, "cli: no srt here to compare with (npm install -g @anthropic-ai/sandbox-runtime; it needs bwrap, socat and rg)")
	} else if err := b.compareSides(ctx, "croft run -- true", "srt true", 0, ours, repeatSide(func() error { return exec.CommandContext(ctx, "srt", "true").Run() })); err != nil {
		return err
	}
	if _, err := exec.LookPath("bwrap"); err != nil {
		fmt.Fprintln(b.log, "cli: no bwrap here to compare with")
	} else if err := rows("bwrap --unshare-all", repeatSide(func() error {
		return exec.CommandContext(ctx, "bwrap", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true").Run()
	})); err != nil {
		return err
	}
	if missing := testenv.DockerMissing(); missing != "" {
		fmt.Fprintln(b.log, "cli: no engine can be started here:", missing)
		return nil
	}
	d, err := testenv.StartDockerd(ctx)
	if err != nil {
		return err
	}
	b.addCleanup(func() { d.Stop() }) // what is left of it is in a temporary directory
	return rows("docker run", dockerCommand(ctx, d.Host(), dockerTrue...))
}

// benchWork compares croft work in a repository of 20,000 files with other ways to have a
// copy of it.
func benchWork(ctx context.Context, b *bench, bin, dir string) error {
	project, copies := filepath.Join(dir, "project"), filepath.Join(dir, "copies")
	in := func(words ...string) error {
		cmd := exec.CommandContext(ctx, words[0], words[1:]...)
		cmd.Dir, cmd.Env = project, append(os.Environ(), "HOME="+dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w: %s", words, err, out)
		}
		return nil
	}
	for _, half := range []string{"a", "b"} {
		if err := fillTemplate(filepath.Join(project, half)); err != nil {
			return err
		}
	}
	for _, words := range [][]string{{"git", "init", "--quiet"}, {"git", "add", "."}, {"git", "-c", "user.name=bench", "-c", "user.email=bench@example.com", "commit", "--quiet", "--message", "x"}} {
		if err := in(words...); err != nil {
			return err
		}
	}
	n, works := 0, 0
	next := func() string { n++; return filepath.Join(copies, strconv.Itoa(n)) }
	data := filepath.Join(dir, "data")
	start := func() error {
		works++
		return in(bin, "work", "--data", data, "--name", fmt.Sprintf("work%d", works), "--", "true")
	}
	between := b.between
	b.between = func() {
		for ; works > 0; works-- {
			in(bin, "work", "discard", "--yes", "--data", data, fmt.Sprintf("work%d", works)) // the directory goes with the family
		}
		os.RemoveAll(copies)           // likewise
		os.MkdirAll(copies, 0o755)     // the next turn fails without it
		in("git", "worktree", "prune") // likewise
	}
	defer func() { b.between(); b.between = between }()
	b.between()
	for _, ref := range []struct {
		name string
		side func() error
	}{{"git worktree add", func() error { return in("git", "worktree", "add", "--quiet", "--detach", next()) }}, {"cp -a", func() error { return in("cp", "-a", project, next()) }}} {
		if err := b.compareSides(ctx, "croft work -- true, 20,000 files", ref.name, 0, repeatSide(start), repeatSide(ref.side)); err != nil {
			return err
		}
		b.atMost(cliWorkMost)
	}
	return nil
}
