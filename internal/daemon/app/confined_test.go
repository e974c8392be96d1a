package app_test

import (
	"context"
	"errors"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/app"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/workspace/driver"
)

// A madeUp provider is one that Croft does not know, with the traits and capabilities of a test.
type madeUp struct {
	memory.Provider
	isolation driver.Isolation
	caps      driver.Capabilities
	err       error
}

func (*madeUp) Kind() string { return "made-up" }

func (p *madeUp) Probe(ctx context.Context) (driver.Traits, error) {
	traits, err := p.Provider.Probe(ctx)
	traits.Isolation = p.isolation
	return traits, errors.Join(err, p.err)
}

func (p *madeUp) Open(ctx context.Context, spec driver.Spec) (*driver.Workspace, error) {
	spec.Kind = memory.Kind
	ws, err := p.Provider.Open(ctx, spec)
	if err == nil {
		ws.Ref.Provider = p.Kind()
	}
	return ws, err
}

func (p *madeUp) Features() driver.Features { return driver.Features{Capabilities: p.caps} }

// TestOnlyWhatIsolatesIsOffered: a server offers a provider that nobody has listed only if its traits say
// that it isolates commands, or if it has none; and all that the configuration names.
func TestOnlyWhatIsolatesIsOffered(t *testing.T) {
	shell := driver.NewCapabilities(driver.CapFS, driver.CapShell)
	for _, tt := range []struct {
		name     string
		provider *madeUp
		config   string
		code     fault.Code
	}{
		{"commands without isolation", &madeUp{isolation: driver.IsolationNone, caps: shell}, "", fault.PermissionDenied},
		{"no word about isolation", &madeUp{caps: shell}, "", fault.PermissionDenied},
		{"an unknown level", &madeUp{isolation: "perfect", caps: shell}, "", fault.PermissionDenied},
		{"no word about what it has", &madeUp{}, "", fault.PermissionDenied},
		{"a capability of its own", &madeUp{caps: driver.NewCapabilities(driver.CapFS, "robots")}, "", fault.PermissionDenied},
		{"isolated commands", &madeUp{isolation: driver.IsolationContainer, caps: shell}, "", ""},
		{"files alone", &madeUp{caps: driver.NewCapabilities(driver.CapFS)}, "", ""},
		{"a probe that fails", &madeUp{isolation: driver.IsolationContainer, caps: shell, err: errors.New("broken")}, "", fault.Unavailable},
		{"named by the configuration", &madeUp{caps: shell}, "server: {providers: [made-up]}\n", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sys, url := serveWith(t, app.Config{DataDir: t.TempDir(), Settings: settings(t, "version: 1\n"+tt.config), Providers: []driver.Provider{tt.provider}})
			c := newClient(t, sys, url)
			_, err := c.Create(t.Context(), driver.Spec{Kind: "made-up"})
			if fault.Of(err) != tt.code {
				t.Errorf("create: %v, want %q", err, tt.code)
			}
			kinds, err := c.Providers(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			listed := false
			for _, one := range kinds {
				listed = listed || one.Kind == "made-up"
			}
			if want := tt.code != fault.PermissionDenied; listed != want {
				t.Errorf("listed: %v, want %v", listed, want)
			}
		})
	}
}
