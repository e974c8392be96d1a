package rest

import (
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/server/httpguard"
)

const (
	healthPath = "/healthz"
	readyPath  = "/readyz"
)

// checkRequest refuses a request with a wrong Host or Origin, or without a key. It returns the
// request with its principal in the context.
func (s *Server) checkRequest(r *http.Request) (*http.Request, error) {
	if r.URL.Path == healthPath || r.URL.Path == readyPath {
		if err := s.cfg.Guard.CheckHost(r.Host); err != nil {
			return r, err
		}
		return r, httpguard.CheckOrigin(r)
	}
	p, err := s.cfg.Guard.Check(r)
	if err != nil {
		return r, err
	}
	r = r.WithContext(auth.With(r.Context(), p))
	if _, err := url.ParseQuery(r.URL.RawQuery); err != nil {
		return r, fmt.Errorf("query: %w: %w", fault.InvalidArgument, err)
	}
	return r, nil
}

// isCleanPath reports whether a path has no empty element, "." or "..".
func isCleanPath(escaped string) bool {
	return path.Clean("/"+escaped) == strings.TrimSuffix(escaped, "/") || escaped == "/"
}

// answerUnmatched answers a request without a route.
func (s *Server) answerUnmatched(w http.ResponseWriter, r *http.Request, h http.Handler) {
	rec := &statusRecorder{header: http.Header{}}
	h.ServeHTTP(rec, r)
	if rec.status == http.StatusMethodNotAllowed {
		allow := rec.header.Get("Allow")
		err := fmt.Errorf("%s %s: %w: the route takes %s", r.Method, r.URL.Path, fault.InvalidArgument, allow)
		s.writeError(w, r, &statusError{err, http.StatusMethodNotAllowed, http.Header{"Allow": {allow}}})
		return
	}
	s.writeError(w, r, fmt.Errorf("route %s: %w: see /v1/openapi.json", r.URL.Path, fault.NotFound))
}

// statusRecorder keeps the status and headers that a handler would answer with.
type statusRecorder struct {
	header http.Header
	status int
}

func (r *statusRecorder) Header() http.Header         { return r.header }
func (r *statusRecorder) Write(b []byte) (int, error) { return len(b), nil }
func (r *statusRecorder) WriteHeader(status int)      { r.status = status }
