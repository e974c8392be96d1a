package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/workspace/driver"
)

// templateFiles is how many files the template of benchOpen has.
const templateFiles = 10_000

// openMost bounds the time from opening a workspace to its first output.
const openMost = int64(25 * time.Millisecond)

// benchOpen compares a workspace from a template, from nothing to the first
// output of a command, with a copy of the template alone, and with a command
// that bubblewrap runs in the template itself.
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
	if err := fillTemplate(template); err != nil {
		return err
	}
	var opened []*driver.Workspace
	b.between = func() {
		for _, ws := range opened {
			ws.Life.Destroy(context.WithoutCancel(ctx)) // the directory goes with the family
		}
		opened = nil
	}
	b.addCleanup(b.between)
	ours := repeatSide(func() error {
		ws, err := openAndList(ctx, p, template)
		if ws != nil {
			opened = append(opened, ws)
		}
		return err
	})
	const name = "open to first output, 10,000 files"
	if _, err := exec.LookPath("bwrap"); err != nil {
		fmt.Fprintln(b.log, "open: no bwrap here to compare with")
	} else {
		bwrap := repeatSide(func() error {
			return exec.CommandContext(ctx, "bwrap", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev",
				"--bind", template, "/mnt", "--chdir", "/mnt", "ls", "d0").Run()
		})
		if err := b.compareSides(ctx, name, "bwrap in the template", 0, ours, bwrap); err != nil {
			return err
		}
		b.atMost(openMost)
	}
	copies := 0
	cp := repeatSide(func() error {
		copies++
		return exec.CommandContext(ctx, "cp", "-a", template, filepath.Join(dir, fmt.Sprintf("copy%d", copies))).Run()
	})
	if err := b.compareSides(ctx, name, "cp -a", 0, ours, cp); err != nil {
		return err
	}
	b.atMost(openMost)
	return nil
}

func fillTemplate(dir string) error {
	for i := range templateFiles {
		name := filepath.Join(dir, fmt.Sprintf("d%d/e%d/f%d", i%20, i%400, i))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, make([]byte, 2048), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// openAndList opens a workspace and waits for the first output in it.
func openAndList(ctx context.Context, p *sandbox.Provider, template string) (*driver.Workspace, error) {
	ws, err := p.Open(ctx, driver.Spec{ID: driver.NewID(), Kind: sandbox.Kind, From: driver.Source{Template: template}})
	if err != nil {
		return nil, err
	}
	res, err := ws.Shell.Run(ctx, driver.Command{Argv: []string{"ls", "d0"}})
	if err == nil && len(res.Stdout) == 0 {
		err = fmt.Errorf("ls gives %+v", res)
	}
	return ws, err
}
