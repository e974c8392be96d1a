// Package limit bounds what the callers of a provider may ask of it: how many
// workspaces it holds, how many calls run at once, and how many begin in a
// second. What is past a bound waits for its turn as long as Options allow, and is
// then refused as resource exhausted, without any effect. (Package capped bounds
// commands over all providers of a server, and never waits.)
package limit

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// Options are the bounds; 0 is none.
type Options struct {
	Workspaces int           // that are held by this process at the same time
	Calls      int           // of modules that run at the same time
	Rate       float64       // calls of modules that begin in a second
	Burst      int           // of them at once, after a pause; 0 is one second's
	Wait       time.Duration // for a turn; 0 refuses at once
}

// A Provider keeps its callers within bounds.
type Provider struct {
	driver.Provider
	opts  Options
	held  chan struct{} // a place per workspace; nil is no bound
	calls chan struct{} // a place per call; nil is no bound
	rate  *bucket       // nil is no bound
}

// Wrap returns p within bounds.
func Wrap(p driver.Provider, opts Options) (*Provider, error) {
	if opts.Workspaces < 0 || opts.Calls < 0 || opts.Rate < 0 || opts.Burst < 0 || opts.Wait < 0 {
		return nil, fmt.Errorf("limit: wrap %s: %w: a bound must not be negative", p.Kind(), fault.InvalidArgument)
	}
	out := &Provider{Provider: p, opts: opts}
	if opts.Workspaces > 0 {
		out.held = make(chan struct{}, opts.Workspaces)
	}
	if opts.Calls > 0 {
		out.calls = make(chan struct{}, opts.Calls)
	}
	if opts.Rate > 0 {
		out.rate = newBucket(opts.Rate, opts.Burst)
	}
	return out, nil
}

// Unwrap returns the provider itself.
func (p *Provider) Unwrap() driver.Provider { return p.Provider }

// Open opens the workspace if there is room for it.
func (p *Provider) Open(ctx context.Context, spec driver.Spec) (*driver.Workspace, error) {
	return p.hold(ctx, func() (*driver.Workspace, error) { return p.Provider.Open(ctx, spec) })
}

// Resolve attaches to the workspace if there is room for it.
func (p *Provider) Resolve(ctx context.Context, ref driver.Ref) (*driver.Workspace, error) {
	return p.hold(ctx, func() (*driver.Workspace, error) { return p.Provider.Resolve(ctx, ref) })
}

// Close closes the provider, if it wants to be closed.
func (p *Provider) Close() error {
	if c, ok := p.Provider.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// hold takes a place for a handle, until it is closed or destroyed.
func (p *Provider) hold(ctx context.Context, open func() (*driver.Workspace, error)) (*driver.Workspace, error) {
	if err := p.take(ctx, p.held, "workspaces"); err != nil {
		return nil, err
	}
	give := sync.OnceFunc(func() { give(p.held) })
	ws, err := open()
	if err != nil {
		give()
		return nil, err
	}
	return driver.Around(ws, func(ctx context.Context, call driver.Call, next func(context.Context) error) error {
		err := p.bounded(ctx, call, next)
		if err == nil && (call.Verb == "life.Close" || call.Verb == "life.Destroy") {
			give()
		}
		return err
	}), nil
}

// bounded runs a call when it is its turn. What ends a thing, or waits for the
// end of one, is never kept waiting: that would keep a place from becoming free.
func (p *Provider) bounded(ctx context.Context, call driver.Call, next func(context.Context) error) error {
	if module, _, _ := strings.Cut(call.Verb, "."); module == "life" || module == "session" {
		return next(ctx)
	}
	if err := p.rate.take(ctx, p.opts.Wait); err != nil {
		return fmt.Errorf("limit: %s: %w", call.Verb, err)
	}
	if err := p.take(ctx, p.calls, "calls"); err != nil {
		return fmt.Errorf("limit: %s: %w", call.Verb, err)
	}
	defer give(p.calls)
	return next(ctx)
}

// take takes a place, waiting for one as long as is allowed.
func (p *Provider) take(ctx context.Context, places chan struct{}, what string) error {
	if places == nil {
		return nil
	}
	select {
	case places <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(p.opts.Wait)
	defer timer.Stop()
	select {
	case places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for a turn: %w: %w", fault.Of(ctx.Err()), ctx.Err())
	case <-timer.C:
		return fmt.Errorf("%w: %d %s are in use, and no more are allowed at once; end one, or try again", fault.ResourceExhausted, cap(places), what)
	}
}

func give(places chan struct{}) {
	if places != nil {
		<-places
	}
}

// A bucket lets so many begin in a second, and some at once after a pause.
type bucket struct {
	rate, most float64

	mu   sync.Mutex
	full float64   // guarded by mu; negative is owed by those who wait
	last time.Time // guarded by mu
}

func newBucket(rate float64, burst int) *bucket {
	most := float64(burst)
	if burst == 0 {
		most = max(1, rate)
	}
	return &bucket{rate: rate, most: most, full: most, last: time.Now()}
}

// take waits for a turn, at most so long. Who is refused takes nothing.
func (b *bucket) take(ctx context.Context, most time.Duration) error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	now := time.Now()
	b.full = min(b.most, b.full+now.Sub(b.last).Seconds()*b.rate)
	b.last = now
	wait := time.Duration((1 - b.full) / b.rate * float64(time.Second))
	if wait > most {
		b.mu.Unlock()
		return fmt.Errorf("%w: %g calls a second are allowed; try again in %v", fault.ResourceExhausted, b.rate, wait.Round(time.Millisecond))
	}
	b.full--
	b.mu.Unlock()
	if wait <= 0 {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for a turn: %w: %w", fault.Of(ctx.Err()), ctx.Err())
	}
}
