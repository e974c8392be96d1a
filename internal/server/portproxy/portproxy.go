// Package portproxy forwards HTTP requests, WebSockets included, to a port on which a
// program inside a workspace listens.
package portproxy

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/server/httpguard"
)

// A Target is a port of a workspace.
type Target struct {
	ID   string // of the sandbox, in errors
	Port int

	// Dial connects to a port; it is Dial of a workspace.
	Dial func(ctx context.Context, port int) (net.Conn, error)

	// Host is the Host header that the program gets, with ${PORT} for the port; "" keeps
	// that of the request.
	Host string

	// Credentials are the names of headers with keys of the server.
	// The program does not get them. It never gets headers that begin with E2b-.
	Credentials []string
}

// Handler forwards requests to a port. Each request has a connection of its own, which
// ends with the request.
func Handler(t Target) http.Handler {
	transport := &http.Transport{
		DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return t.Dial(ctx, t.Port) },
		DisableKeepAlives:  true, // an idle connection would keep the workspace in use
		DisableCompression: true, // bodies are passed on as they are
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A program may answer before it has read the whole body. HTTP/2 always allows it.
		http.NewResponseController(w).EnableFullDuplex() //nolint:errcheck // see above
		in, body := *r, r.Body
		in.Body = &openBody{ReadCloser: body}
		proxy := &httputil.ReverseProxy{
			Rewrite:       t.rewrite,
			Transport:     transport,
			FlushInterval: -1, // at once
			ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
				if r.Context().Err() == nil { // the client waits for an answer
					drain(w, body)
					WriteError(w, t.ID, t.Port, message(err))
				}
			},
			ErrorLog: log.New(io.Discard, "", 0), // both ends of a broken connection see it
		}
		proxy.ServeHTTP(w, &in)
		drain(w, body)
	})
}

// drain reads the rest of a body that the program did not read, for a short time. If it does not
// end, the server closes the connection; without that header a client would use it for its next request.
func drain(w http.ResponseWriter, body io.Reader) {
	const most, timeout = 1 << 20, time.Second
	conn := http.NewResponseController(w)
	if conn.SetReadDeadline(time.Now().Add(timeout)) == nil {
		if _, err := io.CopyN(io.Discard, body, most); errors.Is(err, io.EOF) && conn.SetReadDeadline(time.Time{}) == nil {
			return
		}
	}
	w.Header().Set("Connection", "close")
}

// An openBody is a body that drain can read after the transport has closed it.
type openBody struct {
	io.ReadCloser
	closed atomic.Bool
}

func (b *openBody) Read(p []byte) (int, error) {
	if b.closed.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	return b.ReadCloser.Read(p)
}

func (b *openBody) Close() error {
	b.closed.Store(true)
	return nil
}

func (t Target) rewrite(r *httputil.ProxyRequest) {
	port := strconv.Itoa(t.Port)
	r.Out.URL.Scheme, r.Out.URL.Host = "http", net.JoinHostPort("localhost", port)
	r.Out.URL.RawQuery = r.In.URL.RawQuery // also where it can't be parsed
	r.Out.Host = r.In.Host
	if t.Host != "" {
		r.Out.Host = strings.ReplaceAll(t.Host, "${PORT}", port)
	}
	r.SetXForwarded()
	for _, name := range t.Credentials {
		r.Out.Header.Del(name)
	}
	cookies := r.In.Cookies()
	if slices.ContainsFunc(cookies, isOwn) {
		r.Out.Header.Del("Cookie")
		for _, c := range slices.DeleteFunc(cookies, isOwn) {
			r.Out.AddCookie(c)
		}
	}
	for name := range r.Out.Header {
		if strings.HasPrefix(textproto.CanonicalMIMEHeaderKey(name), "E2b-") {
			delete(r.Out.Header, name)
		}
	}
}

// isOwn reports whether a cookie is that of a session on the page of this server.
func isOwn(c *http.Cookie) bool {
	return c.Name == httpguard.SecureCookie || c.Name == httpguard.InsecureCookie
}

func message(err error) string {
	switch {
	case fault.CauseOf(err) == fault.CauseRefused:
		return "The sandbox is running but port is not open"
	case fault.Of(err) == fault.NotFound, fault.Of(err) == fault.Evicted:
		return "The sandbox was not found"
	case fault.Of(err) == fault.Unsupported:
		return "Ports of this sandbox can't be reached"
	}
	return "The connection to the sandbox failed"
}

// WriteError answers 502 for a sandbox, or for a port of it; port 0 is left out.
func WriteError(w http.ResponseWriter, id string, port int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadGateway)
	json.NewEncoder(w).Encode(struct { //nolint:errcheck // the client may be gone
		SandboxID string `json:"sandboxId"`
		Message   string `json:"message"`
		Port      int    `json:"port,omitempty"`
		Code      int    `json:"code"`
	}{id, message, port, http.StatusBadGateway})
}
