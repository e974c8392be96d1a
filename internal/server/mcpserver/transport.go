package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/server/advice"
	"github.com/croft-run/croft/internal/server/httpguard"
	"github.com/croft-run/croft/tool"
)

// Paths of the transports.
const (
	Path    = "/mcp"
	SSEPath = "/sse"
)

// maxMessage is the size of the largest message of a client.
const maxMessage = 32 << 20

// ServeStdio serves one client over a pair of streams until its stream or ctx ends. All
// calls have ended when it returns.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	defer s.calls.close()
	m, err := s.openView(ctx, view{toolset: s.opts.Toolset})
	if err != nil {
		return err
	}
	session, err := m.Connect(ctx, newStdio(in, out, func(text string) string { return s.opts.Env.ScrubText(ctx, text) }), nil)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- session.Wait() }()
	select {
	case err = <-ended:
	case <-ctx.Done():
		_ = session.Close() // Wait returns its error
		err = <-ended
	}
	if errors.Is(err, io.EOF) || ctx.Err() != nil {
		return nil // the client closed its stream, or the server stops
	}
	return err
}

// Handler is streamable HTTP. A request may choose one workspace with ?workspace=NAME,
// and a toolset with ?toolset= or tools with ?tools=NAME,NAME.
func (s *Server) Handler() http.Handler {
	h := mcp.NewStreamableHTTPHandler(s.chooseServer, &mcp.StreamableHTTPOptions{
		Logger: s.log, EventStore: sessions{mcp.NewMemoryEventStore(nil), s}, SessionTimeout: s.opts.Idle,
		MaxRequestBodyBytes: maxMessage, PropagateRequestCancellation: true,
		DisableLocalhostProtection: true, // Guard checks the Host header
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.checkView(w, r) {
			return
		}
		r, end := s.untilDrain(r)
		defer end()
		if id := r.Header.Get("Mcp-Session-Id"); id != "" {
			if err := s.checkOwner(r.Context(), id); err != nil {
				http.Error(w, err.Error(), http.StatusNotFound)
				return
			}
			leave := s.calls.addConnection(id, s.opts.ReconnectGrace)
			defer func() { leave(r.Context().Err() != nil) }()
			if r.Method == http.MethodDelete {
				s.calls.endSession(id)
			}
		}
		h.ServeHTTP(w, r)
	})
}

// sessions is the SDK's event store for clients that resume, which also ends the
// session of the tools when the SDK closes a session.
type sessions struct {
	mcp.EventStore
	server *Server
}

// SessionClosed drops the state of a session.
func (s sessions) SessionClosed(ctx context.Context, id string) error {
	s.server.opts.Env.EndSession(id)
	s.server.owners.Delete(id)
	return s.EventStore.SessionClosed(ctx, id)
}

// untilDrain gives a request a context that ends when the server drains.
func (s *Server) untilDrain(r *http.Request) (*http.Request, func()) {
	ctx, cancel := context.WithCancel(r.Context())
	stop := context.AfterFunc(s.drained, cancel)
	return r.WithContext(ctx), func() { stop(); cancel() }
}

// Drain ends the streams of HTTP clients, which would otherwise stay open. Call it
// before the listener shuts down.
func (s *Server) Drain() { s.drain() }

// SSEHandler is the transport of older clients: an event stream, and posted messages.
// The session ends with the stream.
func (s *Server) SSEHandler() http.Handler {
	h := mcp.NewSSEHandler(s.chooseServer, &mcp.SSEOptions{MaxRequestBodyBytes: maxMessage, DisableLocalhostProtection: true})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.checkView(w, r, sessionParameter) {
			r, end := s.untilDrain(r)
			defer end()
			if id := r.URL.Query().Get(sessionParameter); id != "" {
				if err := s.checkOwner(r.Context(), id); err != nil {
					http.Error(w, err.Error(), http.StatusNotFound)
					return
				}
			}
			if r.Method == http.MethodGet {
				out := &endpointWriter{ResponseWriter: w, server: s, ctx: r.Context()}
				defer out.forget()
				w = out
				ctx, stream := withStream(r.Context())
				defer s.opts.Env.EndSession(stream.id)
				r = r.WithContext(ctx)
			}
			h.ServeHTTP(w, r)
		}
	})
}

