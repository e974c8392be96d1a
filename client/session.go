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

// A session is a command on the server. Each call is a request of its own; x is
// the connection that it hangs on, if any.
type session struct {
	s  *shell
	id string
	x  *connection
}

func (s *shell) handle(info driver.SessionInfo, x *connection) *driver.Session {
	p := &session{s: s, id: info.ID, x: x}
	h := &driver.Session{Process: p, Log: p.log, Signal: p.signal}
	if info.TTY {
		h.Resize = p.resize
	}
	return h
}

// at returns the path of a route of a session.
func (s *shell) at(session, route string) string {
	return at(s.id, "/sessions/"+url.PathEscape(session)+route)
}

func (p *session) post(ctx context.Context, route string, q url.Values, body any) error {
	r := request{method: http.MethodPost, path: p.s.at(p.id, route), query: q}
	if body != nil {
		var err error
		if r, err = r.jsonBody(body); err != nil {
			return err
		}
	}
	return evicted(p.s.c.call(ctx, r, nil))
}

// ID identifies the session.
func (p *session) ID() string { return p.id }

// Poll returns output that no Poll returned before.
func (p *session) Poll(ctx context.Context, limit int64) (driver.Poll, error) {
	q := params{url.Values{}}.number("limit", limit)
	out, err := get[driver.Poll](ctx, p.s.c, request{method: http.MethodPost, path: p.s.at(p.id, "/poll"), query: q.Values})
	return out, evicted(err)
}

// Write writes to standard input.
func (p *session) Write(ctx context.Context, data []byte) error {
	return evicted(p.s.c.call(ctx, request{
		method: http.MethodPost, path: p.s.at(p.id, "/stdin"), body: bytes.NewReader(data),
		header: http.Header{"Content-Type": {"application/octet-stream"}},
	}, nil))
}

// CloseStdin ends standard input.
func (p *session) CloseStdin(ctx context.Context) error {
	return p.post(ctx, "/stdin/close", nil, nil)
}

// Kill ends the whole tree.
func (p *session) Kill(ctx context.Context, grace time.Duration) error {
	if grace < 0 {
		return fmt.Errorf("remote: kill %s: %w: grace %v is negative", p.id, fault.InvalidArgument, grace)
	}
	q := url.Values{}
	if grace > 0 {
		q.Set("grace", grace.String())
	}
	return p.post(ctx, "/kill", q, nil)
}

// Wait waits for the end, the last callback included.
func (p *session) Wait(ctx context.Context) (driver.Result, error) {
	res, err := get[driver.Result](ctx, p.s.c, request{method: http.MethodGet, path: p.s.at(p.id, "/wait")})
	if err != nil || p.x == nil {
		return res, evicted(err)
	}
	select {
	case <-p.x.ended:
		return p.x.complete(res), nil
	case <-ctx.Done():
		return driver.Result{}, fmt.Errorf("remote: wait for %s: %w", p.id, ctx.Err())
	}
}

// State tells how it stands.
func (p *session) State(ctx context.Context) (driver.SessionInfo, error) {
	out, err := get[driver.SessionInfo](ctx, p.s.c, request{method: http.MethodGet, path: p.s.at(p.id, "")})
	return out, evicted(err)
}

// Close forgets the session, killing what still runs.
func (p *session) Close(ctx context.Context) error {
	err := evicted(p.s.c.call(ctx, request{method: http.MethodDelete, path: p.s.at(p.id, "")}, nil))
	if fault.Of(err) == fault.NotFound {
		err = nil // it is forgotten already
	}
	if err == nil && p.x != nil {
		p.x.abort()
	}
	return err
}

func (p *session) log(ctx context.Context, stream driver.Stream, offset, limit int64) (driver.LogChunk, error) {
	q := params{url.Values{"stream": {string(stream)}}}.number("offset", offset).number("limit", limit)
	out, err := get[driver.LogChunk](ctx, p.s.c, request{method: http.MethodGet, path: p.s.at(p.id, "/log"), query: q.Values})
	return out, evicted(err)
}

func (p *session) signal(ctx context.Context, name string) error {
	return p.post(ctx, "/signal", nil, map[string]string{"signal": name})
}

func (p *session) resize(ctx context.Context, size driver.Size) error {
	return p.post(ctx, "/resize", nil, size)
}
