package client

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// A session is a command on the server. Each call is one request. x is the connection of
// a command that is not detached and was started by this client, otherwise nil.
type session struct {
	module
	session string // its id
	x       *connection
}

func (s *shell) newSession(info driver.SessionInfo, x *connection) *driver.Session {
	p := &session{s.module, info.ID, x}
	h := &driver.Session{Process: p, Log: p.readLog, Signal: p.sendSignal}
	if info.TTY {
		h.Resize = p.resizeTerminal
	}
	return h
}

// sessionRoute returns the path of a route of one session.
func sessionRoute(session, route string) string {
	return "/sessions/" + url.PathEscape(session) + route
}

// send calls a route of the session that answers nothing.
func (p *session) send(ctx context.Context, r request) error {
	r.method, r.path = http.MethodPost, workspacePath(p.id, sessionRoute(p.session, r.path))
	return evictedError(p.c.call(ctx, r, nil))
}

// ID identifies the session.
func (p *session) ID() string { return p.session }

// Poll returns output that no Poll returned before.
func (p *session) Poll(ctx context.Context, limit int64) (driver.Poll, error) {
	return callRoute[driver.Poll](ctx, p.module, http.MethodPost, sessionRoute(p.session, "/poll"), params{url.Values{}}.number("limit", limit))
}

// Write writes to standard input.
func (p *session) Write(ctx context.Context, data []byte) error {
	return p.send(ctx, request{path: "/stdin", body: bytes.NewReader(data), header: http.Header{"Content-Type": {"application/octet-stream"}}})
}

// CloseStdin ends standard input.
func (p *session) CloseStdin(ctx context.Context) error {
	return p.send(ctx, request{path: "/stdin/close"})
}

// Kill ends the whole process tree.
func (p *session) Kill(ctx context.Context, grace time.Duration) error {
	if grace < 0 {
		return fmt.Errorf("client: kill %s: %w: grace %v is negative", p.session, fault.InvalidArgument, grace)
	}
	q := url.Values{}
	if grace > 0 {
		q.Set("grace", grace.String())
	}
	return p.send(ctx, request{path: "/kill", query: q})
}

// Wait waits for the end of the command and of its last callback.
func (p *session) Wait(ctx context.Context) (driver.Result, error) {
	res, err := callRoute[driver.Result](ctx, p.module, http.MethodGet, sessionRoute(p.session, "/wait"), params{})
	if err != nil || p.x == nil {
		return res, err
	}
	select {
	case <-p.x.ended:
		return p.x.completeResult(res), nil
	case <-ctx.Done():
		return driver.Result{}, fmt.Errorf("client: wait for %s: %w", p.session, ctx.Err())
	}
}

// State returns the state of the session.
func (p *session) State(ctx context.Context) (driver.SessionInfo, error) {
	return callRoute[driver.SessionInfo](ctx, p.module, http.MethodGet, sessionRoute(p.session, ""), params{})
}

// Close kills the command if it still runs, and removes the session.
func (p *session) Close(ctx context.Context) error {
	err := p.callNoAnswer(ctx, http.MethodDelete, sessionRoute(p.session, ""), params{})
	if fault.Of(err) == fault.NotFound {
		err = nil // it was removed before
	}
	if err == nil && p.x != nil {
		p.x.abort()
	}
	return err
}

func (p *session) readLog(ctx context.Context, stream driver.Stream, offset, limit int64) (driver.LogChunk, error) {
	q := params{url.Values{"stream": {string(stream)}}}.number("offset", offset).number("limit", limit)
	return callRoute[driver.LogChunk](ctx, p.module, http.MethodGet, sessionRoute(p.session, "/log"), q)
}

func (p *session) sendSignal(ctx context.Context, name string) error {
	return p.send(ctx, request{path: "/signal", json: map[string]string{"signal": name}})
}

func (p *session) resizeTerminal(ctx context.Context, size driver.Size) error {
	return p.send(ctx, request{path: "/resize", json: size})
}
