package kubernetes

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/egress"
	"github.com/croft-run/croft/internal/egress/proxies"
	"github.com/croft-run/croft/internal/host/guest"
	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/workspace/driver"
)

// A workspace whose policy allows hosts reaches them through an egress proxy in a process that
// has the workspace open. The guest listens on a loopback port of the pod; that process takes
// the connections over its stream to the guest, as for a container of a remote engine. So the
// proxy needs no way through the network of the cluster, and the NetworkPolicy of the pods
// denies everything.
//
// A pod has a network interface, and the guest's filter, which otherwise refuses all sockets
// of the internet, can't refuse those to other addresses alone. So a policy that allows hosts
// is refused unless a test from inside a pod shows that the cluster's network plugin denies
// the rest: see testNetwork.

// SetEgress sets the options of the egress proxies. It must be called before a workspace is
// opened.
func (p *Provider) SetEgress(opts egress.Options) { p.egress = opts }

var _ egress.Configurable = (*Provider)(nil)

// proxiesName is a directory in Config.Cache with a directory for the proxy of each workspace.
const proxiesName = "egress"

// checkNetwork refuses a network that pods of the cluster can't have.
func (p *Provider) checkNetwork(n driver.Network, f *proof) error {
	switch {
	case n.Open:
		return fmt.Errorf("open network: %w: name the hosts that may be reached, or allow the host \"*\"", fault.Unsupported)
	case n.None():
		return nil
	case f.Network != "":
		return fmt.Errorf("network rules: %w: %s", fault.Unsupported, f.Network)
	case p.cfg.Cache == "":
		return fmt.Errorf("network rules: %w: they need Config.Cache, for the files of the proxies", fault.Unsupported)
	case slices.ContainsFunc(n.Allow, func(r driver.NetRule) bool { return r.Credential != "" }):
		return fmt.Errorf("network rules: a credential: %w: the certificate authority that it needs would be on this host alone", fault.Unsupported)
	}
	return nil
}

// startProxy starts the egress proxy of the workspace, if its policy allows a host. The handle
// is locked.
func (h *handle) startProxy(ctx context.Context, n driver.Network) error {
	if n.None() {
		h.proxy.Release(ctx)
		return nil
	}
	dir := filepath.Join(h.p.cfg.Cache, proxiesName, h.id)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("kubernetes: start the proxy: %w: %w", fault.Of(err), err)
	}
	at := proxies.Paths{
		Socket: filepath.Join(dir, "socket", guestproto.ProxySocket), Authority: filepath.Join(dir, "authority.pem"), Roots: filepath.Join(dir, "roots"),
		Network: func() (driver.Network, error) {
			st, err := h.p.readState(h.p.ctx, h.id)
			if err != nil {
				return driver.Network{}, err
			}
			return st.Policy.Network, nil
		},
	}
	if err := h.proxy.Acquire(ctx, h.p.proxies(), h.id, at, n); err != nil {
		return fmt.Errorf("kubernetes: %w", err)
	}
	return nil
}

// relay relays connections of the workload to the proxy, if its policy allows a host.
func (h *handle) relay(c *guest.Client, n driver.Network) {
	if !n.None() {
		c.Relay(func(ctx context.Context) (net.Conn, error) { return h.p.proxies().Dial(ctx, h.id) })
	}
}

// configureProxy adds the relay to the configuration of a guest.
func configureProxy(cfg *guestproto.Config, n driver.Network) {
	cfg.RelayPort, cfg.RemoteProxy, cfg.Forwards = egress.RelayPort, true, egress.Forwards(n)
	for name, value := range egress.Env(egress.RelayPort, "") {
		if _, set := cfg.Env[name]; !set {
			cfg.Env[name] = value
		}
	}
}

// withRefusals returns a shell whose results have the requests that the proxy refused.
func (h *handle) withRefusals(s *driver.Shell) *driver.Shell {
	run := s.Run
	s.Run = func(ctx context.Context, cmd driver.Command) (driver.Result, error) {
		refused := h.p.proxies().Refused(h.id)
		moment := refused.Now()
		res, err := run(ctx, cmd)
		if err == nil {
			res.Refused = refused.Since(moment)
		}
		return res, err
	}
	return s
}

