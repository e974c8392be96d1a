package proxies

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/egress"
	"github.com/croft-run/croft/workspace/driver"
)

// TestTransportAsksAsTheWorkspaceDoes asks what the policy allows and what it does
// not.
func TestTransportAsksAsTheWorkspaceDoes(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "reached") }))
	defer srv.Close()
	u, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	o := New(t.Context(), egress.Options{}, slog.New(slog.DiscardHandler))
	if _, err := o.Transport("ws"); fault.Of(err) != fault.NotFound {
		t.Errorf("without a proxy: %v", err)
	}
	at := Paths{Socket: filepath.Join(dir, "egress", "proxy.sock"), Authority: filepath.Join(dir, "authority.pem"), Roots: filepath.Join(dir, "roots")}
	if err := o.Acquire("ws", at, driver.Network{Allow: []driver.NetRule{{Host: "127.0.0.1", Ports: []int{port}}}}); err != nil {
		t.Fatal(err)
	}
	defer o.Release(t.Context(), "ws")
	way, err := o.Transport("ws")
	if err != nil {
		t.Fatal(err)
	}
	defer way.CloseIdleConnections()
	for target, want := range map[string]int{srv.URL: http.StatusOK, "http://other.test/": http.StatusForbidden} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := way.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %d, want %d", target, resp.StatusCode, want)
		}
	}
}
