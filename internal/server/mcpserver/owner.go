package mcpserver

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/internal/lazyregexp"
)

// The SDK gives a tool the context of the request that began the session. So a session belongs
// to the key of that request, and with another key it is not found.

// newSessionID returns the id of a new session over streamable HTTP.
func (s *Server) newSessionID() string {
	if s.opts.Node == "" {
		return rand.Text()
	}
	return s.opts.Node + sessionSeparator + rand.Text()
}

const sessionSeparator = "_" // no name of a node has it

// SessionNode returns the node that has the session of a request, "" if the request is for no
// session or its id does not say.
func SessionNode(r *http.Request) string {
	node, _, ok := strings.Cut(r.Header.Get("Mcp-Session-Id"), sessionSeparator)
	if !ok {
		return ""
	}
	return node
}

// setOwner stores the key that begins a session.
func (s *Server) setOwner(ctx context.Context, session string) {
	if p, ok := auth.From(ctx); ok && session != "" {
		s.owners.Store(session, p.Key)
	}
}

// errNoSession is in the words of the SDK for a session that it does not know: nobody learns that
// another key has one.
var errNoSession = errors.New("session not found")

// checkOwner refuses a request for a session that another key began.
func (s *Server) checkOwner(ctx context.Context, session string) error {
	p, ok := auth.From(ctx)
	if !ok {
		return nil
	}
	if key, known := s.owners.Load(session); known && key != p.Key {
		return errNoSession
	}
	return nil
}

// ownerMiddleware stores the owner of a streamable session before its client knows the id.
func (s *Server) ownerMiddleware(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if method == "initialize" {
			s.setOwner(ctx, req.GetSession().ID())
		}
		return next(ctx, method, req)
	}
}

// An endpointWriter stores the owner of an SSE session: the SDK makes the id and writes it to
// the stream, in its first event.
type endpointWriter struct {
	http.ResponseWriter
	server  *Server
	ctx     context.Context
	session string
}

var endpointSession = lazyregexp.New(sessionParameter + `=([A-Za-z0-9]+)`)

// Write looks for the id of the session and writes data.
func (w *endpointWriter) Write(data []byte) (int, error) {
	if w.session == "" {
		if found := endpointSession.FindSubmatch(data); found != nil {
			w.session = string(found[1])
			w.server.setOwner(w.ctx, w.session)
		}
	}
	return w.ResponseWriter.Write(data)
}

// Flush sends what was written.
func (w *endpointWriter) Flush() {
	_ = http.NewResponseController(w.ResponseWriter).Flush() // the next write fails, too, if the client is gone
}

// forget drops the owner of a session that ended.
func (w *endpointWriter) forget() { w.server.owners.Delete(w.session) }
