package template

import (
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
	"github.com/croft-run/croft/egress"
	"github.com/croft-run/croft/fault"
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
	if fault.Of(err) != fault.Unavailable || !strings.Contains(err.Error(), "its address is loopback") || requests.Load() != before {
		t.Errorf("a tenant: %v after %d requests, want a refusal without any", err, requests.Load()-before)
	}
	operator := auth.With(t.Context(), auth.Principal{Scope: auth.Admin})
	if _, err := c.Create(operator, "ours", Source{Image: ref.String()}); err != nil {
		t.Errorf("the operator: %v", err)
	}
}
