package replica

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/croft-run/croft/fault"
)

// forwardTo serves a replica that forwards all requests to a target.
func forwardTo(t *testing.T, f *Forwarder, to Target) string {
	t.Helper()
	return serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := f.Forward(w, r, to); err != nil {
			w.WriteHeader(fault.Of(err).Status())
			io.WriteString(w, err.Error())
		}
	}))
}

// post sends a body, and returns the status, 0 without an answer, and the text of the answer.
func post(ctx context.Context, url string, body io.Reader) (int, string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, body)
	if err != nil {
		return 0, err.Error()
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(text)
}

// TestBodiesThatNobodyReadsDoNotBlockOthers: all requests to a replica share a connection, and a
// program in a workspace may leave the body of its request unread.
func TestBodiesThatNobodyReadsDoNotBlockOthers(t *testing.T) {
	a, b := newForwarder(t, "a", secret), newForwarder(t, "b", secret)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const unread = 16
	begun := make(chan struct{}, unread)
	owner := serve(t, b.Accept(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/unread" {
			begun <- struct{}{}
			<-ctx.Done()
			return
		}
		io.Copy(w, r.Body)
	})))
	entry := forwardTo(t, a, Target{Node: "b", Address: owner})
	slow, end := context.WithCancel(ctx)
	done := make(chan struct{})
	for range unread {
		go func() {
			post(slow, entry+"/unread", strings.NewReader(strings.Repeat("x", 8<<20)))
			done <- struct{}{}
		}()
	}
	for range unread {
		<-begun
	}
	// By then the bodies have filled what the connection takes.
	for range 20 {
		want := strings.Repeat("y", 1<<20)
		if status, text := post(ctx, entry+"/other", strings.NewReader(want)); status != 200 || text != want {
			t.Errorf("another request: %d %.200s", status, text)
			break
		}
	}
	end()
	cancel()
	for range unread {
		<-done
	}
}

// hang listens and never answers, as a process that is stopped.
func hang(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return "http://" + l.Addr().String()
}

// TestAReplicaThatHangsIsUnavailable, for requests and for WebSockets.
func TestAReplicaThatHangsIsUnavailable(t *testing.T) {
	a := newForwarder(t, "a", secret)
	const part = 50
	a.streams.HTTP2.SendPingTimeout /= part
	a.streams.HTTP2.PingTimeout /= part
	a.upgrades.ResponseHeaderTimeout /= 4 * part
	entry := forwardTo(t, a, Target{Node: "b", Address: hang(t)})
	for _, upgrade := range []string{"", "websocket"} {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, entry, nil)
		if err != nil {
			t.Fatal(err)
		}
		if upgrade != "" {
			req.Header.Set("Connection", "Upgrade")
			req.Header.Set("Upgrade", upgrade)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Errorf("upgrade %q: %v", upgrade, err)
		} else if res.Body.Close(); res.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("upgrade %q: %s", upgrade, res.Status)
		}
		cancel()
	}
}

// TestReplicasThatDoNotTrustEachOther: the client's key is good, so it must not be told that it is
// not.
func TestReplicasThatDoNotTrustEachOther(t *testing.T) {
	b := newForwarder(t, "b", secret)
	owner := serve(t, b.Accept(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the request was accepted") })))
	a := newForwarder(t, "a", []byte(strings.Repeat("x", MinSecret)))
	w := httptest.NewRecorder()
	err := a.Forward(w, httptest.NewRequest(http.MethodGet, "/x", nil), Target{Node: "b", Address: owner})
	if fault.Of(err) != fault.Unavailable || !strings.Contains(fmt.Sprint(err), "node b refuses") {
		t.Errorf("got %v and %d %s; want Unavailable", err, w.Code, w.Body)
	}
	if strings.Contains(fmt.Sprint(err), owner) || strings.Contains(fmt.Sprint(err), "xxx") {
		t.Errorf("the error says too much: %v", err)
	}
}

// TestAFailingBodyIsNotTheFaultOfTheReplica: a body that is too long or too slow.
func TestAFailingBodyIsNotTheFaultOfTheReplica(t *testing.T) {
	a, b := newForwarder(t, "a", secret), newForwarder(t, "b", secret)
	owner := serve(t, b.Accept(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })))
	slow := fmt.Errorf("body: %w", fault.DeadlineExceeded)
	r := httptest.NewRequest(http.MethodPost, "/x", io.MultiReader(strings.NewReader("begin"), failing{slow}))
	err := a.Forward(httptest.NewRecorder(), r, Target{Node: "b", Address: owner})
	if !errors.Is(err, slow) || strings.Contains(fmt.Sprint(err), "does not answer") {
		t.Errorf("got %v; want %v", err, slow)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// TestOtherHeaders: clients of Java offer h2c with every request, and load balancers add headers.
func TestOtherHeaders(t *testing.T) {
	a, b := newForwarder(t, "a", secret), newForwarder(t, "b", secret)
	owner := serve(t, b.Accept(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s %s", r.Proto, r.Method, r.Header.Get("X-Forwarded-Proto"), body)
	})))
	entry := forwardTo(t, a, Target{Node: "b", Address: owner})
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(entry, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "POST /x HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA\r\nX-Forwarded-Proto: https\r\nContent-Length: 2\r\n\r\nhi")
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if text, err := io.ReadAll(res.Body); err != nil || string(text) != "HTTP/2.0 POST https hi" {
		t.Errorf("%s %q, %v", res.Status, text, err)
	}
}

// TestAnEarlyAnswerKeepsTheConnection, or says that it does not: the next request of a client
// must not be lost with it.
func TestAnEarlyAnswerKeepsTheConnection(t *testing.T) {
	a, b := newForwarder(t, "a", secret), newForwarder(t, "b", secret)
	owner := serve(t, b.Accept(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })))
	for address, want := range map[string]int{owner: http.StatusForbidden, "http://127.0.0.1:1": http.StatusServiceUnavailable} {
		entry := forwardTo(t, a, Target{Node: "b", Address: address})
		for _, size := range []int{1, 8, 100 << 10} {
			for range 300 {
				if status, text := post(t.Context(), entry, strings.NewReader(strings.Repeat("x", size))); status != want {
					t.Fatalf("%d bytes: %d %s", size, status, text)
				}
			}
		}
	}
}
