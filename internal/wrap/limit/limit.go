// Package limit bounds the use of a provider: open workspaces, concurrent calls, and
// calls per second.
//
// A call beyond a bound waits for Options.Wait, and is then refused with
// ResourceExhausted, without any effect. (Package concurrency limits commands over
// all providers of a server, and never waits.)
package limit

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// Options are the bounds; 0 is no bound.
type Options struct {
	Workspaces int           // open workspaces of this process
	Calls      int           // concurrent calls of modules
	Rate       float64       // calls of modules per second (token bucket)
	Burst      int           // size of the token bucket; 0 is the tokens of one second
	Wait       time.Duration // maximum wait; 0 refuses at once
}

// A Provider bounds its use.
type Provider struct {
	driver.Provider
	opts           Options
	workspaceSlots chan struct{} // semaphore of workspaces; nil is no bound
	calls          chan struct{} // semaphore of calls; nil is no bound
	rate           *tokenBucket  // nil is no bound
}

// Wrap returns p with bounds.
func Wrap(p driver.Provider, opts Options) (*Provider, error) {
	if opts.Workspaces < 0 || opts.Calls < 0 || opts.Rate < 0 || opts.Burst < 0 || opts.Wait < 0 {
		return nil, fmt.Errorf("limit: wrap %s: %w: a bound must not be negative", p.Kind(), fault.InvalidArgument)
	}
	out := &Provider{Provider: p, opts: opts}
	if opts.Workspaces > 0 {
		out.workspaceSlots = make(chan struct{}, opts.Workspaces)
	}
	if opts.Calls > 0 {
		out.calls = make(chan struct{}, opts.Calls)
	}
	if opts.Rate > 0 {
		out.rate = newBucket(opts.Rate, opts.Burst)
	}
	return out, nil
}

// Unwrap returns the wrapped provider.
func (p *Provider) Unwrap() driver.Provider { return p.Provider }

// Open opens the workspace if the bound allows it.
func (p *Provider) Open(ctx context.Context, spec driver.Spec) (*driver.Workspace, error) {
	return p.openWithSlot(ctx, func() (*driver.Workspace, error) { return p.Provider.Open(ctx, spec) })
}

// Resolve attaches to the workspace if the bound allows it.
func (p *Provider) Resolve(ctx context.Context, ref driver.Ref) (*driver.Workspace, error) {
	return p.openWithSlot(ctx, func() (*driver.Workspace, error) { return p.Provider.Resolve(ctx, ref) })
}

// openWithSlot takes a slot for a handle, until the handle is closed or destroyed.
func (p *Provider) openWithSlot(ctx context.Context, open func() (*driver.Workspace, error)) (*driver.Workspace, error) {
	if err := p.acquireSlot(ctx, p.workspaceSlots, "workspaces"); err != nil {
		return nil, err
	}
	give := sync.OnceFunc(func() { releaseSlot(p.workspaceSlots) })
	ws, err := open()
	if err != nil {
		give()
		return nil, err
	}
	return driver.Around(ws, func(ctx context.Context, call driver.Call, next func(context.Context) error) error {
		err := p.callWithinBounds(ctx, call, next)
		if err == nil && (call.Verb == "life.Close" || call.Verb == "life.Destroy") {
			give()
		}
		return err
	}), nil
}

// callWithinBounds runs a call within the bounds. Calls that end something, or wait for an
// end, are never delayed: that would keep a slot from becoming free.
func (p *Provider) callWithinBounds(ctx context.Context, call driver.Call, next func(context.Context) error) error {
	if module, _, _ := strings.Cut(call.Verb, "."); module == "life" || module == "session" {
		return next(ctx)
	}
	if err := p.rate.acquireToken(ctx, p.opts.Wait); err != nil {
		return fmt.Errorf("limit: %s: %w", call.Verb, err)
	}
	if err := p.acquireSlot(ctx, p.calls, "calls"); err != nil {
		return fmt.Errorf("limit: %s: %w", call.Verb, err)
	}
	defer releaseSlot(p.calls)
	return next(ctx)
}

// acquireSlot takes a slot of a semaphore, waiting up to Options.Wait.
func (p *Provider) acquireSlot(ctx context.Context, places chan struct{}, what string) error {
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
		return fmt.Errorf("wait for a free slot: %w: %w", fault.Of(ctx.Err()), ctx.Err())
	case <-timer.C:
		return fmt.Errorf("%w: %d %s are in use, and no more are allowed at once; end one, or try again", fault.ResourceExhausted, cap(places), what)
	}
}

func releaseSlot(places chan struct{}) {
	if places != nil {
		<-places
	}
}

// A tokenBucket is a token bucket: rate tokens per second, up to a burst.
type tokenBucket struct {
	rate, most float64

	mu   sync.Mutex
	full float64   // guarded by mu; tokens; negative is promised to waiters
	last time.Time // guarded by mu
}

func newBucket(rate float64, burst int) *tokenBucket {
	most := float64(burst)
	if burst == 0 {
		most = max(1, rate)
	}
	return &tokenBucket{rate: rate, most: most, full: most, last: time.Now()}
}

// acquireToken waits for a token, at most for most. A refused call takes no token.
func (b *tokenBucket) acquireToken(ctx context.Context, most time.Duration) error {
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
		return fmt.Errorf("%w: %g calls per second are allowed; try again in %v", fault.ResourceExhausted, b.rate, wait.Round(time.Millisecond))
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
		return fmt.Errorf("wait for a token: %w: %w", fault.Of(ctx.Err()), ctx.Err())
	}
}
