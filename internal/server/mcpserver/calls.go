package mcpserver

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
)

// calls tracks the running calls of each session, so that they can be cancelled.
type calls struct {
	mu       sync.Mutex
	closed   bool                // guarded by mu
	sessions map[string]*session // guarded by mu
	running  sync.WaitGroup
}

// A session is a client with at least one connection or call.
type session struct {
	conns     int
	calls     map[*call]bool
	goneTimer *time.Timer // runs while it has calls and no connection
	ended     bool        // the client ended it
}

type call struct{ cancel context.CancelCauseFunc }

var (
	errClientGone = fmt.Errorf("mcpserver: the client disconnected: %w", fault.Canceled)
	errEnded      = fmt.Errorf("mcpserver: the client has ended its session: %w", fault.Canceled)
)

func (c *calls) sessionLocked(id string) *session {
	if c.sessions == nil {
		c.sessions = map[string]*session{}
	}
	s := c.sessions[id]
	if s == nil {
		s = &session{calls: map[*call]bool{}}
		c.sessions[id] = s
	}
	return s
}

// removeIdleLocked removes a session without connections and calls.
func (c *calls) removeIdleLocked(id string, s *session) {
	if s.conns == 0 && len(s.calls) == 0 {
		if s.goneTimer != nil {
			s.goneTimer.Stop()
		}
		delete(c.sessions, id)
	}
}

type streamKey struct{}

// A stream is the single connection of an SSE session. The SDK has no id for such a
// session, so it gets one here.
type stream struct {
	context.Context
	id string
}

// withStream returns a context for an SSE session. Calls of the session are cancelled
// when ctx ends, although the SDK passes them only its values.
func withStream(ctx context.Context) (context.Context, stream) {
	s := stream{ctx, "sse-" + rand.Text()}
	return context.WithValue(ctx, streamKey{}, s), s
}

// beginCall registers a call. done must be called at its end.
func (c *calls) beginCall(ctx context.Context, id string) (_ context.Context, done func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, nil, fmt.Errorf("mcpserver: %w: the server is shutting down; try again later", fault.Unavailable)
	}
	s := c.sessionLocked(id)
	if s.ended {
		return nil, nil, errEnded
	}
	ctx, cancel := context.WithCancelCause(ctx)
	one := &call{cancel}
	s.calls[one] = true
	c.running.Add(1)
	stop := func() bool { return true }
	if stream, ok := ctx.Value(streamKey{}).(stream); ok {
		stop = context.AfterFunc(stream, func() { cancel(errClientGone) })
	}
	return ctx, func() {
		stop()
		cancel(nil)
		c.mu.Lock()
		delete(s.calls, one)
		c.removeIdleLocked(id, s)
		c.mu.Unlock()
		c.running.Done()
	}, nil
}

// addConnection registers a connection of a client. leave must be called at its end;
// broken means that the client dropped the connection. Without a new connection within
// grace the client's calls are cancelled.
func (c *calls) addConnection(id string, grace time.Duration) (leave func(broken bool)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.sessionLocked(id)
	s.conns++
	if s.goneTimer != nil {
		s.goneTimer.Stop()
		s.goneTimer = nil
	}
	return func(broken bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		s.conns--
		if s.conns == 0 && len(s.calls) > 0 && broken {
			s.goneTimer = time.AfterFunc(grace, func() { c.cancelAbandoned(id, s) })
		}
		c.removeIdleLocked(id, s)
	}
}

// cancelAbandoned cancels the calls of a client that did not reconnect.
func (c *calls) cancelAbandoned(id string, s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.conns > 0 || c.sessions[id] != s {
		return
	}
	for one := range s.calls {
		one.cancel(errClientGone)
	}
}

// endSession cancels the calls of a client that ends its session, and refuses new ones.
// The SDK waits for the calls.
func (c *calls) endSession(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.sessionLocked(id)
	s.ended = true
	for one := range s.calls {
		one.cancel(errEnded)
	}
}

// close cancels every call, refuses new ones, and waits.
func (c *calls) close() {
	c.mu.Lock()
	c.closed = true
	for _, s := range c.sessions {
		for one := range s.calls {
			one.cancel(errClientGone)
		}
	}
	c.mu.Unlock()
	c.running.Wait()
}
