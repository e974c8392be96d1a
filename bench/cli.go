package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/provider/docker"
)

// What commands of croft may take, from the start of the program to its end.
const (
	cliRunMost  = int64(45 * time.Millisecond) // croft run -- true
	cliForkMost = int64(60 * time.Millisecond) // croft ws fork of templateFiles files
	cliListMost = int64(25 * time.Millisecond) // croft ws list
)

// benchCLI compares commands that a person types with bwrap and docker run, each a new
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
	return rows("docker run", repeatSide(func() error {
		return exec.CommandContext(ctx, "docker", "-H", d.Host(), "run", "--rm", "--network", "none", docker.DefaultImage, "true").Run()
	}))
}
