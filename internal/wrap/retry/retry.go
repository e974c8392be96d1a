// Package retry repeats transient failures of a provider with exponential backoff and
// jitter.
//
// Examples are a container engine that restarts and a cluster that is busy. Only
// errors that are marked transient are repeated (fault.IsTransient), and only calls
// that may run twice: those of the provider itself, which are idempotent by contract,
// reads of files, and the functions of driver.Life. A command or a write that may
// have happened is never repeated.
package retry

import (
	"context"
	"fmt"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/sleep"
	"github.com/croft-run/croft/workspace/driver"
)

// Options configure the backoff. The zero value is 3 retries within 10 seconds.
type Options struct {
	Retries int           // per call; 0 is 3
	For     time.Duration // sum of all waits; 0 is 10 s

	// Wait sleeps between two attempts; nil is a timer that respects the context.
	Wait func(ctx context.Context, d time.Duration) error
}

// A Provider repeats transient failures.
type Provider struct {
	driver.Provider
	opts Options
}

// Wrap returns p with its transient failures repeated.
func Wrap(p driver.Provider, opts Options) (*Provider, error) {
	if opts.Retries < 0 || opts.For < 0 {
		return nil, fmt.Errorf("retry: wrap %s: %w: retries and their time must not be negative", p.Kind(), fault.InvalidArgument)
	}
	if opts.Retries == 0 {
		opts.Retries = 3
	}
	if opts.For == 0 {
		opts.For = 10 * time.Second
	}
	if opts.Wait == nil {
		opts.Wait = sleep.For
	}
	return &Provider{Provider: p, opts: opts}, nil
}

// Unwrap returns the wrapped provider.
func (p *Provider) Unwrap() driver.Provider { return p.Provider }

// Probe calls Probe with retries.
func (p *Provider) Probe(ctx context.Context) (traits driver.Traits, err error) {
	err = p.callRetrying(ctx, func(ctx context.Context) error {
		traits, err = p.Provider.Probe(ctx)
		return err
	})
	return traits, err
}

// Open opens the workspace; a second attempt continues what the first one created.
func (p *Provider) Open(ctx context.Context, spec driver.Spec) (ws *driver.Workspace, err error) {
	err = p.callRetrying(ctx, func(ctx context.Context) error {
		ws, err = p.Provider.Open(ctx, spec)
		return err
	})
	return p.wrapWorkspace(ws, err)
}

// Resolve attaches to the workspace.
func (p *Provider) Resolve(ctx context.Context, ref driver.Ref) (ws *driver.Workspace, err error) {
	err = p.callRetrying(ctx, func(ctx context.Context) error {
		ws, err = p.Provider.Resolve(ctx, ref)
		return err
	})
	return p.wrapWorkspace(ws, err)
}

// Sweep calls Sweep with retries.
func (p *Provider) Sweep(ctx context.Context, live []string) error {
	return p.callRetrying(ctx, func(ctx context.Context) error { return p.Provider.Sweep(ctx, live) })
}

// repeatable are the calls that change nothing, or that are idempotent by contract.
var repeatable = map[string]bool{
	"fs.Stat": true, "fs.ReadDir": true, "fs.Read": true, "fs.List": true, "fs.Glob": true, "fs.Grep": true, "fs.Digest": true, "fs.ChangedPaths": true, "fs.GitDirs": true,
	"shell.Sessions": true, "shell.Attach": true, "session.State": true, "session.Log": true,
	"code.Contexts": true, "script.Contexts": true,
	"snapshot.List": true, "snapshot.Files": true,
	"life.Close": true, "life.Destroy": true, "life.Pause": true, "life.Resume": true, "life.Metrics": true,
}

func (p *Provider) wrapWorkspace(ws *driver.Workspace, err error) (*driver.Workspace, error) {
	if err != nil {
		return nil, err
	}
	return driver.Around(ws, func(ctx context.Context, call driver.Call, next func(context.Context) error) error {
		if !repeatable[call.Verb] {
			return next(ctx)
		}
		return p.callRetrying(ctx, next)
	}), nil
}

// callRetrying repeats a call until it succeeds, fails permanently, or has used its retries.
func (p *Provider) callRetrying(ctx context.Context, call func(context.Context) error) error {
	for n := 0; ; n++ {
		err := call(ctx)
		if err == nil || !fault.IsTransient(err) || n >= p.opts.Retries {
			return err
		}
		if p.opts.Wait(ctx, sleep.Backoff(p.opts.For, p.opts.Retries, n)) != nil {
			return err // the context ended; the error of the call says more
		}
	}
}
