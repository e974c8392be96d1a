package proxies

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/url"

	"github.com/croft-run/croft/fault"
)

// Transport asks in the place of a program of a workspace: through its proxy, which
// refuses what the policy does not allow, adds credentials, and tells of each
// request. It is NotFound where this process has no proxy for the workspace, and
// good for as long as it has.
func (o *Set) Transport(id string) (*http.Transport, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	one := o.open[id]
	if one == nil {
		return nil, fmt.Errorf("outlet: workspace %s has no proxy here: %w", id, fault.NotFound)
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool() // no host can be asked over TLS then but those with a credential
	}
	roots.AppendCertsFromPEM(one.proxy.CAPEM())
	return &http.Transport{
		Proxy:           http.ProxyURL(&url.URL{Scheme: "http", Host: "proxy"}), // which is the one that is dialled
		DialContext:     func(ctx context.Context, _, _ string) (net.Conn, error) { return o.Dial(ctx, id) },
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
	}, nil
}
