package replica

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/server/httplog"
)

var secret = []byte(strings.Repeat("s", MinSecret))

func newForwarder(t *testing.T, node string, secret []byte) *Forwarder {
	t.Helper()
	f, err := New(t.Context(), node, secret, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

// serve serves as a replica does: with HTTP/2 also without TLS.
func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: httplog.New(h, httplog.Config{}), Protocols: new(http.Protocols), HTTP2: ServerHTTP2(), ReadHeaderTimeout: time.Minute}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }() // ends with Close
	t.Cleanup(func() { server.Close(); <-done })
	return "http://" + l.Addr().String()
}

func TestForward(t *testing.T) {
	a, b := newForwarder(t, "a", secret), newForwarder(t, "b", secret)
	owner := serve(t, b.Accept(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Answer", "yes")
		fmt.Fprintf(w, "%s %s %s host=%s client=%s forwarded=%v id=%s auth=%s header=%q %s", r.Proto, r.Method, r.URL.RequestURI(), r.Host, r.RemoteAddr, IsForwarded(r.Context()), httplog.ID(r.Context()), r.Header.Get("Authorization"), r.Header.Get(Header), body)
	})))
	entry := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.RemoteAddr = "192.0.2.7:1234"
		if err := a.Forward(w, r, Target{Node: "b", Address: owner}); err != nil {
			w.WriteHeader(fault.Of(err).Status())
			io.WriteString(w, err.Error())
		}
	}))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, entry+"/v1/x%2Fy?a=b;c&d=%zz", strings.NewReader("content"))
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "49983-box.example"
	req.Header.Set("Authorization", "Bearer k")
	req.Header.Set(httplog.Header, "request-1")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	const want = `HTTP/2.0 PUT /v1/x%2Fy?a=b;c&d=%zz host=49983-box.example client=192.0.2.7:1234 forwarded=true id=request-1 auth=Bearer k header="" content`
	if string(got) != want {
		t.Errorf("the owner got\n%s\nwant\n%s", got, want)
	}
	if ids := res.Header.Values(httplog.Header); len(ids) != 1 || ids[0] != "request-1" || res.Header.Get("Answer") != "yes" {
		t.Errorf("headers of the answer: %v", res.Header)
	}
}

func TestARequestIsForwardedOnce(t *testing.T) {
	a, b := newForwarder(t, "a", secret), newForwarder(t, "b", secret)
	var owner string
	owner = serve(t, b.Accept(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := b.Forward(w, r, Target{Node: "b", Address: owner})
		w.WriteHeader(fault.Of(err).Status())
		io.WriteString(w, err.Error())
	})))
	w := httptest.NewRecorder()
	if err := a.Forward(w, httptest.NewRequest(http.MethodGet, "/x", nil), Target{Node: "b", Address: owner}); err != nil {
		t.Fatal(err)
	}
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "has moved") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestAnUnreachableReplicaIsUnavailable(t *testing.T) {
	a := newForwarder(t, "a", secret)
	err := a.Forward(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/x", nil), Target{Node: "b", Address: "http://127.0.0.1:1"})
	if fault.Of(err) != fault.Unavailable || !strings.Contains(err.Error(), "node b") || strings.Contains(err.Error(), "127.0.0.1") {
		t.Errorf("got %v; want Unavailable with the node and without the address", err)
	}
}

func TestAForgedHeaderIsRefused(t *testing.T) {
	b := newForwarder(t, "b", secret)
	other := newForwarder(t, "a", []byte(strings.Repeat("x", MinSecret)))
	a := newForwarder(t, "a", secret)
	// sign is what rewrite does, with what may be forged.
	sign := func(f *Forwarder, to, method, url string, at time.Time) string {
		r := httptest.NewRequest(method, url, nil)
		now := fmt.Sprint(at.Unix())
		return strings.Join([]string{now, "a", "192.0.2.7:1", f.mac(r, now, "a", "192.0.2.7:1", to, "")}, " ")
	}
	const url = "http://host/v1/x?q=1"
	now := time.Now()
	for _, tt := range []struct {
		name   string
		values []string
		want   int
	}{
		{"valid", []string{sign(a, "b", "GET", url, now)}, 200},
		{"another secret", []string{sign(other, "b", "GET", url, now)}, 401},
		{"for another node", []string{sign(a, "c", "GET", url, now)}, 401},
		{"of another method", []string{sign(a, "b", "DELETE", url, now)}, 401},
		{"of another path", []string{sign(a, "b", "GET", "http://host/v1/y?q=1", now)}, 401},
		{"of another query", []string{sign(a, "b", "GET", "http://host/v1/x?q=2", now)}, 401},
		{"of another host", []string{sign(a, "b", "GET", "http://other/v1/x?q=1", now)}, 401},
		{"too old", []string{sign(a, "b", "GET", url, now.Add(-2*time.Minute))}, 401},
		{"of the future", []string{sign(a, "b", "GET", url, now.Add(2*time.Minute))}, 401},
		{"with another client", []string{strings.Replace(sign(a, "b", "GET", url, now), "192.0.2.7", "192.0.2.8", 1)}, 401},
		{"twice", []string{sign(a, "b", "GET", url, now), sign(a, "b", "GET", url, now)}, 401},
		{"empty", []string{""}, 401},
	} {
		r := httptest.NewRequest(http.MethodGet, url, nil)
		r.Header[Header] = tt.values
		w := httptest.NewRecorder()
		b.Accept(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !IsForwarded(r.Context()) || r.RemoteAddr != "192.0.2.7:1" {
				t.Errorf("%s: the client is %s", tt.name, r.RemoteAddr)
			}
		})).ServeHTTP(w, r)
		if w.Code != tt.want {
			t.Errorf("%s: %d %s; want %d", tt.name, w.Code, w.Body, tt.want)
		}
	}
}

func TestAStreamIsPassedOnAtOnce(t *testing.T) {
	a, b := newForwarder(t, "a", secret), newForwarder(t, "b", secret)
	more := make(chan struct{})
	owner := serve(t, b.Accept(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "first\n")
		http.NewResponseController(w).Flush()
		select {
		case <-more:
		case <-r.Context().Done():
		}
		io.WriteString(w, "second\n")
	})))
	entry := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := a.Forward(w, r, Target{Node: "b", Address: owner}); err != nil {
			t.Error(err)
		}
	}))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, entry, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	line := make([]byte, len("first\n"))
	if _, err := io.ReadFull(res.Body, line); err != nil || string(line) != "first\n" {
		t.Errorf("%q, %v before the end of the answer", line, err)
	}
	close(more)
	if rest, err := io.ReadAll(res.Body); err != nil || string(rest) != "second\n" {
		t.Errorf("%q, %v", rest, err)
	}
}

func TestSecrets(t *testing.T) {
	if _, err := New(t.Context(), "a", []byte("short"), slog.New(slog.DiscardHandler)); fault.Of(err) != fault.InvalidArgument {
		t.Errorf("a short secret: %v", err)
	}
	if _, err := ReadSecret([]byte(" short \n")); fault.Of(err) != fault.InvalidArgument {
		t.Errorf("the text of a short secret: %v", err)
	}
	if got, err := ReadSecret(append(secret, '\n')); err != nil || string(got) != string(secret) {
		t.Errorf("read %q, %v", got, err)
	}
	if string(Derive(secret, "a")) == string(Derive(secret, "b")) {
		t.Error("two purposes have one key")
	}
}
