package rest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/server/httpguard"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/registry"
	"github.com/croft-run/croft/workspace"
)

// slowServer serves h and returns a connection to it.
func slowServer(t *testing.T, h http.Handler) net.Conn {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// TestNoBodyIsWaitedForWithoutAToken sends a request that owes its body: it is
// answered, and the connection ends although the client keeps it.
func TestNoBodyIsWaitedForWithoutAToken(t *testing.T) {
	s, err := New(Config{Registry: new(registry.Registry), Mux: workspace.NewMux(), Guard: httpguard.Guard{Token: "secret"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, head := range map[string]string{
		"no token":   "POST /v1/workspaces HTTP/1.1\r\nHost: localhost\r\n",
		"other host": "POST /v1/workspaces HTTP/1.1\r\nHost: example.org\r\n",
		"no route":   "POST /nowhere HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := slowServer(t, s)
			if _, err := io.WriteString(conn, head+"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"); err != nil {
				t.Fatal(err)
			}
			if err := conn.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(bufio.NewReader(conn)) // until the server ends it
			if errors.Is(err, os.ErrDeadlineExceeded) || !strings.HasPrefix(string(got), "HTTP/1.1 4") {
				t.Errorf("got %.40q, %v; want an answer, and the end", got, err)
			}
		})
	}
}

// TestABodyThatPauses proves that a body may take as long as it likes while it
// comes, and that one that does not come ends. Time is that of a bubble: nobody is
// late because the machine is.
func TestABodyThatPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const patience, steps = time.Minute, 10
		read := make(chan error, 1)
		conn := pipeServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r, answered := watchBody(w, r, patience)
			defer answered()
			data, err := io.ReadAll(r.Body)
			read <- err
			fmt.Fprintf(w, "%d", len(data))
		}))
		if _, err := fmt.Fprintf(conn, "PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", steps); err != nil {
			t.Fatal(err)
		}
		for range steps {
			time.Sleep(patience - time.Second)
			if _, err := io.WriteString(conn, "x"); err != nil {
				t.Fatal(err)
			}
		}
		if err := <-read; err != nil {
			t.Fatalf("a body that comes slowly: %v", err)
		}
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(res.Body); err != nil || string(got) != fmt.Sprint(steps) {
			t.Errorf("got %q, %v", got, err)
		}
		res.Body.Close()
		time.Sleep(2 * patience) // the connection is not bound by what was
		if _, err := io.WriteString(conn, "PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nx"); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := <-read; !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != patience {
			t.Errorf("a body that stops: %v after %v, want the deadline after %v", err, time.Since(began), patience)
		}
	})
}

// pipeServer is slowServer without a network, for a bubble.
func pipeServer(t *testing.T, h http.Handler) net.Conn {
	t.Helper()
	l := &oneConn{conns: make(chan net.Conn, 1)}
	srv := &http.Server{Handler: h}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	here, there := net.Pipe()
	l.conns <- there
	t.Cleanup(func() {
		here.Close()
		srv.Close()
		<-served
	})
	return here
}

// oneConn listens for connections that are there already.
type oneConn struct {
	conns chan net.Conn
	once  sync.Once
}

func (l *oneConn) Accept() (net.Conn, error) {
	conn, ok := <-l.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (l *oneConn) Close() error {
	l.once.Do(func() { close(l.conns) })
	return nil
}

func (l *oneConn) Addr() net.Addr { return new(net.UnixAddr) }

// TestAWriteWhoseBodyPausesIsLate sends half of a file and then nothing.
func TestAWriteWhoseBodyPausesIsLate(t *testing.T) {
	store, err := registry.OpenStore(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "croft.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	mux := workspace.NewMux(new(memory.Provider))
	reg, err := registry.New(t.Context(), store, mux, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer reg.Shutdown(t.Context())
	rec, err := reg.Create(t.Context(), workspace.Spec{Kind: memory.Kind})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{Registry: reg, Mux: mux, Guard: httpguard.Guard{Token: "secret"}})
	if err != nil {
		t.Fatal(err)
	}
	s.bodyTimeout = 100 * time.Millisecond
	conn := slowServer(t, s)
	if _, err := fmt.Fprintf(conn, "PUT /v1/workspaces/%s/files?path=f HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\nContent-Length: 10\r\n\r\nhalf", rec.ID); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != fault.DeadlineExceeded.Status() || !strings.Contains(string(got), fault.DeadlineExceeded.Wire()) {
		t.Errorf("got %d %s, %v; want %s", res.StatusCode, got, err, fault.DeadlineExceeded.Wire())
	}
}
