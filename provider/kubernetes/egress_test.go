package kubernetes

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/egress"
	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/workspace/driver"
	"github.com/croft-run/croft/workspace/workspacetest"
)

// hosts resolves what a test calls its server.
type hosts map[string]string

func (n hosts) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	addr, ok := n[strings.TrimSuffix(host, ".")]
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return []netip.Addr{netip.MustParseAddr(addr)}, nil
}

// get is a request through the proxy, by bash alone.
const get = `get() { exec 3<>/dev/tcp/127.0.0.1/3128 && printf 'GET http://%s/ HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n' "$1" "$1" >&3 && cat <&3; }; `

// denyPods denies all traffic of pods but among themselves, which a network plugin does that
// enforces deploy/kubernetes/networkpolicy.yaml. The plugin of the cluster of the tests enforces
// nothing.
func denyPods(t *testing.T) {
	t.Helper()
	testenv.NeedsProgram(t, "iptables")
	for _, chain := range []string{"INPUT", "FORWARD"} {
		rule := []string{chain, "-i", "pods0", "-j", "DROP"}
		runProgram(t, "iptables", append([]string{"-I"}, rule...)...)
		t.Cleanup(func() { runProgram(t, "iptables", append([]string{"-D"}, rule...)...) })
	}
}

// egressProvider returns a provider for which good.test and bad.test are a server of the test,
// and the port of that.
func egressProvider(t *testing.T, dir string) (*Provider, int) {
	t.Helper()
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
	p := newProvider(t, dir, func(c *Config) { c.Cache = filepath.Join(dir, "kubernetes") }) // not what other tests have found out
	t.Cleanup(func() { p.Close() })
	p.SetEgress(egress.Options{Resolver: hosts{"good.test": "127.0.0.1", "bad.test": "127.0.0.1"}})
	return p, n
}

func allow(host string, port int) driver.Network {
	return driver.Network{Allow: []driver.NetRule{{Host: host, Ports: []int{port}, Private: true}}}
}

// TestEgress reaches the allowed host through the proxy, in a cluster that denies the rest.
func TestEgress(t *testing.T) {
	needCluster(t)
	denyPods(t)
	dir := t.TempDir()
	p, port := egressProvider(t, dir)
	ws := open(t, p, func(s *driver.Spec) { s.Policy.Network = allow("good.test", port) })
	if ws.Traits.Network != driver.NetworkPolicy {
		t.Errorf("the network is %q by %+v", ws.Traits.Network, ws.Traits.NetworkBy)
	}
	good, bad := fmt.Sprintf("get good.test:%d", port), fmt.Sprintf("get bad.test:%d", port)
	if got := string(run(t, ws, "echo $http_proxy; "+get+good).Stdout); !strings.HasPrefix(got, "http://127.0.0.1:3128\n") || !strings.Contains(got, "reached the server") {
		t.Errorf("the allowed host gives %q", got)
	}
	res := run(t, ws, get+bad)
	if got := string(res.Stdout); strings.Contains(got, "reached the server") || !strings.Contains(got, "403") {
		t.Errorf("another host gives %q", got)
	}
	if len(res.Refused) != 1 || res.Refused[0].Host != fmt.Sprintf("bad.test:%d", port) {
		t.Errorf("the result tells of refusals: %+v", res.Refused)
	}
	pod := podOf(t, ws)
	if res := run(t, ws, fmt.Sprintf("timeout 2 bash -c 'exec 3<>/dev/tcp/%s/%s'", pod.Status.HostIP, kubeletPort)); res.ExitCode == 0 {
		t.Error("the node is reached, beside the proxy")
	}

	// A change of hosts takes effect in the running pod, and is seen by another process.
	other, _ := egressProvider(t, dir)
	if _, err := ws.Life.Update(t.Context(), driver.Policy{Network: allow("bad.test", port)}); err != nil {
		t.Fatal(err)
	}
	if got := string(run(t, ws, get+bad).Stdout); !strings.Contains(got, "reached the server") {
		t.Errorf("a host that is allowed now gives %q", got)
	}
	if got := string(run(t, ws, get+good).Stdout); !strings.Contains(got, "403") {
		t.Errorf("a host that is not allowed any more gives %q", got)
	}
	if now := podOf(t, ws); now.UID != pod.UID {
		t.Error("the pod was replaced")
	}
	ref, err := ws.Life.Update(t.Context(), driver.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	again, err := other.Resolve(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	if res := run(t, again, get+good); res.ExitCode == 0 {
		t.Errorf("without hosts the proxy answers %q", res.Stdout)
	}
	if _, err := again.Life.Update(t.Context(), driver.Policy{Network: driver.Network{Open: true}}); fault.Of(err) != fault.Unsupported {
		t.Errorf("an open network: got %v, want Unsupported", err)
	}
	if err := again.Life.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "kubernetes", proxiesName)); err != nil || len(left) > 0 {
		t.Errorf("files of proxies are left: %v, %v", left, err)
	}
}

// withHosts opens workspaces that may reach a host, so that their processes may have sockets.
type withHosts struct{ *Provider }

func (p withHosts) Open(ctx context.Context, spec driver.Spec) (*driver.Workspace, error) {
	spec.Policy.Network = allow("good.test", 80)
	return p.Provider.Open(ctx, spec)
}

// TestConformancePorts runs the checks of ports, which workspaces without a network do not have.
func TestConformancePorts(t *testing.T) {
	needCluster(t)
	denyPods(t)
	cache := t.TempDir()
	workspacetest.Run(t, workspacetest.Harness{
		Only: "Dial", Leftovers: leftovers,
		Provider: func(t testing.TB, dir string) driver.Provider {
			return withHosts{newProvider(t, dir, func(c *Config) { c.Cache = cache })}
		},
	})
}

// TestEgressNeedsADeniedNetwork: where a pod reaches its node, no hosts can be allowed.
func TestEgressNeedsADeniedNetwork(t *testing.T) {
	needCluster(t)
	dir := t.TempDir()
	p, port := egressProvider(t, dir)
	_, err := p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: Kind, Policy: driver.Policy{Network: allow("good.test", port)}})
	// The pod tries all addresses at once: the kubelet, the API server or a name server may answer first.
	if fault.Of(err) != fault.Unsupported || !strings.Contains(fmt.Sprint(err), "a pod reached") {
		t.Errorf("got %v, want Unsupported, with what was reached", err)
	}
	traits, err := p.Probe(t.Context())
	if err != nil || traits.Network != driver.NetworkNone {
		t.Errorf("the network is %q, %v; want none", traits.Network, err)
	}
	if left := leftovers(t, dir); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
