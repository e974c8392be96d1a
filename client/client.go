package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// Config has the address and token of the server, which are required, and options.
type Config struct {
	URL   string // http://HOST:PORT or https://HOST[:PORT]
	Token string

	// Client names the program that uses the server, for Sweep; see the
	// package. It is a label value, and the same after a restart.
	Client string

	// Kind is the kind of workspace that Provider opens on the server if Spec.Config
	// names none; "" is sandbox.
	Kind string

	Transport http.RoundTripper // nil is a transport of the client's own
	Log       *slog.Logger      // nil is silent
}

// A Client sends requests to one server. It is safe for concurrent use.
type Client struct {
	cfg  Config
	base string
	http *http.Client
}

// NewClient returns a client. It does not connect yet.
func NewClient(cfg Config) (*Client, error) {
	u, err := url.Parse(cfg.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.User != nil {
		return nil, fault.Advise(fmt.Errorf("client: server %q: %w", redactURL(cfg.URL), fault.InvalidArgument), "give http://HOST:PORT or https://HOST")
	}
	if cfg.Token == "" {
		return nil, fmt.Errorf("client: server %s: %w: a token is required", cfg.URL, fault.InvalidArgument)
	}
	if cfg.Transport == nil {
		cfg.Transport = newTransport()
	}
	return &Client{cfg: cfg, base: strings.TrimSuffix(cfg.URL, "/"), http: &http.Client{
		Transport: cfg.Transport,
		// Redirects are refused: they would send the token to another host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// redactURL hides a password in a URL.
func redactURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "(unreadable)"
	}
	return u.Redacted()
}

func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:   10 * time.Second,
		MaxIdleConnsPerHost:   32,
		IdleConnTimeout:       30 * time.Second,
		ExpectContinueTimeout: time.Second,
		WriteBufferSize:       64 << 10,
		ReadBufferSize:        64 << 10,
		DisableCompression:    true,
	}
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// URL returns the address of the server.
func (c *Client) URL() string { return c.base }

// A request is one call of the API.
type request struct {
	method string
	path   string // below the base, escaped
	query  url.Values
	header http.Header
	body   io.Reader // nil for none
	json   any       // in place of body: what is sent as JSON
}

// send sends r and returns the response, whose body the caller closes. An error answer
// is returned as an error.
func (c *Client) send(ctx context.Context, r request) (*http.Response, error) {
	if err := checkName(r.path); err != nil {
		return nil, err
	}
	target := c.base + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	if r.json != nil {
		data, err := json.Marshal(r.json)
		if err != nil {
			return nil, fmt.Errorf("client: encode the request: %w: %w", fault.InvalidArgument, err)
		}
		r.body, r.header = bytes.NewReader(data), http.Header{"Content-Type": {"application/json"}}
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, r.body)
	if err != nil {
		return nil, fmt.Errorf("client: %s %s: %w: %w", r.method, r.path, fault.InvalidArgument, err)
	}
	for k, v := range r.header {
		req.Header[k] = v
	}
	req.Header.Set("Authorization", "Bearer "+c.cfg.Token)
	res, err := c.http.Do(req)
	if err != nil {
		return nil, c.transportError(ctx, err)
	}
	if res.StatusCode/100 != 2 {
		defer res.Body.Close()
		return nil, c.answerError(res)
	}
	return res, nil
}

// checkName refuses the name of a workspace that can't be an element of a URL path, with
// the error that the server has for an unknown name.
func checkName(path string) error {
	rest, ok := strings.CutPrefix(path, workspacesPath+"/")
	if !ok {
		return nil
	}
	name, _, _ := strings.Cut(rest, "/")
	if name == "" || name == "." || name == ".." {
		return fmt.Errorf("client: workspace %q: %w: it is neither an id nor a name ([a-z0-9][a-z0-9-]{0,62})", name, fault.InvalidArgument)
	}
	return nil
}

// transportError classifies an error of the transport.
func (c *Client) transportError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("client: server %s: %w", c.base, ctx.Err())
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // the message has the URL already
	}
	why := ""
	if errors.As(err, new(*tls.CertificateVerificationError)) || errors.As(err, new(tls.RecordHeaderError)) || errors.Is(err, http.ErrSchemeMismatch) {
		why = "TLS"
	}
	return fault.Transient(fault.WithHint(fmt.Errorf("client: server %s: %w: %w", c.base, fault.Unavailable, err), fault.HintReach, why))
}

