// Package concurrency bounds how many commands run at the same time, over all the
// workspaces of a server. One that is past the bound is refused at once, as
// resource exhausted: what waits in a queue here would look to an agent like a
// command that hangs.
package concurrency

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// A Limit counts commands that run. Any number of providers may share one.
type Limit struct {
	most int

	mu   sync.Mutex
	now  int            // guarded by mu
	done bool           // guarded by mu
	wg   sync.WaitGroup // of those who wait for the end of a session
	ctx  context.Context
	end  context.CancelFunc
}

// New returns a cap of so many commands. Close ends it.
func New(ctx context.Context, most int) *Limit {
	c := &Limit{most: most}
	c.ctx, c.end = context.WithCancel(context.WithoutCancel(ctx))
	return c
}

// Close lets go of the sessions that still run, which goes on without counting.
func (c *Limit) Close() error {
	c.mu.Lock()
	c.done = true
	c.mu.Unlock()
	c.end()
	c.wg.Wait()
	return nil
}

// take counts one more command, or refuses it.
func (c *Limit) take() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now >= c.most {
		return fmt.Errorf("run a command: %w: %d run already, and caps.maxCommands allows no more; wait until one ends, or end one", fault.ResourceExhausted, c.now)
	}
	c.now++
	return nil
}

func (c *Limit) give() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now--
}

// until gives back what was taken when a session ends.
func (c *Limit) until(s *driver.Session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done {
		return
	}
	c.wg.Go(func() {
		defer c.give()
		_, _ = s.Wait(c.ctx) // however it ends, it runs no longer, or nobody counts
	})
}

// Wrap returns p with its commands counted.
func (c *Limit) Wrap(p driver.Provider) *Provider { return &Provider{Provider: p, cap: c} }

// A Provider is one whose commands count.
type Provider struct {
	driver.Provider
	cap *Limit
}

// Unwrap returns the provider itself.
func (p *Provider) Unwrap() driver.Provider { return p.Provider }

// Open opens the workspace with commands that count.
func (p *Provider) Open(ctx context.Context, spec driver.Spec) (*driver.Workspace, error) {
	return p.capped(p.Provider.Open(ctx, spec))
}

// Resolve attaches to the workspace with commands that count.
func (p *Provider) Resolve(ctx context.Context, ref driver.Ref) (*driver.Workspace, error) {
	return p.capped(p.Provider.Resolve(ctx, ref))
}

func (p *Provider) capped(ws *driver.Workspace, err error) (*driver.Workspace, error) {
	if err != nil || ws.Shell == nil {
		return ws, err
	}
	out, shell := *ws, *ws.Shell
	shell.Starter = starter{p.cap, ws.Shell.Starter}
	if run := ws.Shell.Run; run != nil {
		shell.Run = func(ctx context.Context, cmd driver.Command) (driver.Result, error) {
			if err := p.cap.take(); err != nil {
				return driver.Result{}, err
			}
			defer p.cap.give()
			return run(ctx, cmd)
		}
	}
	out.Shell = &shell
	return &out, nil
}

// Close closes the provider, if it wants to be closed.
func (p *Provider) Close() error {
	if c, ok := p.Provider.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// A starter is a driver.Starter whose commands count.
type starter struct {
	cap  *Limit
	next driver.Starter
}

// Start starts a command if there is room for it.
func (s starter) Start(ctx context.Context, cmd driver.Command) (*driver.Session, error) {
	if err := s.cap.take(); err != nil {
		return nil, err
	}
	session, err := s.next.Start(ctx, cmd)
	if err != nil {
		s.cap.give()
		return nil, err
	}
	s.cap.until(session)
	return session, nil
}