// removeProxyFiles removes the files of the proxy of a workspace.
func (p *Provider) removeProxyFiles(id string) error {
	if p.cfg.Cache == "" {
		return nil
	}
	if err := os.RemoveAll(filepath.Join(p.cfg.Cache, proxiesName, id)); err != nil {
		return fmt.Errorf("kubernetes: remove the files of the proxy: %w: %w", fault.Of(err), err)
	}
	return nil
}

// sweepProxyFiles removes the files of the proxies of workspaces that another host has removed.
func (p *Provider) sweepProxyFiles(live []string) error {
	if p.cfg.Cache == "" {
		return nil
	}
	entries, err := os.ReadDir(filepath.Join(p.cfg.Cache, proxiesName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("kubernetes: list the files of proxies: %w: %w", fault.Of(err), err)
	}
	var errs []error
	for _, e := range entries {
		if driver.ValidID(e.Name()) && !slices.Contains(live, e.Name()) {
			errs = append(errs, p.removeProxyFiles(e.Name()))
		}
	}
	return errors.Join(errs...)
}

// networkScript connects to its arguments, HOST/PORT, to the API server and to the name
// servers. It prints each that accepts a connection, and "none" when all were tried.
const networkScript = `
targets=("$@")
[ -z "$KUBERNETES_SERVICE_HOST" ] || targets+=("$KUBERNETES_SERVICE_HOST/$KUBERNETES_SERVICE_PORT")
while read -r word address rest; do [ "$word" != nameserver ] || targets+=("$address/53"); done </etc/resolv.conf
for target in "${targets[@]}"; do
	timeout 3 bash -c "exec 3<>/dev/tcp/$target" 2>/dev/null && echo "$target" &
done
wait
echo none
`

// testNetwork tests whether the cluster's network plugin denies all traffic of a pod: that the
// pod reaches neither its node nor the API server nor a name server, which it does in a cluster
// without a NetworkPolicy that is enforced. It returns "" if so, or else why policies that allow
// hosts are refused. The process of the test is not the guest's child, and has no filter.
func (p *Provider) testNetwork(ctx context.Context, name string) (string, error) {
	pod, err := p.getPod(ctx, name)
	if err != nil {
		return "", err
	}
	targets := p.networkTargets(ctx, pod)
	if len(targets) == 0 {
		return "whether the cluster denies the network of pods can't be tested: the address of the node is not known", nil
	}
	soon, cancel := context.WithTimeout(ctx, p.cfg.AnswerTimeout)
	defer cancel()
	stream, err := p.execInPod(soon, name, append([]string{"bash", "-c", networkScript, "bash"}, targets...)...)
	if err != nil {
		return "", err
	}
	stop := context.AfterFunc(soon, func() { stream.Close() })                   //nolint:errcheck // it unblocks the read
	line, err := bufio.NewReader(io.LimitReader(stream, 4<<10)).ReadString('\n') // the first one is enough
	stop()
	stream.Close() //nolint:errcheck // it returns nil
	switch reached := strings.TrimSpace(line); {
	case err != nil:
		return "", fmt.Errorf("test the network of pods: %w: it ended with %.200q %s: %w", fault.Unavailable, line, stream.stderr.String(), err)
	case reached != "none":
		return fmt.Sprintf("the cluster does not deny the network of pods: a pod reached %.100q; apply deploy/kubernetes/networkpolicy.yaml in a cluster whose network plugin enforces it", reached), nil
	}
	return "", nil
}

// kubeletPort is where the kubelet of a node listens.
const kubeletPort = "10250"

// networkTargets returns addresses, as HOST/PORT, that a pod with a network reaches.
func (p *Provider) networkTargets(ctx context.Context, pod *corev1.Pod) (targets []string) {
	if ip := net.ParseIP(pod.Status.HostIP); ip != nil && !ip.IsLoopback() {
		targets = append(targets, ip.String()+"/"+kubeletPort)
	}
	server, err := url.Parse(p.cfg.REST.Host)
	if err != nil || server.Hostname() == "" {
		return targets
	}
	port := server.Port()
	if port == "" {
		port = "443"
	}
	addresses, err := net.DefaultResolver.LookupIPAddr(ctx, server.Hostname())
	if err != nil { // this process may reach it through a proxy
		return targets
	}
	for _, a := range addresses {
		if !a.IP.IsLoopback() {
			targets = append(targets, a.IP.String()+"/"+port)
		}
	}
	return targets
}