// answerError turns an error answer into an error.
func (c *Client) answerError(res *http.Response) error {
	data, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	var p struct {
		Error *fault.Wire `json:"error"`
	}
	if err == nil && json.Unmarshal(data, &p) == nil && p.Error != nil && p.Error.Code != "" {
		return p.Error.Err()
	}
	err = fmt.Errorf("client: server %s: %w: it answered %s, which is not an answer of Croft", c.base, fault.Unavailable, res.Status)
	return fault.Advise(err, "check the URL")
}

// call sends r and decodes the answer into out, unless out is nil.
func (c *Client) call(ctx context.Context, r request, out any) error {
	res, err := c.send(ctx, r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if out == nil {
		_, err = io.Copy(io.Discard, res.Body)
	} else {
		err = json.NewDecoder(res.Body).Decode(out)
	}
	if err != nil {
		return c.transportError(ctx, err)
	}
	return nil
}

// get sends r and returns the answer.
func get[T any](ctx context.Context, c *Client, r request) (T, error) {
	var out T
	err := c.call(ctx, r, &out)
	return out, err
}

// getField sends r and returns one field of the answer.
func getField[T any](ctx context.Context, c *Client, name string, r request) (T, error) {
	var out T
	all, err := get[map[string]json.RawMessage](ctx, c, r)
	if err == nil && len(all[name]) > 0 {
		if err := json.Unmarshal(all[name], &out); err != nil {
			return out, c.transportError(ctx, err)
		}
	}
	return out, err
}

// A module calls the routes of one workspace, for a module of its driver.
type module struct {
	c  *Client
	id string
}

// callRoute is get for a route of the workspace.
func callRoute[T any](ctx context.Context, m module, method, route string, q params) (T, error) {
	out, err := get[T](ctx, m.c, request{method: method, path: workspacePath(m.id, route), query: q.Values})
	return out, evictedError(err)
}

// postRoute is get for a route of the workspace that takes JSON.
func postRoute[T any](ctx context.Context, m module, route string, q params, body any) (T, error) {
	out, err := get[T](ctx, m.c, request{method: http.MethodPost, path: workspacePath(m.id, route), query: q.Values, json: body})
	return out, evictedError(err)
}

// callRouteField is getField for a route of the workspace.
func callRouteField[T any](ctx context.Context, m module, route, name string, q params) (T, error) {
	out, err := getField[T](ctx, m.c, name, request{method: http.MethodGet, path: workspacePath(m.id, route), query: q.Values})
	return out, evictedError(err)
}

// callNoAnswer calls a route of the workspace that answers nothing.
func (m module) callNoAnswer(ctx context.Context, method, route string, q params) error {
	return evictedError(m.c.call(ctx, request{method: method, path: workspacePath(m.id, route), query: q.Values}, nil))
}

// open sends a request for the content of a file. The Info of the file is in the header
// infoHeader.
func (m module) open(ctx context.Context, route, name string, q params) (io.ReadCloser, driver.Info, error) {
	var info driver.Info
	res, err := m.c.send(ctx, request{method: http.MethodGet, path: workspacePath(m.id, route), query: q.Values})
	if err != nil {
		return nil, info, evictedError(err)
	}
	if err := json.Unmarshal([]byte(res.Header.Get(infoHeader)), &info); err != nil {
		res.Body.Close()
		return nil, info, fmt.Errorf("client: read %s: %w: server %s sent no valid %s", name, fault.Unavailable, m.c.base, infoHeader)
	}
	return &content{ReadCloser: res.Body, ctx: ctx, c: m.c}, info, nil
}
