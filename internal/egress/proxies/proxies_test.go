package proxies

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/egress"
	"github.com/croft-run/croft/workspace/driver"
)

// TestOneProxyForAllWhoHoldIt holds one twice: it answers until the second is
// given back, and what it refused is told.
func TestOneProxyForAllWhoHoldIt(t *testing.T) {
	dir := t.TempDir()
	at := Paths{Socket: filepath.Join(dir, "egress", "proxy.sock"), Authority: filepath.Join(dir, "authority.pem"), Roots: filepath.Join(dir, "roots")}
	o := New(t.Context(), egress.Options{}, slog.New(slog.DiscardHandler))
	if o.Refused("ws") != nil {
		t.Error("there are refusals before there is a proxy")
	}
	for range 2 {
		if err := o.Acquire("ws", at, driver.Network{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.Release(t.Context(), "ws"); err != nil {
		t.Fatal(err)
	}
	refused := o.Refused("ws")
	moment := refused.Now()
	if got := ask(t, at.Socket); !strings.Contains(got, "403") {
		t.Errorf("the proxy answers %q", got)
	}
	if list := refused.Since(moment); len(list) != 1 || list[0].Host != "host.test:80" {
		t.Errorf("refused: %+v", list)
	}
	if err := o.Update("ws", driver.Network{Allow: []driver.NetRule{{Host: "other.test"}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(at.Roots, BundleName)); err != nil {
		t.Errorf("with a policy, programs have no roots: %v", err)
	}
	if err := o.Release(t.Context(), "ws"); err != nil {
		t.Fatal(err)
	}
	if conn, err := net.Dial("unix", at.Socket); err == nil {
		conn.Close()
		t.Error("it listens after the last one let go")
	}
	if err := o.Release(t.Context(), "ws"); err != nil {
		t.Errorf("once more: %v", err)
	}
}

// TestPart: a part that is taken anew holds the proxy once, also after another has left.
func TestPart(t *testing.T) {
	dir := t.TempDir()
	at := Paths{Socket: filepath.Join(dir, "egress", "proxy.sock"), Authority: filepath.Join(dir, "authority.pem")}
	o := New(t.Context(), egress.Options{}, slog.New(slog.DiscardHandler))
	var one, other Ref
	one.Release(t.Context())
	for _, p := range []*Ref{&one, &one, &other} {
		if err := p.Acquire(t.Context(), o, "ws", at, driver.Network{}); err != nil {
			t.Fatal(err)
		}
	}
	one.Release(t.Context())
	one.Release(t.Context())
	if o.Refused("ws") == nil {
		t.Error("the proxy ended while the other part holds it")
	}
	other.Release(t.Context())
	if o.Refused("ws") != nil {
		t.Error("the proxy is there after both parts left")
	}
}

// TestSettle: while a connection is open there may be more to tell, and then not.
func TestSettle(t *testing.T) {
	dir := t.TempDir()
	at := Paths{Socket: filepath.Join(dir, "egress", "proxy.sock"), Authority: filepath.Join(dir, "authority.pem")}
	o := New(t.Context(), egress.Options{}, slog.New(slog.DiscardHandler))
	if err := o.WaitIdle(t.Context(), "ws"); err != nil {
		t.Errorf("without a proxy: %v", err)
	}
	if err := o.Acquire("ws", at, driver.Network{}); err != nil {
		t.Fatal(err)
	}
	defer o.Release(t.Context(), "ws")
	if err := o.WaitIdle(t.Context(), "ws"); err != nil {
		t.Errorf("without a connection: %v", err)
	}
	refused := o.Refused("ws")
	moment := refused.Now()
	conn, err := net.Dial("unix", at.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET http://host.test/ HTTP/1.1\r\nHost: host.test\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err != nil { // it is being served
		t.Fatal(err)
	}
	soon, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := o.WaitIdle(soon, "ws"); fault.Of(err) != fault.DeadlineExceeded {
		t.Errorf("with a connection: %v, want %v", err, fault.DeadlineExceeded)
	}
	conn.Close()
	if err := o.WaitIdle(t.Context(), "ws"); err != nil {
		t.Error(err)
	}
	if list := refused.Since(moment); len(list) != 1 {
		t.Errorf("told: %+v", list)
	}
}

// TestGivenBackAtOnce: a proxy that is closed before it began to serve is no
// error, and nothing is logged.
func TestGivenBackAtOnce(t *testing.T) {
	var said bytes.Buffer
	o := New(t.Context(), egress.Options{}, slog.New(slog.NewTextHandler(&said, nil)))
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // so that most do not begin
	for range 20 {
		dir := t.TempDir()
		if err := o.Acquire("ws", Paths{Socket: filepath.Join(dir, "egress", "proxy.sock"), Authority: filepath.Join(dir, "authority.pem")}, driver.Network{}); err != nil {
			t.Fatal(err)
		}
		if err := o.Release(t.Context(), "ws"); err != nil {
			t.Fatal(err)
		}
	}
	if said.Len() != 0 {
		t.Errorf("it was said: %s", said.String())
	}
}

func ask(t *testing.T, socket string) string {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET http://host.test/ HTTP/1.1\r\nHost: host.test\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

// TestSeveralProcesses has a workspace open in two sets, as two processes do: the first
// one serves, also after the second one has ended, by the policy that is stored now; when
// the first one ends, the other one serves.
func TestSeveralProcesses(t *testing.T) {
	dir := t.TempDir()
	var stored atomic.Pointer[driver.Network]
	stored.Store(&driver.Network{})
	at := Paths{Socket: filepath.Join(dir, "egress", "proxy.sock"), Authority: filepath.Join(dir, "authority.pem"), Roots: filepath.Join(dir, "roots"),
		Network: func() (driver.Network, error) { return *stored.Load(), nil }}
	sets := make([]*Set, 3)
	for i := range sets {
		sets[i] = New(t.Context(), egress.Options{}, slog.New(slog.DiscardHandler))
		if err := sets[i].Acquire("ws", at, *stored.Load()); err != nil {
			t.Fatal(err)
		}
	}
	if err := sets[1].Release(t.Context(), "ws"); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, at.Socket); !strings.Contains(got, "403") {
		t.Errorf("after the end of another process, the proxy answers %q", got)
	}
	if n := len(sets[0].Refused("ws").Since(0)); n != 1 {
		t.Errorf("the first process refused %d requests, want 1", n)
	}
	stored.Store(&driver.Network{Allow: []driver.NetRule{{Host: "host.test"}}})
	if got := ask(t, at.Socket); strings.Contains(got, "403") {
		t.Errorf("after another process allowed the host, the proxy answers %q", got)
	}
	stored.Store(&driver.Network{})
	if err := sets[0].Release(t.Context(), "ws"); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		conn, err := net.Dial("unix", at.Socket)
		if err == nil {
			conn.Close()
			break
		}
		if time.Now().After(end) {
			t.Fatalf("no process took over: %v", err)
		}
	}
	if got := ask(t, at.Socket); !strings.Contains(got, "403") {
		t.Errorf("after the takeover, the proxy answers %q", got)
	}
	if err := sets[2].Release(t.Context(), "ws"); err != nil {
		t.Fatal(err)
	}
}
