package guestd

import (
	"github.com/croft-run/croft/internal/host/guestproto"
	"io"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// TestRelayHoldsNoMoreThanItMust: a program inside opens connections without end. The guest
// accepts a bounded number, and the rest wait until some are closed.
func TestRelayHoldsNoMoreThanItMust(t *testing.T) {
	dir := t.TempDir()
	proxy, err := net.Listen("unix", filepath.Join(dir, guestproto.ProxySocket))
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	var came atomic.Int64
	go func() {
		for {
			conn, err := proxy.Accept()
			if err != nil {
				return
			}
			came.Add(1)
			go func() {
				defer conn.Close()
				io.Copy(conn, conn)
			}()
		}
	}()
	r, err := startRelay(&guestproto.Config{Paths: map[string]string{"egress": dir}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	at := r.listener.Addr().String()
	var conns []net.Conn
	for range maxRelayed + 100 {
		conn, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	for deadline := time.Now().Add(2 * time.Minute); came.Load() < maxRelayed && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(20 * time.Millisecond) // in which more would come
	if got := came.Load(); got != maxRelayed {
		t.Errorf("%d connections are passed on, want %d", got, maxRelayed)
	}
	last := conns[len(conns)-1]
	for _, conn := range conns[:len(conns)-1] {
		conn.Close()
	}
	if _, err := io.WriteString(last, "x"); err != nil {
		t.Fatal(err)
	}
	if err := last.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(last, make([]byte, 1)); err != nil {
		t.Errorf("afterwards nobody gets through: %v", err)
	}
	last.Close()
}
