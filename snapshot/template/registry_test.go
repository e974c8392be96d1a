package template

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/egress"
)

// A tenant can't make the server connect to its own network, as a registry; the operator can.
func TestRegistryOnThePrivateNetwork(t *testing.T) {
	var requests atomic.Int64
	images := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		images.ServeHTTP(w, r)
	}))
	defer server.Close()
	ref, err := name.ParseReference(strings.TrimPrefix(server.URL, "http://") + "/croft/test:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, imageOf(t, layerOf(t, file("a", "b")))); err != nil {
		t.Fatal(err)
	}
	c := newCatalog(t)
	c.Transport = &http.Transport{DialContext: (&net.Dialer{Control: egress.ControlPublic}).DialContext}
	before := requests.Load()
	tenant := auth.With(t.Context(), auth.Principal{Tenant: "red", Scope: auth.Admin})
	_, err = c.Create(tenant, "mine", Source{Image: ref.String()})
	if fault.Of(err) != fault.InvalidArgument || !strings.Contains(err.Error(), "its address is loopback") || strings.Contains(fault.Public(err), "loopback") || requests.Load() != before {
		t.Errorf("a tenant: %v after %d requests, want a refusal without any", err, requests.Load()-before)
	}
	// Nor does it learn which names of that network exist.
	private := fault.Public(registryError("name.example", &net.OpError{Err: fmt.Errorf("connect to 10.1.2.3: %w: its address is private", fault.PermissionDenied)}))
	missing := fault.Public(registryError("name.example", &net.DNSError{Err: "no such host", Name: "name.example", Server: "10.0.0.53:53", IsNotFound: true}))
	if private != missing || strings.Contains(private, "10.") {
		t.Errorf("a private name is told as %q, and a missing one as %q", private, missing)
	}
	broken := fault.Public(registryError("name.example", &net.DNSError{Err: "server misbehaving", Name: "name.example", Server: "10.0.0.53:53"}))
	if strings.Contains(broken, "10.0.0.53") {
		t.Errorf("a broken name server is told as %q", broken)
	}
	operator := auth.With(t.Context(), auth.Principal{Scope: auth.Admin})
	if _, err := c.Create(operator, "ours", Source{Image: ref.String()}); err != nil {
		t.Errorf("the operator: %v", err)
	}
}