// requestView returns the view that a request chose.
func (s *Server) requestView(r *http.Request) (view, error) {
	q := r.URL.Query()
	v := view{toolset: s.opts.Toolset, only: q.Get("workspace")}
	if p, ok := auth.From(r.Context()); ok {
		v.tenant, v.scope = p.Tenant, p.Scope
	}
	if names := q.Get("tools"); names != "" {
		v.toolset = ChooseTools(strings.Split(names, ","))
	}
	if name := q.Get("toolset"); name != "" {
		var err error
		if v.toolset, err = ParseToolset(name); err != nil {
			return v, err
		}
	}
	if v.only == "" {
		if q.Has("workspace") { // such as of an unset variable
			return v, tool.Errorf(fault.InvalidArgument, "the parameter workspace is empty: name a workspace, or leave it out")
		}
		return v, nil
	}
	_, err := s.opts.Env.Scope(v.only).Find(r.Context(), v.only)
	if fault.Of(err) == fault.NotFound {
		err = tool.Errorf(fault.NotFound, "unknown workspace %q", v.only)
	}
	return v, err
}

// sessionParameter is the SDK's query parameter for the session of a posted message.
const sessionParameter = "sessionid"

// checkParameters refuses an unknown or repeated query parameter.
func checkParameters(r *http.Request, known ...string) error {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return fmt.Errorf("mcpserver: parameters: %w: %w", fault.InvalidArgument, err)
	}
	known = append([]string{"workspace", "toolset", "tools"}, known...)
	for _, name := range slices.Sorted(maps.Keys(q)) {
		switch {
		case !slices.Contains(known, name):
			return tool.Errorf(fault.InvalidArgument, "unknown parameter %.100q; known: workspace, toolset, tools", name)
		case len(q[name]) > 1:
			return tool.Errorf(fault.InvalidArgument, "the parameter %s is given %d times", name, len(q[name]))
		}
	}
	return nil
}

// checkView answers a request with an invalid view, and returns false.
func (s *Server) checkView(w http.ResponseWriter, r *http.Request, known ...string) bool {
	err := checkParameters(r, known...)
	if err == nil {
		_, err = s.requestView(r)
	}
	if err != nil {
		writeError(w, err)
	}
	return err == nil
}

// chooseServer returns the MCP server for a new session, nil if the workspaces can't be
// listed.
func (s *Server) chooseServer(r *http.Request) *mcp.Server {
	v, err := s.requestView(r)
	if err != nil {
		return nil
	}
	m, err := s.openView(r.Context(), v)
	if err != nil {
		s.log.Error("serve a client", "error", err)
		return nil
	}
	return m.Server
}

// Guard refuses requests without the token, with a foreign Host, or from a page of
// another origin.
func Guard(h http.Handler, token string, hosts []string) http.Handler {
	g := httpguard.Guard{Token: token, Hosts: hosts}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, err := g.Check(r)
		if err != nil {
			writeError(w, err)
			return
		}
		h.ServeHTTP(w, r.WithContext(auth.With(r.Context(), p)))
	})
}

// Missing answers requests for unknown routes.
func Missing(w http.ResponseWriter, r *http.Request) {
	writeError(w, fault.Advise(fmt.Errorf("route %.100q: %w", r.URL.Path, fault.NotFound), "the routes are %s and %s", Path, SSEPath))
}

// writeError writes an error answer.
func writeError(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "application/json")
	if fault.Of(err) == fault.Unauthenticated {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	w.WriteHeader(fault.Of(err).Status())
	_ = json.NewEncoder(w).Encode(map[string]fault.Wire{"error": advice.Encode(err)}) // the client is gone
}
