package client

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/shellwire"
	"github.com/croft-run/croft/internal/tail"
	"github.com/croft-run/croft/workspace/driver"
)

// shell is the Shell module of one workspace. It records the connections of its commands,
// and closes them when the workspace is closed.
type shell struct {
	module

	mu     sync.Mutex
	closed bool             // guarded by mu
	conns  map[aborter]bool // guarded by mu
}

// An aborter is a WebSocket of a command, or of a connection to a port.
type aborter interface{ abort() }

func (c *Client) newShell(id string) *shell {
	return &shell{module: module{c, id}, conns: map[aborter]bool{}}
}

func (s *shell) driverModule(ws Workspace) *driver.Shell {
	m := &driver.Shell{Starter: s, Run: s.run, Sessions: s.listSessions, Attach: s.attachSession}
	if slices.Contains(ws.Functions, "dial") {
		m.Dial = s.dialPort
	}
	return m
}

// add records a connection, unless the workspace was closed.
func (s *shell) add(x aborter) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("client: workspace %s: %w: this handle on it was closed; acquire or open it again", s.id, fault.WrongState)
	}
	s.conns[x] = true
	return nil
}

func (s *shell) remove(x aborter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, x)
}

// close closes the connections. The server then ends their commands.
func (s *shell) close() {
	s.mu.Lock()
	s.closed = true
	var open []aborter
	for x := range s.conns {
		open = append(open, x)
	}
	s.mu.Unlock()
	for _, x := range open {
		x.abort()
	}
}

// cancelTimeout bounds how long a command that was cancelled may take to end.
const cancelTimeout = 30 * time.Second

// run runs a command in the foreground. If the connection breaks, the result has the
// cause lost.
func (s *shell) run(ctx context.Context, cmd driver.Command) (driver.Result, error) {
	if cmd.Interactive {
		return driver.Result{}, fmt.Errorf("client: run: %w: a foreground command can't be interactive; start it as a session", fault.InvalidArgument)
	}
	cmd.Detached = false
	received := func(f func([]byte) error) (*tail.HeadTail, func([]byte) error) { // for the result of a command whose connection broke
		const defaultMax = 1 << 20 // of driver.Command.MaxOutput
		kept := &tail.HeadTail{Most: int(min(cmp.Or(max(cmd.MaxOutput, 0), defaultMax), 64*defaultMax))}
		if f == nil {
			return kept, nil
		}
		return kept, func(data []byte) error { kept.Add(data); return f(data) }
	}
	stdout, onStdout := received(cmd.OnStdout)
	stderr, onStderr := received(cmd.OnStderr)
	cmd.OnStdout, cmd.OnStderr = onStdout, onStderr
	x, err := s.sendCommand(ctx, shellwire.TypeRun, cmd)
	if err != nil {
		return driver.Result{}, err
	}
	defer x.abort()
	select {
	case <-x.ended:
	case <-ctx.Done():
		x.cancelCommand(ctx)
		select {
		case <-x.ended:
		case <-time.After(cancelTimeout):
			x.abort()
		}
	}
	if x.result == nil && x.err == nil {
		res := driver.Result{ExitCode: -1, Cause: driver.CauseLost}
		res.Stdout, res.StdoutDropped = stdout.Bytes()
		res.Stderr, res.StderrDropped = stderr.Bytes()
		return x.completeResult(res), nil
	}
	if x.err != nil {
		return driver.Result{}, evictedError(x.err)
	}
	return x.completeResult(*x.result), nil
}

// Start starts a command as a session. A command that is not detached has a WebSocket
// connection of its own. The server ends the command when that connection ends: when ctx
// ends, when the workspace is closed, or when this process ends.
func (s *shell) Start(ctx context.Context, cmd driver.Command) (*driver.Session, error) {
	if cmd.Detached && cmd.Stdin == nil && cmd.OnStdout == nil && cmd.OnStderr == nil {
		return s.startDetached(ctx, cmd)
	}
	x, err := s.sendCommand(ctx, shellwire.TypeStart, cmd)
	if err != nil {
		return nil, err
	}
	select {
	case <-x.started:
	case <-x.ended:
	case <-ctx.Done():
		x.abort()
		return nil, fmt.Errorf("client: start: %w", ctx.Err())
	}
	info := x.session.Load()
	switch {
	case info != nil:
	case x.err != nil:
		return nil, evictedError(x.err)
	default:
		return nil, fmt.Errorf("client: start: %w: server %s: the connection broke", fault.Unavailable, s.c.base)
	}
	if !cmd.Detached {
		stop := context.AfterFunc(ctx, func() { x.cancelCommand(ctx) })
		context.AfterFunc(x.over, func() { stop() })
	}
	return s.newSession(*info, x), nil
}

func (s *shell) startDetached(ctx context.Context, cmd driver.Command) (*driver.Session, error) {
	info, err := postRoute[driver.SessionInfo](ctx, s.module, "/sessions", params{}, shellwire.Encode(cmd))
	if err != nil {
		return nil, err
	}
	return s.newSession(info, nil), nil
}

func (s *shell) listSessions(ctx context.Context) ([]driver.SessionInfo, error) {
	return callRouteField[[]driver.SessionInfo](ctx, s.module, "/sessions", "sessions", params{})
}

func (s *shell) attachSession(ctx context.Context, id string) (*driver.Session, error) {
	if id == "" || id == "." || id == ".." || strings.ContainsAny(id, "/\x00") {
		return nil, fault.WithHint(fmt.Errorf("client: session %.40q: %w: no session has such an id", id, fault.NotFound), fault.HintList, "sessions")
	}
	info, err := callRoute[driver.SessionInfo](ctx, s.module, http.MethodGet, sessionRoute(id, ""), params{})
	if err != nil {
		return nil, err
	}
	return s.newSession(info, nil), nil
}
