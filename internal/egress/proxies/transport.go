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

// Transport returns a transport that sends requests as a program of the workspace would:
// through its proxy, which applies the policy, adds credentials and emits events. It returns
// NotFound if this process has no proxy for the workspace. The transport works as long as
// the proxy runs.
func (o *Set) Transport(id string) (*http.Transport, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	one := o.open[id]
	if one == nil {
		return nil, fmt.Errorf("proxies: workspace %s has no proxy in this process: %w", id, fault.NotFound)
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool() // then only hosts with a credential are trusted over TLS
	}
	roots.AppendCertsFromPEM(one.proxy.CAPEM())
	return &http.Transport{
		Proxy:           http.ProxyURL(&url.URL{Scheme: "http", Host: "proxy"}), // ignored by DialContext
		DialContext:     func(ctx context.Context, _, _ string) (net.Conn, error) { return o.Dial(ctx, id) },
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
	}, nil
}
