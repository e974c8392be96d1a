package rest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/server/advice"
	"github.com/croft-run/croft/internal/server/httplog"
)

// Problem is the body of every error.
type Problem struct {
	Wire fault.Wire `json:"error"`

	status int // 0 is the status of the code
	header http.Header
}

// GetHeaders returns the headers that go with the status, if any.
func (p *Problem) GetHeaders() http.Header { return p.header }

// GetStatus returns the HTTP status of the problem: that of its code, unless
// HTTP has one of its own for the case.
func (p *Problem) GetStatus() int {
	if p.status != 0 {
		return p.status
	}
	code, _ := fault.Parse(p.Wire.Code)
	return code.Status()
}

func (p *Problem) Error() string { return p.Wire.Message }

// newProblem converts an error for the client. One whose text is not for clients is logged; the
// operator has it in the answer, too.
func (s *Server) newProblem(ctx context.Context, r requestInfo, err error) *Problem {
	p := &Problem{Wire: advice.Encode(err)}
	switch {
	case fault.Of(err) == fault.Internal:
		s.log.Error("internal error", "request", httplog.ID(ctx), "method", r.method, "path", r.path, "error", err)
	case fault.IsPrivate(err):
		s.log.Warn("request failed", "request", httplog.ID(ctx), "method", r.method, "path", r.path, "error", err)
		if principal, ok := auth.From(ctx); ok && principal.Operator() && principal.Scope == auth.Admin {
			p.Wire.Message = err.Error()
		}
	}
	if fault.CauseOf(err) == fault.CauseRefused {
		p.status = http.StatusBadGateway // nothing listens on a port of the workspace: no failure of the server
	}
	if special := new(statusError); errors.As(err, &special) {
		p.status, p.header = special.status, special.header
	}
	return p
}

// A statusError is an error with an HTTP status other than that of its code.
type statusError struct {
	error
	status int
	header http.Header
}

func (e *statusError) Unwrap() error { return e.error }

type requestInfo struct{ method, path string }

// writeError writes an error outside of huma.
func (s *Server) writeError(w http.ResponseWriter, r *http.Request, err error) {
	p := s.newProblem(r.Context(), requestInfo{r.Method, r.URL.Path}, err)
	if p.GetStatus() == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if auth.IsRate(err) {
		w.Header().Set("Retry-After", "1")
	}
	maps.Copy(w.Header(), p.header)
	httplog.WriteJSON(w, p.GetStatus(), p)
}

// answerContext lets a transformer change the status of an answer: huma sets the status
// of its own errors before transformers run.
type answerContext struct {
	below
	status int
}

// below is huma.Context under another name: an embedded field Context would clash with the
// method Context.
type below huma.Context

// Unwrap returns the context below, for the adapter.
func (c *answerContext) Unwrap() huma.Context { return c.below }

// SetStatus writes the status, or the one that the transformer chose.
func (c *answerContext) SetStatus(code int) {
	if c.status != 0 {
		code = c.status
	}
	c.below.SetStatus(code)
}

func wrapContext(ctx huma.Context, next func(huma.Context)) {
	next(&answerContext{below: ctx})
}

// transformError converts huma's own errors (an invalid parameter, a too large body) to
// problems.
func (s *Server) transformError(ctx huma.Context, _ string, v any) (any, error) {
	model, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	u := ctx.URL()
	p := s.newProblem(ctx.Context(), requestInfo{ctx.Method(), u.Path}, fromModel(model, ctx.Operation()))
	if ac, ok := ctx.(*answerContext); ok {
		ac.status = p.GetStatus()
	}
	ctx.SetHeader("Content-Type", "application/json")
	return p, nil
}

func fromModel(m *huma.ErrorModel, op *huma.Operation) error {
	code := fault.InvalidArgument
	switch {
	case m.Status == http.StatusRequestEntityTooLarge:
		code = fault.ResourceExhausted
	case m.Status == http.StatusRequestTimeout:
		code = fault.DeadlineExceeded
	case m.Status >= http.StatusInternalServerError:
		code = fault.Internal
	}
	var details []string
	for _, d := range m.Errors {
		if d == nil {
			continue
		}
		text := strings.TrimPrefix(d.Message, fault.InvalidArgument.Error()+": ")
		if d.Location != "" && d.Location != "body" {
			text = d.Location + ": " + text
		}
		if d.Message == "unknown query parameter" {
			text += "; " + allowedParameters(op)
		}
		details = append(details, text)
	}
	if len(details) == 0 {
		details = append(details, m.Detail)
	}
	err := fmt.Errorf("request: %w: %s", code, strings.Join(details, "; "))
	if m.Status == http.StatusRequestEntityTooLarge {
		return &statusError{err, m.Status, nil}
	}
	return err
}

// refuseRepeated refuses a repeated query parameter that is not a list.
func (s *Server) refuseRepeated(ctx huma.Context, next func(huma.Context)) {
	u := ctx.URL()
	given := u.Query()
	for _, p := range ctx.Operation().Parameters {
		if n := len(given[p.Name]); p.In == "query" && n > 1 && p.Schema.Type != huma.TypeArray {
			r, w := humago.Unwrap(ctx)
			closeAfterAnswer(w)
			s.writeError(w, r, badParameter(p.Name, "it is given %d times, and is not a list", n))
			return
		}
	}
	next(ctx)
}

// conditions are headers that restrict what a request may change, or what of a file its body is.
var conditions = []string{"If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "Content-Range"}

// refuseCondition refuses a request that changes something under a condition that its route does
// not check, and a condition that is given twice: the client relies on it.
func (s *Server) refuseCondition(ctx huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(ctx)
	if op := ctx.Operation(); op.Method != http.MethodGet {
		for _, name := range conditions {
			known := slices.ContainsFunc(op.Parameters, func(p *huma.Param) bool { return p.In == "header" && p.Name == name })
			if n := len(r.Header.Values(name)); n > 1 || n == 1 && !known {
				closeAfterAnswer(w)
				s.writeError(w, r, badParameter(name, "this route does not take the header, or takes it once; it is given %d times", n))
				return
			}
		}
	}
	next(ctx)
}

// allowedParameters names the query parameters of a route.
func allowedParameters(op *huma.Operation) string {
	var names []string
	for _, p := range op.Parameters {
		if p.In == "query" {
			names = append(names, p.Name)
		}
	}
	if len(names) == 0 {
		return "there are none"
	}
	slices.Sort(names)
	return "allowed are " + strings.Join(names, ", ")
}

// badParameter is the error for an invalid parameter.
func badParameter(param, format string, args ...any) error {
	return fmt.Errorf("parameter %s: %w: %s", param, fault.InvalidArgument, fmt.Sprintf(format, args...))
}
