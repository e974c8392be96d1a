package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"sync"

	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/workspace/driver"
)

// parallelRuns is how many commands run at the same time.
const parallelRuns = 200

// benchParallel runs many commands at once, in one workspace and each in a throwaway
// workspace. A single failure fails the family.
func benchParallel(ctx context.Context, b *bench) error {
	p, err := sandboxProvider(ctx, b)
	if err != nil {
		return err
	}
	ws, err := p.Open(ctx, driver.Spec{ID: driver.NewID(), Kind: sandbox.Kind})
	if err != nil {
		return err
	}
	b.addCleanup(func() { ws.Life.Destroy(context.WithoutCancel(ctx)) }) // the directory goes with the family
	plain := atOnce(func() error { return exec.CommandContext(ctx, "true").Run() })
	if err := b.compareSides(ctx, "200 at once in a live sandbox", "fork and exec", 0, atOnce(func() error { return runTrue(ctx, ws) }), plain); err != nil {
		return err
	}
	if _, err := exec.LookPath("bwrap"); err != nil {
		fmt.Fprintln(b.log, "parallel: no bwrap here to compare with")
		return nil
	}
	bwrap := atOnce(func() error {
		return exec.CommandContext(ctx, "bwrap", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true").Run()
	})
	return b.compareSides(ctx, "200 at once, each in a sandbox of its own", "bwrap --unshare-all", 0, atOnce(func() error { return runThrowaway(ctx, p) }), bwrap)
}

// atOnce does work parallelRuns times at the same time.
func atOnce(f func() error) side {
	return repeatSide(func() error {
		errs := make([]error, parallelRuns)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() { errs[i] = f() })
		}
		wg.Wait()
		return errors.Join(errs...)
	})
}

func runTrue(ctx context.Context, ws *driver.Workspace) error {
	res, err := ws.Shell.Run(ctx, driver.Command{Argv: []string{"true"}})
	if err == nil && (res.ExitCode != 0 || res.Cause != "") {
		err = fmt.Errorf("true gives %+v", res)
	}
	return err
}

// runThrowaway runs a command in a workspace of its own.
func runThrowaway(ctx context.Context, p *sandbox.Provider) error {
	ws, err := p.Open(ctx, driver.Spec{ID: driver.NewID(), Kind: sandbox.Kind, Config: json.RawMessage(`{"throwaway":true}`)})
	if err != nil {
		return err
	}
	return errors.Join(runTrue(ctx, ws), ws.Life.Destroy(context.WithoutCancel(ctx)))
}
