package sandbox

import (
	"context"
	"fmt"
	"net/http"

	"github.com/croft-run/croft/egress"
	"github.com/croft-run/croft/egress/proxies"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/host/guestproto"
	"github.com/croft-run/croft/workspace/driver"
)

// A workspace reaches the hosts that its policy allows through a proxy, package
// egress, in the process that holds it. The proxy listens on a socket in
// <root>/<id>/egress, a descriptor of which the guest has; the guest passes a
// loopback port inside on to it. Where the policy allows nothing the proxy is
// there as well, to say so and to leave an event.
//
// The roots that programs inside trust are a file in <root>/<id>/roots, which is
// shown inside: it is written anew when the authority of the workspace changes,
// while what runs goes on.

const (
	egressName    = "egress"        // directory of the socket
	authorityName = "authority.pem" // keys of the workspace's authorities: beside, not in, that directory
	relayPort     = egress.RelayPort
	rootsName     = "roots"      // directory of the bundle
	bundleDir     = "/run/croft" // that directory inside
)

// newOutlets returns the proxies of the provider's workspaces.
func (p *Provider) newOutlets() *proxies.Set {
	return proxies.New(p.ctx, egress.Options{
		Secrets: p.cfg.Secrets, Credentials: p.cfg.Credentials, Events: p.cfg.Events, Resolver: p.cfg.Resolver, RootCAs: p.cfg.RootCAs,
		Inside: p.cfg.Inside,
	}, p.log)
}

// places says where the proxy of a workspace keeps what is its own.
func (p *Provider) places(id string) proxies.Paths {
	return proxies.Paths{
		Socket: p.ground.Path(id, egressName, guestproto.ProxySocket), Authority: p.ground.Path(id, authorityName), Roots: p.ground.Path(id, rootsName),
	}
}

// Transport asks in the place of a program of a workspace; see outlet.Outlets.
func (p *Provider) Transport(workspace string) (http.RoundTripper, error) {
	return p.ways().Transport(workspace)
}

// Settle waits until the requests of a workspace whose programs have ended are told;
// see outlet.Outlets.
func (p *Provider) Settle(ctx context.Context, workspace string) error {
	return p.ways().Settle(ctx, workspace)
}

// connect gives a guest that is to be launched its way out.
func (u launchSpec) connect(l *launch) error {
	if l.Config.GVisor == nil {
		if err := l.giveDir("egress", u.egress); err != nil {
			return err
		}
	}
	cfg := l.ServingConfig()
	cfg.RelayPort = relayPort
	bundle := ""
	if u.roots != "" {
		bundle = bundleDir + "/" + proxies.BundleName
	}
	for name, value := range egress.Env(relayPort, bundle) {
		if _, set := cfg.Env[name]; !set {
			cfg.Env[name] = value
		}
	}
	return nil
}

// checkNetwork refuses what no level gives.
func checkNetwork(n driver.Network) error {
	if n.Open {
		return fmt.Errorf("open network: %w: name the hosts that may be reached", fault.Unsupported)
	}
	return nil
}
