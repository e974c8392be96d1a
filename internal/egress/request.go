package egress

import (
	"bufio"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/secret"
)

// serveRequest checks one request, forwards it and writes the response. It reports whether the
// connection can serve another request.
func (c *client) serveRequest(ctx context.Context, req *http.Request, h head) (keep bool) {
	rec := &requestRecord{began: time.Now(), protocol: c.protocol, method: req.Method, host: h.host}
	defer c.p.emitEvent(rec)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := &disconnectWatch{c: c, gone: cancel}
	body := newBody(c, req, w)
	defer func() {
		rec.out = body.bytesSent()
		if !body.stopReading() {
			c.linger()
			keep = false
		}
	}()
	f := &flow{stop: cancel}
	resp, scrub, err := c.sendRequest(ctx, req, h, body, rec, f)
	w.stop()
	if err != nil {
		why := asRefusal(err)
		keep = !req.Close && why.code != fault.InvalidArgument && body.drainBody()
		rec.out = body.bytesSent()
		c.writeRefusal(rec, req, why, keep)
		return keep
	}
	defer c.p.removeFlow(f)
	defer resp.Body.Close()
	rec.status = resp.StatusCode
	rec.in, keep, err = c.writeResponse(req, resp, scrub)
	if err != nil {
		rec.err = &refusal{code: fault.Unavailable, reason: "the answer did not get through to its end"}
		return false
	}
	return keep
}

func (t target) hostOrEmpty() string {
	if t.port == 0 {
		return ""
	}
	return t.String()
}

// sendRequest sends a request if the policy allows it. On success it has added f, and the
// caller removes it.
func (c *client) sendRequest(ctx context.Context, req *http.Request, h head, body *body, rec *requestRecord, f *flow) (*http.Response, *secret.Scrubber, error) {
	t, err := c.targetOf(req, h)
	if err != nil {
		return nil, nil, err
	}
	rec.target = t
	rs := c.p.currentRules()
	v := rs.checkRequest(t, req.Method)
	rec.rule, rec.credential = v.rule, v.credential
	if !v.allowed {
		return nil, nil, newDenial(v)
	}
	if req.Method == http.MethodTrace {
		return nil, nil, &refusal{code: fault.PermissionDenied, reason: "the method TRACE is never passed on"}
	}
	out := c.newOutgoing(ctx, req, t, body)
	var scrub *secret.Scrubber
	if rs.hasCredential(t) {
		if scrub, err = c.p.addCredential(ctx, rs, out, v.credential); err != nil {
			return nil, nil, err
		}
	}
	f.target, f.method, f.credential = t, req.Method, v.credential
	if err := c.p.addFlow(f); err != nil {
		return nil, nil, err
	}
	out = out.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		rec.addr = addrOf(info.Conn)
	}}))
	resp, err := c.p.transport.RoundTrip(out)
	if err == nil {
		if err = checkResponse(resp, scrub != nil); err == nil {
			return resp, scrub, nil
		}
		resp.Body.Close()
	}
	c.p.removeFlow(f)
	return nil, nil, err
}

// addrOf returns the checked address of a connection of the transport.
func addrOf(c net.Conn) netip.Addr {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	if u, ok := c.(*upstream); ok {
		return u.flow.addr
	}
	return netip.Addr{}
}

// targetOf returns the target of a request: of its absolute URL, or of the tunnel that it is
// in. The Host header must be the same.
func (c *client) targetOf(req *http.Request, h head) (target, error) {
	port := 80
	if c.https {
		port = 443
	}
	var t target
	if c.fixed != nil {
		t = *c.fixed
		if !strings.HasPrefix(h.uri, "/") && h.uri != "*" {
			return t, invalidRequest("inside a tunnel a request names a path")
		}
	} else {
		if !strings.HasPrefix(strings.ToLower(h.uri), "http://") {
			return t, invalidRequest("a proxy takes http://host/path, or CONNECT for https")
		}
		u, err := url.Parse(h.uri)
		if err != nil || u.User != nil || u.Host == "" {
			return t, invalidRequest("the URL of the request is malformed, or has a user")
		}
		if t, err = splitTarget(u.Host, port); err != nil {
			return t, err
		}
	}
	if h.hasHost {
		if said, err := splitTarget(h.host, port); err != nil || said != t && (c.fixed == nil || !said.isLoopback() || !t.isLoopback() || said.port != t.port) {
			return t, invalidRequest("the Host header is not the host of the request")
		}
	}
	return t, nil
}

// hopByHop are the headers of a single connection, which a proxy does not forward.
var hopByHop = []string{"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade", "Expect", "Proxy-Status"}

