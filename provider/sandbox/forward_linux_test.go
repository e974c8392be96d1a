package sandbox

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/croft-run/croft/workspace/driver"
)

// TestForwardedPort: a port of the host's loopback interface that the policy allows is at the
// same address inside, for programs that know no proxy, and gets a credential that the
// workspace does not have. A port that no rule names is not there.
func TestForwardedPort(t *testing.T) {
	serve := func() string {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") == "Bearer "+token {
				_, _ = io.WriteString(w, "it came with the secret")
			}
		}))
		t.Cleanup(srv.Close)
		return srv.Listener.Addr().String()
	}
	allowed, other := serve(), serve()
	_, port, _ := net.SplitHostPort(allowed)
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	atEachLevel(t, func(t *testing.T, p *Provider, level driver.Isolation) {
		if level == driver.IsolationProcess {
			t.Skip("skipped: the level has no network")
		}
		p.cfg.Secrets = tokens{}
		ws := open(t, p, func(s *driver.Spec) {
			s.Policy.Network.Allow = []driver.NetRule{{Host: "127.0.0.1", Ports: []int{number}, Credential: "tok"}}
		})
		if got := output(t, ws, "curl -sS --noproxy '*' http://"+allowed+"/"); got != "it came with the secret" {
			t.Errorf("got %q", got)
		}
		if got := output(t, ws, "curl -sS --noproxy '*' http://localhost:"+port+"/"); got != "it came with the secret" {
			t.Errorf("by the name localhost: got %q", got)
		}
		if res := script(t, ws, "curl -sS --noproxy '*' http://"+other+"/"); res.ExitCode == 0 {
			t.Errorf("a port without a rule answers %q", res.Stdout)
		}
	})
}
