// Package retry repeats calls of a provider that fail for a while: an engine
// that restarts, a cluster that is busy. Only what is marked transient is
// repeated (fault.IsTransient), and only calls that may be made twice: those of
// the provider itself, which are idempotent by contract, looks at files, and the
// verbs of a workspace's life. A command or a write that may have happened is
// never made again.
package retry

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/sleep"
	"github.com/croft-run/croft/workspace/driver"
)

// Options say how often and for how long. The zero value is 3 retries within
// 10 seconds.
type Options struct {
	Retries int           // of one call; 0 is 3
	For     time.Duration // all waits between them together; 0 is 10 s

	// Wait sleeps between two tries; nil is a timer that the context ends.
	Wait func(ctx context.Context, d time.Duration) error
}

// A Provider repeats what fails for a while.
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

// Unwrap returns the provider itself.
func (p *Provider) Unwrap() driver.Provider { return p.Provider }

// Probe asks what the host gives.
func (p *Provider) Probe(ctx context.Context) (traits driver.Traits, err error) {
	err = p.try(ctx, func(ctx context.Context) error {
		traits, err = p.Provider.Probe(ctx)
		return err
	})
	return traits, err
}

// Open opens the workspace; a second try finds what the first has made.
func (p *Provider) Open(ctx context.Context, spec driver.Spec) (ws *driver.Workspace, err error) {
	err = p.try(ctx, func(ctx context.Context) error {
		ws, err = p.Provider.Open(ctx, spec)
		return err
	})
	return p.wrap(ws, err)
}

// Resolve attaches to the workspace.
func (p *Provider) Resolve(ctx context.Context, ref driver.Ref) (ws *driver.Workspace, err error) {
	err = p.try(ctx, func(ctx context.Context) error {
		ws, err = p.Provider.Resolve(ctx, ref)
		return err
	})
	return p.wrap(ws, err)
}

// Sweep removes what nobody owns.
func (p *Provider) Sweep(ctx context.Context, live []string) error {
	return p.try(ctx, func(ctx context.Context) error { return p.Provider.Sweep(ctx, live) })
}

// Close closes the provider, if it wants to be closed.
func (p *Provider) Close() error {
	if c, ok := p.Provider.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// repeatable are the calls that change nothing, or that the contract lets be
// made twice.
var repeatable = map[string]bool{
	"fs.Stat": true, "fs.ReadDir": true, "fs.Read": true, "fs.List": true, "fs.Glob": true, "fs.Grep": true, "fs.Digest": true, "fs.ChangedPaths": true,
	"shell.Sessions": true, "shell.Attach": true, "session.State": true, "session.Log": true,
	"code.Contexts": true, "script.Contexts": true,
	"snapshot.List": true, "snapshot.Files": true,
	"life.Close": true, "life.Destroy": true, "life.Pause": true, "life.Resume": true,
}

func (p *Provider) wrap(ws *driver.Workspace, err error) (*driver.Workspace, error) {
	if err != nil {
		return nil, err
	}
	return driver.Around(ws, func(ctx context.Context, call driver.Call, next func(context.Context) error) error {
		if !repeatable[call.Verb] {
			return next(ctx)
		}
		return p.try(ctx, next)
	}), nil
}

// try makes a call until it succeeds, fails for good, or has had its tries.
func (p *Provider) try(ctx context.Context, call func(context.Context) error) error {
	for n := 0; ; n++ {
		err := call(ctx)
		if err == nil || !fault.IsTransient(err) || n >= p.opts.Retries {
			return err
		}
		if p.opts.Wait(ctx, p.delay(n)) != nil {
			return err // the context ended: what failed says more
		}
	}
}

// delay is the wait before retry n. They double, and all of them together take
// at most For; the half of each is by chance, so that many do not come at once.
func (p *Provider) delay(n int) time.Duration {
	share := float64(p.opts.For) / float64((int64(1)<<min(p.opts.Retries, 30))-1)
	d := share * float64(int64(1)<<min(n, 30))
	return time.Duration(d/2 + rand.Float64()*d/2)
}
