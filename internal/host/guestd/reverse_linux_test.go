package guestd

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containerd/ttrpc"

	"github.com/croft-run/croft/internal/host/guest"
	"github.com/croft-run/croft/internal/host/guestproto"
)

// away is a guest whose proxy can't be reached from inside: where the workload
// finds its relay, and a way to reach the guest.
func away(t *testing.T) (at string, reach func() *guest.Client) {
	t.Helper()
	before := reverseTimeout
	reverseTimeout = time.Hour // so that what ends before does for another reason
	t.Cleanup(func() { reverseTimeout = before })
	cfg := &guestproto.Config{Version: "v", Workspace: "w", RemoteProxy: true}
	r, err := startRelay(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.close)
	at = r.listener.Addr().String()
	s := newServer(cfg, nil, nil)
	s.reverse = r.reverse
	rpc, err := ttrpc.NewServer()
	if err != nil {
		t.Fatal(err)
	}
	s.register(rpc)
	l, err := net.Listen("unix", t.TempDir()+"/s")
	if err != nil {
		t.Fatal(err)
	}
	go rpc.Serve(context.Background(), l)
	t.Cleanup(func() { rpc.Close() })
	return at, func() *guest.Client {
		conn, err := net.Dial("unix", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		c, err := guest.NewClient(t.Context(), conn, "v", "w")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
}

// answerer is a proxy that reads to the end and answers with the digest of it, and all
// that came. open is the number of connections of which a byte, or the end, came: one of
// which nothing came is offered to the next host if this one ends.
func answerer(t *testing.T) (dial func(ctx context.Context) (net.Conn, error), open *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("unix", t.TempDir()+"/proxy")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	open = new(atomic.Int64)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				data := make([]byte, 1)
				n, _ := conn.Read(data)
				open.Add(1)
				defer open.Add(-1)
				rest, _ := io.ReadAll(conn)
				data = append(data[:n], rest...)
				sum := sha256.Sum256(data)
				conn.Write(sum[:])
				conn.Write(data)
			}()
		}
	}()
	return func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", l.Addr().String())
	}, open
}

// TestRelayThroughTheClient sends much, from many at once, both ways, through a host
// that asks for the connections; then another host takes over.
func TestRelayThroughTheClient(t *testing.T) {
	at, reach := away(t)
	dial, open := answerer(t)
	c := reach()
	c.Relay(dial)
	errs := make(chan error)
	const many = 8
	for i := range many {
		go func() { errs <- exchange(at, i<<18+i) }()
	}
	for range many {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	await(t, "the proxy to be left", func() bool { return open.Load() == 0 })
	c.Close()
	next := reach()
	next.Relay(dial)
	if err := exchange(at, 100); err != nil {
		t.Errorf("through the next host: %v", err)
	}
}

// exchange sends so many bytes through the relay, ends its way, and holds the answer
// against them.
func exchange(at string, size int) error {
	conn, err := net.Dial("tcp", at)
	if err != nil {
		return err
	}
	defer conn.Close()
	data := make([]byte, size)
	r := rand.NewChaCha8([32]byte{byte(size)})
	r.Read(data)
	if _, err := conn.Write(data); err != nil {
		return err
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		return err
	}
	got, err := io.ReadAll(conn)
	sum := sha256.Sum256(data)
	if err == nil && !bytes.Equal(got, append(sum[:], data...)) {
		err = errors.New("the answer is of something else")
	}
	return err
}

// TestRelayEndsWithItsHost: neither side of a connection outlives the other, or the
// host that carries it.
func TestRelayEndsWithItsHost(t *testing.T) {
	at, reach := away(t)
	dial, open := answerer(t)
	c := reach()
	c.Relay(dial)
	begin := func() net.Conn {
		conn, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if _, err := io.WriteString(conn, "x"); err != nil {
			t.Fatal(err)
		}
		await(t, "the proxy to be reached", func() bool { return open.Load() == 1 })
		return conn
	}
	conn := begin()
	conn.Close()
	await(t, "the proxy to be left by who went", func() bool { return open.Load() == 0 })
	conn = begin()
	c.Close()
	await(t, "the proxy to be left with the host", func() bool { return open.Load() == 0 })
	conn.SetReadDeadline(time.Now().Add(2 * time.Minute))
	if _, err := conn.Read(make([]byte, 1)); err == nil || timedOut(err) {
		t.Errorf("a connection whose host is gone gives %v, want its end", err)
	}
}

func timedOut(err error) bool {
	var net net.Error
	return errors.As(err, &net) && net.Timeout()
}

// TestRelayToAProxyThatIsNotThere ends connections at once.
func TestRelayToAProxyThatIsNotThere(t *testing.T) {
	at, reach := away(t)
	reach().Relay(func(context.Context) (net.Conn, error) { return nil, errors.New("none") })
	conn, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetReadDeadline(time.Now().Add(2 * time.Minute))
	if n, err := conn.Read(make([]byte, 1)); n != 0 || timedOut(err) {
		t.Errorf("got %d bytes, %v, want the end", n, err)
	}
}

func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !is(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}
