package httplog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"

	"github.com/croft-run/croft/fault"
)

// WriteJSON answers a request with a value as JSON; nil is a status without a body.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	if v == nil {
		w.WriteHeader(status)
		return
	}
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		status = http.StatusInternalServerError
		body.Reset()
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(body.Bytes()) //nolint:errcheck // the client is gone
}

// Recover logs a panic of a handler, which defers it, and answers with answer. It repanics with
// http.ErrAbortHandler.
func Recover(w http.ResponseWriter, r *http.Request, log *slog.Logger, answer func(http.ResponseWriter, *http.Request, error)) {
	p := recover()
	if p == nil {
		return
	}
	if p == http.ErrAbortHandler { //nolint:errorlint // panics carry this very value
		panic(p)
	}
	log.Error("handler panicked", "method", r.Method, "path", r.URL.Path, "panic", p, "stack", string(debug.Stack()))
	answer(w, r, fmt.Errorf("panic: %w", fault.Internal))
}
