package sandbox

import (
	"context"
	"net/http"

	"github.com/croft-run/croft/internal/egress"
	"github.com/croft-run/croft/internal/egress/proxies"
	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/workspace/driver"
)

// A workspace reaches the hosts that its policy allows through an egress proxy, in the
// process that has the workspace open, the first one if there are several. The proxy listens on a socket in
// <root>/<id>/egress. The guest has a descriptor of that directory, and relays a
// loopback port inside to the socket. From gVisor no socket of the host is reached: there
// the process that has the workspace open relays the connections. Where the policy allows no host the proxy runs as
// well: it refuses requests and emits events.
//
// The certificates that programs inside trust are a file in <root>/<id>/roots, which is
// mounted inside. It is replaced when the certificate authority of the workspace changes,
// without a restart of the guest.

const (
	egressName    = "egress"        // directory of the socket
	authorityName = "authority.pem" // keys of the certificate authorities: not in egress, which the guest sees
	relayPort     = egress.RelayPort
	rootsName     = "roots"      // directory of the certificate bundle
	bundleDir     = "/run/croft" // the same directory inside
)

// proxyPaths returns the paths of the files of a workspace's proxy.
func (p *Provider) proxyPaths(id string) proxies.Paths {
	return proxies.Paths{
		Socket: p.store.Path(id, egressName, guestproto.ProxySocket), Authority: p.store.Path(id, authorityName), Roots: p.store.Path(id, rootsName),
		Network: func() (driver.Network, error) {
			m, err := p.store.Read(id)
			if err != nil {
				return driver.Network{}, err
			}
			return m.Policy.Network, nil
		},
	}
}

// Transport returns a transport that sends requests as a program of the workspace would;
// see proxies.Set.
func (p *Provider) Transport(workspace string) (http.RoundTripper, error) {
	return p.proxies().Transport(workspace)
}

// WaitIdle waits until the events of the requests of a workspace, whose programs have
// ended, were emitted; see proxies.Set.
func (p *Provider) WaitIdle(ctx context.Context, workspace string) error {
	return p.proxies().WaitIdle(ctx, workspace)
}

// configureProxy configures the relay to the proxy in the launch of a guest.
func (u launchSpec) configureProxy(l *launch) error {
	if l.Config.GVisor == nil {
		if err := l.addDir("egress", u.egress); err != nil {
			return err
		}
	}
	cfg := l.ServingConfig()
	cfg.RelayPort, cfg.RemoteProxy, cfg.Forwards = relayPort, l.Config.GVisor != nil, egress.Forwards(u.policy.Network)
	bundle := ""
	if u.caDir != "" {
		bundle = bundleDir + "/" + proxies.BundleName
	}
	for name, value := range egress.Env(relayPort, bundle) {
		if _, set := cfg.Env[name]; !set {
			cfg.Env[name] = value
		}
	}
	return nil
}
