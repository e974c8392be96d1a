package rest

import (
	"cmp"
	"context"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/internal/server/httpguard"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// operatorRole is what the OpenAPI document has instead of a scope for routes of the operator
// alone.
const operatorRole = "operator"

// securityOf is the security of a route in the OpenAPI document: the scope that a key needs,
// as the role of both security schemes.
func securityOf(scope string) []map[string][]string {
	return []map[string][]string{{"token": {scope}}, {"key": {scope}}}
}

// withScope returns a route that needs another scope than its method says.
func withScope(op huma.Operation, scope auth.Scope) huma.Operation {
	op.Security = securityOf(string(scope))
	return op
}

// shownKey is the key of Operation.Metadata for routes that share links may use.
const shownKey = "shown"

// shown returns a route that share links may use: what it answers shows their workspace alone, and
// it changes nothing. All other routes refuse them.
func shown(op huma.Operation) huma.Operation {
	op.Metadata = map[string]any{shownKey: true}
	return op
}

// operatorOnly returns a route for the operator alone: it reaches the whole server.
func operatorOnly(op huma.Operation) huma.Operation {
	op.Security = securityOf(operatorRole)
	return op
}

// requiredScope returns the scope of a route, "" for one that needs no key.
func requiredScope(op huma.Operation) string {
	if len(op.Security) == 0 {
		return ""
	}
	return op.Security[0]["token"][0]
}

// checkScope refuses a route that the key does not allow. A route without an entry, such as
// the OpenAPI document or a mounted handler, needs any key.
func (s *Server) checkScope(ctx context.Context, pattern string) error {
	scope := s.scopes[pattern]
	if scope == operatorRole {
		return auth.RequireOperator(ctx, pattern)
	}
	if p, ok := auth.From(ctx); ok && scope != "" {
		return p.Require(auth.Scope(scope))
	}
	return nil
}

// serveRoute serves a request whose route is known, and emits the audit event of a call that
// may change something.
func (s *Server) serveRoute(w http.ResponseWriter, r *http.Request, pattern string) {
	if scope := s.scopes[pattern]; scope == "" || scope == string(auth.Read) {
		s.serveAllowed(w, r, pattern)
		return
	}
	out := &statusWriter{ResponseWriter: w}
	ctx, target := withTarget(r.Context())
	r = r.WithContext(ctx)
	status := http.StatusInternalServerError // of a panic
	defer func() { s.auditCall(r, pattern, *target, cmp.Or(out.status, status)) }()
	s.serveAllowed(out, r, pattern)
	status = http.StatusOK
}

// serveAllowed serves a request if its key allows the route.
func (s *Server) serveAllowed(w http.ResponseWriter, r *http.Request, pattern string) {
	err := s.checkShare(r, pattern)
	if err == nil {
		err = s.checkScope(r.Context(), pattern)
	}
	if err != nil {
		closeAfterAnswer(w)
		s.writeError(w, r, err)
		return
	}
	if p, _ := auth.From(r.Context()); p.Workspace != "" {
		r = r.WithContext(workspace.WithoutUse(r.Context())) // a share link keeps no workspace alive
	}
	s.mux.ServeHTTP(w, r)
}

func (s *Server) auditCall(r *http.Request, pattern, target string, status int) {
	method, route, _ := strings.Cut(pattern, " ")
	values := pathValues(route, r.URL.Path)
	call := httpguard.Call{Method: method, Route: route, Target: target, Status: status}
	for _, name := range []string{"snapshot", "template", "key", "share", "run", "node", "sid", "context", "id"} {
		call.Target = cmp.Or(call.Target, values[name])
	}
	if id := cmp.Or(values["id"], target); driver.ValidID(id) {
		call.Workspace = id
	}
	httpguard.Audit(r.Context(), s.cfg.Audit, call)
}

// pathValues returns the values of the wildcards of a route. A request that was refused has no
// http.Request.PathValue.
func pathValues(route, path string) map[string]string {
	values, given := map[string]string{}, strings.Split(path, "/")
	for i, part := range strings.Split(route, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok && i < len(given) {
			values[strings.TrimSuffix(name, "}")] = given[i]
		}
	}
	return values
}

// A statusWriter keeps the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// Unwrap returns the writer below, for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader keeps and writes the status.
func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

type targetKey struct{}

// withTarget returns a context in which a handler names what it made.
func withTarget(ctx context.Context) (context.Context, *string) {
	target := new(string)
	return context.WithValue(ctx, targetKey{}, target), target
}

// setTarget names what a call made, for its audit event.
func setTarget(ctx context.Context, id string) {
	if target, ok := ctx.Value(targetKey{}).(*string); ok {
		*target = id
	}
}