func stripHops(h http.Header) {
	for _, v := range h.Values("Connection") {
		for name := range strings.SplitSeq(v, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range hopByHop {
		h.Del(name)
	}
}

// newOutgoing builds the request that is sent to the server.
func (c *client) newOutgoing(ctx context.Context, req *http.Request, t target, body *body) *http.Request {
	u := &url.URL{Scheme: protoHTTP, Host: t.urlHost(80), Path: req.URL.Path, RawPath: req.URL.RawPath,
		RawQuery: req.URL.RawQuery, ForceQuery: req.URL.ForceQuery, Opaque: ""}
	if c.https {
		u.Scheme, u.Host = protoHTTPS, t.urlHost(443)
	}
	h := req.Header.Clone()
	stripHops(h)
	h.Del("Content-Length")
	if _, ok := h["User-Agent"]; !ok {
		h["User-Agent"] = []string{""} // net/http would add its own
	}
	out := (&http.Request{Method: req.Method, URL: u, Host: u.Host, Header: h, ContentLength: req.ContentLength,
		Body: http.NoBody}).WithContext(ctx)
	if req.ContentLength != 0 {
		out.Body = body
	}
	return out
}

// urlHost returns the target as the host of a URL; port is the default port.
func (t target) urlHost(port int) string {
	if t.port != port {
		return t.String()
	}
	if t.name == "" && t.addr.Is6() {
		return "[" + t.addr.String() + "]"
	}
	return t.host()
}

// checkResponse refuses responses that can't be forwarded, and decompresses a body that must be
// scrubbed.
func checkResponse(resp *http.Response, scrubbed bool) error {
	if resp.StatusCode < 200 {
		return &refusal{code: fault.Unsupported, reason: "it changes to another protocol"}
	}
	if !scrubbed {
		return nil
	}
	if resp.StatusCode == http.StatusPartialContent {
		return &refusal{code: fault.Unsupported, reason: "it answers in parts, in which a secret could not be seen"}
	}
	encodings := resp.Header.Values("Content-Encoding")
	switch enc := strings.ToLower(strings.Join(encodings, ",")); enc {
	case "", "identity":
	case "gzip", "x-gzip":
		resp.Header.Del("Content-Encoding")
		resp.ContentLength = -1
		resp.Body = &gzipBody{body: resp.Body}
	default:
		return &refusal{code: fault.Unsupported, reason: "it answers in an encoding in which a secret could not be seen"}
	}
	return nil
}

// gzipBody decompresses a body. Its reader is created at the first read, because a response may
// have no body.
type gzipBody struct {
	body io.ReadCloser
	zr   *gzip.Reader
	err  error
}

func (g *gzipBody) Read(p []byte) (int, error) {
	if g.zr == nil && g.err == nil {
		g.zr, g.err = gzip.NewReader(g.body)
	}
	if g.err != nil {
		return 0, g.err
	}
	return g.zr.Read(p)
}

func (g *gzipBody) Close() error { return g.body.Close() }

// writeResponse writes a response with scrubbed headers and streams its scrubbed body.
func (c *client) writeResponse(req *http.Request, resp *http.Response, scrub *secret.Scrubber) (n int64, keep bool, err error) {
	c.mu.Lock()
	c.answering = true
	c.mu.Unlock()
	length, hasBody := resp.ContentLength, true
	switch {
	case req.Method == http.MethodHead:
		hasBody = false
	case resp.StatusCode == http.StatusNoContent, resp.StatusCode == http.StatusNotModified:
		length, hasBody = -1, false
	case scrub != nil && length != 0:
		length = -1
	}
	chunked := hasBody && length < 0 && req.ProtoAtLeast(1, 1)
	keep = !req.Close && (!hasBody || length >= 0 || chunked)
	h := cleanHeader(resp.Header, scrub)
	if length >= 0 {
		h.Set("Content-Length", strconv.FormatInt(length, 10))
	}
	if chunked {
		h.Set("Transfer-Encoding", "chunked")
	}
	if !keep {
		h.Set("Connection", "close")
	} else if !req.ProtoAtLeast(1, 1) {
		h.Set("Connection", "keep-alive")
	}
	bw := bufio.NewWriterSize(&deadlineWriter{c.conn, c.p.opts.IdleTimeout}, 16<<10)
	fmt.Fprintf(bw, "HTTP/1.1 %03d %s\r\n", resp.StatusCode, statusText(resp.StatusCode))
	if err := h.Write(bw); err != nil {
		return 0, false, err
	}
	_, _ = bw.WriteString("\r\n")
	if hasBody {
		n, err = copyBody(bw, scrub.Reader(resp.Body), chunked)
	}
	return n, keep && err == nil, errors.Join(err, bw.Flush())
}

// cleanHeader returns the headers of a response that are forwarded, scrubbed.
func cleanHeader(from http.Header, scrub *secret.Scrubber) http.Header {
	h := from.Clone()
	stripHops(h)
	h.Del("Content-Length")
	h.Del("Alt-Svc") // names a protocol that the proxy does not support
	if scrub == nil {
		return h
	}
	clean := make(http.Header, len(h))
	for name, values := range h {
		if scrub.String(name) != name || scrub.String(strings.ToLower(name)) != strings.ToLower(name) {
			continue
		}
		for _, v := range values {
			clean[name] = append(clean[name], scrub.String(v))
		}
	}
	return clean
}

// copyBody copies a body, and flushes after each read.
func copyBody(bw *bufio.Writer, r io.Reader, chunked bool) (n int64, err error) {
	var w io.Writer = bw
	if chunked {
		cw := httputil.NewChunkedWriter(bw)
		defer func() {
			if err == nil {
				err = cw.Close()
				_, _ = bw.WriteString("\r\n")
			}
		}()
		w = cw
	}
	buf := make([]byte, 32<<10)
	for {
		m, rerr := r.Read(buf)
		n += int64(m)
		if m > 0 {
			if _, err := w.Write(buf[:m]); err != nil {
				return n, err
			}
		}
		if rerr == io.EOF {
			return n, nil
		}
		if rerr != nil {
			return n, rerr
		}
		if err := bw.Flush(); err != nil {
			return n, err
		}
	}
}

// deadlineWriter sets a new deadline for every write.
type deadlineWriter struct {
	net.Conn
	idle time.Duration
}

func (p *deadlineWriter) Write(b []byte) (int, error) {
	_ = p.SetWriteDeadline(deadline(p.idle))
	return p.Conn.Write(b)
}
