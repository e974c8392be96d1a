package mcpserver

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
)

// calls knows what runs for whom, so that it can be ended.
type calls struct {
	mu       sync.Mutex
	closed   bool                // guarded by mu
	sessions map[string]*session // guarded by mu
	running  sync.WaitGroup
}

// A session is a client, as long as it has a connection or a call.
type session struct {
	conns     int
	calls     map[*call]bool
	goneTimer *time.Timer // set while it has calls and no connection
	ended     bool        // the client has said so
}

type call struct{ cancel context.CancelCauseFunc }

var (
	errClientGone = fmt.Errorf("mcpserver: the client is gone: %w", fault.Canceled)
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

// removeIdleLocked forgets a session with nothing left.
func (c *calls) removeIdleLocked(id string, s *session) {
	if s.conns == 0 && len(s.calls) == 0 {
		if s.goneTimer != nil {
			s.goneTimer.Stop()
		}
		delete(c.sessions, id)
	}
}

type streamKey struct{}

// A stream is the connection that is all of a session. The library knows no id of
// such a session, so that it gets one here.
type stream struct {
	context.Context
	id string
}

// withStream returns a context whose end is that of a client: the calls of the
// session that begins with it end then. They have its values, not its end.
func withStream(ctx context.Context) (context.Context, stream) {
	s := stream{ctx, "sse-" + rand.Text()}
	return context.WithValue(ctx, streamKey{}, s), s
}

// beginCall notes a call. done must be called when it has ended.
func (c *calls) beginCall(ctx context.Context, id string) (_ context.Context, done func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, nil, fmt.Errorf("mcpserver: %w: the server shuts down", fault.Unavailable)
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

// addConnection notes a connection of a client. leave must be called at its end, and
// says whether the client itself broke it off.
func (c *calls) addConnection(id string, patience time.Duration) (leave func(broken bool)) {
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
			s.goneTimer = time.AfterFunc(patience, func() { c.cancelAbandoned(id, s) })
		}
		c.removeIdleLocked(id, s)
	}
}

// cancelAbandoned ends the calls of a client that has not come back.
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

// endSession ends the calls of a client that ends its session, over a connection that it
// has, and lets no other begin. The library waits for them.
func (c *calls) endSession(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.sessionLocked(id)
	s.ended = true
	for one := range s.calls {
		one.cancel(errEnded)
	}
}

// close ends every call, lets none begin, and waits.
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
