package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/workspace/driver"
)

// benchExec compares running a program in a live sandbox with a plain child of
// this process, and with what people use to fence a single command.
func benchExec(ctx context.Context, b *bench) error {
	p, err := sandboxProvider(ctx, b)
	if err != nil {
		return err
	}
	ws, err := p.Open(ctx, driver.Spec{ID: driver.NewID(), Kind: sandbox.Kind})
	if err != nil {
		return err
	}
	b.cleanup(func() { ws.Life.Destroy(context.WithoutCancel(ctx)) }) // the directory goes with the family
	ours := once(func() error {
		res, err := ws.Shell.Run(ctx, driver.Command{Argv: []string{"true"}})
		if err == nil && res.ExitCode != 0 {
			err = fmt.Errorf("true gives %+v", res)
		}
		return err
	})
	plain := once(func() error { return exec.CommandContext(ctx, "true").Run() })
	if err := b.compare(ctx, "true in a live sandbox", "fork and exec", 1.4, ours, plain); err != nil {
		return err
	}
	if _, err := exec.LookPath("bwrap"); err != nil {
		fmt.Fprintln(b.log, "exec: no bwrap here to compare with")
		return nil
	}
	bwrap := once(func() error {
		return exec.CommandContext(ctx, "bwrap", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true").Run()
	})
	return b.compare(ctx, "true in a live sandbox", "bwrap --unshare-all", 0, ours, bwrap)
}

// sandboxProvider builds croft-guest and a provider that uses it.
func sandboxProvider(ctx context.Context, b *bench) (*sandbox.Provider, error) {
	dir, err := b.tempDir()
	if err != nil {
		return nil, err
	}
	bin := filepath.Join(dir, "croft-guest")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", bin, "github.com/croft-run/croft/cmd/croft-guest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build croft-guest: %w: %s", err, out)
	}
	return sandbox.New(&sandbox.Config{Root: filepath.Join(dir, "ws"), Guest: bin})
}

// templateFiles is how many files the template of benchOpen has.
const templateFiles = 10_000

// benchOpen compares a workspace from a template, from nothing to the first
// output of a command, with a copy of the template alone.
func benchOpen(ctx context.Context, b *bench) error {
	p, err := sandboxProvider(ctx, b)
	if err != nil {
		return err
	}
	dir, err := b.tempDir()
	if err != nil {
		return err
	}
	template := filepath.Join(dir, "template")
	for i := range templateFiles {
		name := filepath.Join(template, fmt.Sprintf("d%d/e%d/f%d", i%20, i%400, i))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, make([]byte, 2048), 0o600); err != nil {
			return err
		}
	}
	var opened []*driver.Workspace
	b.cleanup(func() {
		for _, ws := range opened {
			ws.Life.Destroy(context.WithoutCancel(ctx)) // the directory goes with the family
		}
	})
	ours := once(func() error {
		ws, err := p.Open(ctx, driver.Spec{ID: driver.NewID(), Kind: sandbox.Kind, From: driver.Source{Template: template}})
		if err != nil {
			return err
		}
		opened = append(opened, ws)
		res, err := ws.Shell.Run(ctx, driver.Command{Argv: []string{"ls", "d0"}})
		if err == nil && len(res.Stdout) == 0 {
			err = fmt.Errorf("ls gives %+v", res)
		}
		return err
	})
	copies := 0
	cp := once(func() error {
		copies++
		return exec.CommandContext(ctx, "cp", "-a", template, filepath.Join(dir, fmt.Sprintf("copy%d", copies))).Run()
	})
	return b.compare(ctx, "open to first output, 10,000 files", "cp -a", 0, ours, cp)
}
