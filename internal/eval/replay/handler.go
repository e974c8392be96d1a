package replay

import (
	"encoding/json"
	"net/http"
	"net/http/httputil"
	"net/url"

	"github.com/croft-run/croft/fault"
)

// Handler is a reverse proxy to an upstream, such as https://api.anthropic.com,
// through rt: a Recorder or a Tape. Programs that take a base URL for their model
// can be pointed at it.
func Handler(upstream *url.URL, rt http.RoundTripper) http.Handler {
	proxy := &httputil.ReverseProxy{
		Transport:     rt,
		FlushInterval: -1, // flush at once, for streams
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(upstream)
			p.Out.Host = upstream.Host
		},
		ErrorHandler: writeError,
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			// A tape has requests and answers, no upgraded connections such as WebSocket.
			// After status 426 clients fall back to plain HTTP.
			http.Error(w, "only plain HTTP is passed on", http.StatusUpgradeRequired)
			return
		}
		proxy.ServeHTTP(w, r)
	})
}

// writeError answers in the error format of model APIs, with a status and a header that
// prevent retries.
func writeError(w http.ResponseWriter, _ *http.Request, err error) {
	status := http.StatusBadGateway
	if fault.Of(err) == fault.NotFound {
		status = http.StatusBadRequest // after a 404 some clients report a missing model, and others retry
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Should-Retry", "false")
	w.WriteHeader(status)
	body, merr := json.Marshal(map[string]any{"type": "error", "error": map[string]any{"type": "invalid_request_error", "code": "croft_replay", "message": err.Error()}})
	if merr == nil {
		_, _ = w.Write(body) // the client has closed the connection
	}
}
