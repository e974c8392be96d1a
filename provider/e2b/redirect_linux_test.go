package e2b_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/croft-run/croft/provider/e2b"
	"github.com/croft-run/croft/workspace/driver"
)

// TestNoRedirectIsFollowed: neither the server nor a program in a sandbox makes this host connect
// to another address, and nobody else gets the key.
func TestNoRedirectIsFollowed(t *testing.T) {
	var asked atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		t.Errorf("%s %s was followed to another address, with the key %q and the token %q", r.Method, r.URL.Path, r.Header.Get("X-API-Key"), r.Header.Get("X-Access-Token"))
	}))
	defer other.Close()
	id := driver.NewID()
	for _, status := range []int{http.StatusFound, http.StatusTemporaryRedirect} {
		redirect := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL+r.URL.Path, status) })
		api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.Method == http.MethodGet:
				io.WriteString(w, `[{"sandboxID":"box","metadata":{"croft-workspace":"`+id+`"}}]`)
			case r.Method == http.MethodDelete:
				w.WriteHeader(http.StatusNoContent)
			case strings.HasSuffix(r.URL.Path, "/connect"):
				io.WriteString(w, `{"sandboxID":"box","envdAccessToken":"t","state":"running"}`)
			default:
				redirect(w, r) // envd
			}
		})
		for name, h := range map[string]http.Handler{"the server": redirect, "the sandbox": api} {
			s := httptest.NewServer(h)
			p := newProvider(t, t.TempDir(), func(c *e2b.Config) { c.Options = e2b.Options{Server: s.URL, Sandboxes: s.URL} })
			if _, err := p.Open(t.Context(), driver.Spec{ID: id, Kind: e2b.Kind}); err == nil {
				t.Errorf("%s redirects with status %d, and the workspace is open", name, status)
			}
			s.Close()
		}
	}
	if asked.Load() > 0 {
		t.Errorf("%d requests were redirected", asked.Load())
	}
}
