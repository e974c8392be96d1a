package sandbox

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/croft-run/croft/workspace/driver"
)

// names resolves what a test calls its server.
type names map[string]string

func (n names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	addr, ok := n[strings.TrimSuffix(host, ".")]
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return []netip.Addr{netip.MustParseAddr(addr)}, nil
}

// get is a request through the proxy, by bash alone.
const get = `get() { exec 3<>/dev/tcp/127.0.0.1/3128 && printf 'GET http://%s/ HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n' "$1" "$1" >&3 && cat <&3; }; `

func TestAllowedHostIsReachedAndNoOther(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "reached the server") }))
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	p := newProvider(t, t.TempDir())
	p.cfg.Resolver = names{"good.test": "127.0.0.1", "bad.test": "127.0.0.1"}
	t.Cleanup(func() { p.Close() })
	allow := driver.Network{Allow: []driver.NetRule{{Host: "good.test", Ports: []int{n}, Private: true}}}
	ws := open(t, p, policy(driver.Policy{Network: allow}))
	if got := output(t, ws, "echo $http_proxy; "+get+"get good.test:"+port); !strings.HasPrefix(got, "http://127.0.0.1:3128\n") || !strings.Contains(got, "reached the server") {
		t.Errorf("the allowed host gives %q", got)
	}
	if got := output(t, ws, get+"get bad.test:"+port); strings.Contains(got, "reached the server") || !strings.Contains(got, "403") {
		t.Errorf("another host gives %q", got)
	}
	if got := output(t, ws, "(exec 3<>/dev/tcp/127.0.0.1/"+port+") 2>/dev/null && echo reached; true"); got != "" {
		t.Errorf("the server is reached without the proxy: %q", got)
	}
	before := guestOf(t, p, ws)
	both := driver.Network{Allow: append(allow.Allow, driver.NetRule{Host: "bad.test", Ports: []int{n}, Private: true}), Deny: []driver.NetRule{{Host: "good.test"}}}
	if _, err := ws.Life.Update(t.Context(), driver.Policy{Network: both}); err != nil {
		t.Fatal(err)
	}
	if got := output(t, ws, get+"get bad.test:"+port+"; get good.test:"+port); strings.Count(got, "reached the server") != 1 || !strings.Contains(got, "403") {
		t.Errorf("after the change of policy: %q", got)
	}
	if after := guestOf(t, p, ws); after.PID != before.PID {
		t.Error("a change of the allowed hosts ended what runs")
	}
	if _, err := ws.Life.Update(t.Context(), driver.Policy{}); err != nil {
		t.Fatal(err)
	}
	if got := output(t, ws, get+"get bad.test:"+port); strings.Contains(got, "reached the server") || !strings.Contains(got, "403") {
		t.Errorf("without a policy: %q", got)
	}
}
