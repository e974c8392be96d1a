// Package httplog gives each HTTP request an id, logs the request when it was answered, passes its
// route, status and duration to an observer, and writes answers in JSON.
package httplog

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/croft-run/croft/internal/lazyregexp"
	"github.com/croft-run/croft/workspace/driver"
)

// Header is the header with the id of a request, in requests and answers.
const Header = "X-Request-Id"

// A Request is an answered request, for metrics. Every field has a bounded set of values,
// except Duration.
type Request struct {
	Method   string // "other" if it is not one of HTTP's own
	Route    string // pattern of the route; "" if none matched
	Status   int    // 101 of an upgraded connection
	Duration time.Duration
}

// Config configures New.
type Config struct {
	Log     *slog.Logger  // one record per request, at level info
	Observe func(Request) // nil is none
}

// record is what handlers add to the record of their request.
type record struct {
	mu    sync.Mutex
	id    string
	route string      // guarded by mu
	attrs []slog.Attr // guarded by mu
}

type contextKey struct{}

// ID returns the id of the context's request, "" for none.
func ID(ctx context.Context) string {
	if rec, ok := ctx.Value(contextKey{}).(*record); ok {
		return rec.id
	}
	return ""
}

// SetRoute names the pattern that matched the context's request.
func SetRoute(ctx context.Context, pattern string) {
	if rec, ok := ctx.Value(contextKey{}).(*record); ok {
		rec.mu.Lock()
		defer rec.mu.Unlock()
		rec.route = pattern
	}
}

// Add adds an attribute to the log record of the context's request.
func Add(ctx context.Context, attrs ...slog.Attr) {
	if rec, ok := ctx.Value(contextKey{}).(*record); ok {
		rec.mu.Lock()
		defer rec.mu.Unlock()
		rec.attrs = append(rec.attrs, attrs...)
	}
}

// validID is the form of ids that are accepted from clients: they are logged.
var validID = lazyregexp.New(`^[A-Za-z0-9._:-]{1,64}$`)

// New returns a handler that logs the requests of next.
func New(next http.Handler, cfg Config) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := &record{id: r.Header.Get(Header)}
		if !validID.MatchString(rec.id) {
			rec.id = driver.NewID()
		}
		w.Header().Set(Header, rec.id)
		start := time.Now()
		answer := &writer{ResponseWriter: w}
		defer func() { finish(r, rec, answer, time.Since(start), cfg) }()
		next.ServeHTTP(answer, r.WithContext(context.WithValue(r.Context(), contextKey{}, rec)))
	})
}

func finish(r *http.Request, rec *record, w *writer, took time.Duration, cfg Config) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if w.status == 0 {
		w.status = http.StatusOK
	}
	if cfg.Observe != nil {
		cfg.Observe(Request{Method: method(r.Method), Route: rec.route, Status: w.status, Duration: took})
	}
	if cfg.Log == nil || !cfg.Log.Enabled(r.Context(), slog.LevelInfo) {
		return
	}
	// The query and the headers are left out: they may have secrets.
	attrs := append([]slog.Attr{
		slog.String("request", rec.id), slog.String("method", r.Method), slog.String("path", r.URL.Path), slog.String("route", rec.route),
		slog.Int("status", w.status), slog.Int64("bytes", w.bytes), slog.Float64("seconds", took.Seconds()), slog.String("remote", r.RemoteAddr),
	}, rec.attrs...)
	cfg.Log.LogAttrs(r.Context(), slog.LevelInfo, "request", attrs...)
}

// method returns a method of HTTP, or "other": clients may send any word.
func method(name string) string {
	switch name {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return name
	}
	return "other"
}

// writer records the status and size of an answer.
type writer struct {
	http.ResponseWriter
	status int
	bytes  int64
}

func (w *writer) WriteHeader(status int) {
	if w.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *writer) Write(data []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(data)
	w.bytes += int64(n)
	return n, err
}

// ReadFrom keeps sendfile(2) for answers from files.
func (w *writer) ReadFrom(r io.Reader) (int64, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := io.Copy(w.ResponseWriter, r)
	w.bytes += n
	return n, err
}

func (w *writer) Flush() { http.NewResponseController(w.ResponseWriter).Flush() } //nolint:errcheck // as http.Flusher, which has no error

func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if w.status == 0 {
		w.status = http.StatusSwitchingProtocols
	}
	return http.NewResponseController(w.ResponseWriter).Hijack()
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
