// Package concurrency is a concurrency limit for the commands of all workspaces of a
// server.
//
// A command beyond the limit is refused at once with ResourceExhausted. It does not
// wait in a queue, because to an agent that would look like a command that hangs.
package concurrency

import (
	"context"
	"fmt"
	"sync"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// A Limit counts running commands. Any number of providers may share a Limit.
type Limit struct {
	most int

	mu   sync.Mutex
	now  int            // guarded by mu
	done bool           // guarded by mu
	wg   sync.WaitGroup // goroutines that wait for the end of a session
	ctx  context.Context
	end  context.CancelFunc
}

// New returns a limit of max commands. Close ends it.
func New(ctx context.Context, most int) *Limit {
	c := &Limit{most: most}
	c.ctx, c.end = context.WithCancel(context.WithoutCancel(ctx))
	return c
}

// Close stops counting; sessions that still run continue.
func (c *Limit) Close() error {
	c.mu.Lock()
	c.done = true
	c.mu.Unlock()
	c.end()
	c.wg.Wait()
	return nil
}

// acquire counts one more command, or refuses it.
func (c *Limit) acquire() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now >= c.most {
		return fmt.Errorf("run a command: %w: %d commands are running, which is the limit (caps.maxCommands); wait until one ends, or end one", fault.ResourceExhausted, c.now)
	}
	c.now++
	return nil
}

func (c *Limit) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now--
}

// releaseAfter releases the count when a session ends.
func (c *Limit) releaseAfter(s *driver.Session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done {
		return
	}
	c.wg.Go(func() {
		defer c.release()
		_, _ = s.Wait(c.ctx) // it has ended, or the limit is closed
	})
}

// Wrap returns p with its commands limited.
func (c *Limit) Wrap(p driver.Provider) *Provider { return &Provider{Provider: p, cap: c} }

// A Provider is a provider whose commands are limited.
type Provider struct {
	driver.Provider
	cap *Limit
}

// Unwrap returns the wrapped provider.
func (p *Provider) Unwrap() driver.Provider { return p.Provider }

// Open opens the workspace with limited commands.
func (p *Provider) Open(ctx context.Context, spec driver.Spec) (*driver.Workspace, error) {
	return p.wrapWorkspace(p.Provider.Open(ctx, spec))
}

// Resolve attaches to the workspace with limited commands.
func (p *Provider) Resolve(ctx context.Context, ref driver.Ref) (*driver.Workspace, error) {
	return p.wrapWorkspace(p.Provider.Resolve(ctx, ref))
}

func (p *Provider) wrapWorkspace(ws *driver.Workspace, err error) (*driver.Workspace, error) {
	if err != nil || ws.Shell == nil {
		return ws, err
	}
	out, shell := *ws, *ws.Shell
	shell.Starter = limitedStarter{p.cap, ws.Shell.Starter}
	if run := ws.Shell.Run; run != nil {
		shell.Run = func(ctx context.Context, cmd driver.Command) (driver.Result, error) {
			if err := p.cap.acquire(); err != nil {
				return driver.Result{}, err
			}
			defer p.cap.release()
			return run(ctx, cmd)
		}
	}
	out.Shell = &shell
	return &out, nil
}

// A limitedStarter is a driver.Starter whose commands are limited.
type limitedStarter struct {
	cap  *Limit
	next driver.Starter
}

// Start starts a command if the limit allows it.
func (s limitedStarter) Start(ctx context.Context, cmd driver.Command) (*driver.Session, error) {
	if err := s.cap.acquire(); err != nil {
		return nil, err
	}
	session, err := s.next.Start(ctx, cmd)
	if err != nil {
		s.cap.release()
		return nil, err
	}
	s.cap.releaseAfter(session)
	return session, nil
}
