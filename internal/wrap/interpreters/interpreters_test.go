package interpreters_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/testshell"
	"github.com/croft-run/croft/internal/wrap/interpreters"
	"github.com/croft-run/croft/interp/isolate"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/workspace/driver"
)

func TestModulesAreMadeOfWhatIsThere(t *testing.T) {
	shell, err := testshell.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		inner driver.Provider
		want  []driver.Capability
	}{
		{&memory.Provider{}, []driver.Capability{"fs", "script"}},
		{shell, []driver.Capability{"code", "fs", "script", "shell"}},
	} {
		t.Run(tt.inner.Kind(), func(t *testing.T) {
			var engine isolate.Engine
			p := interpreters.Wrap(tt.inner, interpreters.Config{Engine: &engine})
			for _, want := range []driver.Capabilities{nil, driver.NewCapabilities(tt.want...)} {
				ws, err := p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: p.Kind(), Want: want})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = ws.Life.Destroy(context.WithoutCancel(t.Context())) })
				again, err := p.Resolve(t.Context(), ws.Ref)
				if err != nil {
					t.Fatal(err)
				}
				for _, w := range []*driver.Workspace{ws, again} {
					if err := w.Validate(want); err != nil {
						t.Error(err)
					}
					if diff := cmp.Diff(tt.want, w.Built().Names()); diff != "" {
						t.Errorf("(-want +got):\n%s", diff)
					}
				}
				if err := again.Life.Close(t.Context()); err != nil {
					t.Error(err)
				}
				if ws.Life.Update == nil {
					continue
				}
				ref, err := ws.Life.Update(t.Context(), driver.Policy{})
				if err != nil || !ref.Capabilities.Equal(ws.Built()) {
					t.Errorf("Update: %v %v", ref.Capabilities.Names(), err)
				}
			}
		})
	}
}

// falseClaim is a provider whose refs claim a shell that it does not build.
type falseClaim struct{ driver.Provider }

func (p falseClaim) Open(ctx context.Context, spec driver.Spec) (*driver.Workspace, error) {
	ws, err := p.Provider.Open(ctx, spec)
	if err == nil {
		ws.Ref.Capabilities[driver.CapShell] = true
	}
	return ws, err
}

func TestFalseClaimsStay(t *testing.T) {
	p := interpreters.Wrap(falseClaim{new(memory.Provider)}, interpreters.Config{Engine: new(isolate.Engine)})
	ws, err := p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: p.Kind()})
	if err != nil {
		t.Fatal(err)
	}
	if err := ws.Validate(nil); fault.Of(err) != fault.Failed {
		t.Errorf("Validate of a ref that claims an absent shell: %v, want %s", err, fault.Failed)
	}
}
