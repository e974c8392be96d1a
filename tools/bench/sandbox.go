package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// benchExec compares running a program in a live sandbox with a plain child process, and
// with bubblewrap.
func benchExec(ctx context.Context, b *bench) error {
	p, err := sandboxProvider(ctx, b)
	if err != nil {
		return err
	}
	ws, err := p.Open(ctx, driver.Spec{ID: driver.NewID(), Kind: sandbox.Kind})
	if err != nil {
		return err
	}
	b.addCleanup(func() { ws.Life.Destroy(context.WithoutCancel(ctx)) }) // the directory goes with the family
	ours := repeatSide(func() error { return runTrue(ctx, ws) })
	plain := repeatSide(func() error { return exec.CommandContext(ctx, "true").Run() })
	if err := b.compareSides(ctx, "true in a live sandbox", "fork and exec", 2, ours, plain); err != nil {
		return err
	}
	w, err := workspace.New(driver.NewID(), ws, nil, nil)
	if err != nil {
		return err
	}
	library := repeatSide(func() error { return w.Command(ctx, "true").Run() })
	if err := b.compareSides(ctx, "true by workspace.Command", "the driver alone", 1.5, library, ours); err != nil {
		return err
	}
	if _, err := exec.LookPath("bwrap"); err != nil {
		fmt.Fprintln(b.log, "exec: no bwrap here to compare with")
		return nil
	}
	bwrap := repeatSide(func() error {
		return exec.CommandContext(ctx, "bwrap", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true").Run()
	})
	return b.compareSides(ctx, "true in a live sandbox", "bwrap --unshare-all", 0, ours, bwrap)
}

// sandboxProvider builds croft-guest and a provider that uses it.
func sandboxProvider(ctx context.Context, b *bench) (*sandbox.Provider, error) {
	dir, err := b.tempDir()
	if err != nil {
		return nil, err
	}
	return sandboxProviderAt(ctx, b, dir)
}

// sandboxProviderAt is sandboxProvider with the workspaces below dir/ws.
func sandboxProviderAt(ctx context.Context, b *bench, dir string) (*sandbox.Provider, error) {
	bin, err := buildGuest(ctx, dir)
	if err != nil {
		return nil, err
	}
	p, err := sandbox.New(&sandbox.Config{Root: filepath.Join(dir, "ws"), Guest: bin})
	if err == nil {
		b.addCleanup(func() { p.Close() })
	}
	return p, err
}

// buildGuest builds croft-guest in dir and returns its path.
func buildGuest(ctx context.Context, dir string) (string, error) {
	bin := filepath.Join(dir, "croft-guest")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", bin, "github.com/croft-run/croft/cmd/croft-guest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build croft-guest: %w: %s", err, out)
	}
	return bin, nil
}
