package egress

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestInside: the process that has the workspace open answers requests to the proxy
// itself. They are neither judged nor logged.
func TestInside(t *testing.T) {
	for _, answers := range []bool{true, false} {
		w := newWorld(t, allow("a.test"), func(o *Options) {
			o.Workspace = "w1"
			if !answers {
				o.LocalHandler = func(string) http.Handler { return nil }
				return
			}
			o.LocalHandler = func(workspace string) http.Handler {
				return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					fmt.Fprintf(rw, "%s %s %s", workspace, r.URL.RequestURI(), body)
				})
			}
		})
		w.host("a.test", addrA, hello200)
		direct := &http.Client{Transport: &http.Transport{}}
		for i := range 3 {
			resp, err := direct.Post(fmt.Sprintf("http://%s/p?%d", w.addr, i), "text/plain", strings.NewReader("body"))
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			want := fmt.Sprintf("w1 /p?%d body", i)
			if !answers && resp.StatusCode == http.StatusBadRequest {
				continue // as ever
			}
			if err != nil || string(got) != want {
				t.Errorf("got %d %q, %v, want %q", resp.StatusCode, got, err, want)
			}
		}
		direct.CloseIdleConnections()
		if status, got, err := w.get("http://a.test/", nil); err != nil || status != 200 || !strings.HasSuffix(got, "GET a.test / ") {
			t.Errorf("through the proxy: %d %q, %v", status, got, err)
		}
		if !answers {
			continue
		}
		if e := w.events(1); e[0]["host"] != "a.test" {
			t.Errorf("event %v", e[0])
		}
	}
}
