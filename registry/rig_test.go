package registry

import (
	"context"
	"testing"
	"time"

	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
	"github.com/croft-run/croft/workspace/workspacetest"
)

// A rig is a registry over a real store and a real provider that can be made
// to fail.
type rig struct {
	*Registry
	t     testing.TB
	url   string
	store Store
	p     *workspacetest.Scripted
	ring  *event.Ring
}

func newRig(t testing.TB, opts *Options) *rig {
	t.Helper()
	return newRigOn(t, sqliteURL(t), workspacetest.NewScripted(new(memory.Provider)), opts)
}

func newRigOn(t testing.TB, url string, p *workspacetest.Scripted, opts *Options) *rig {
	t.Helper()
	g := &rig{t: t, url: url, store: openStore(t, url), p: p, ring: event.NewRing(1000)}
	var o Options
	if opts != nil {
		o = *opts
	}
	o.Events = event.NewStream(g.ring)
	var err error
	if g.Registry, err = New(t.Context(), g.store, workspace.NewMux(p), &o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Shutdown(context.Background()); err != nil {
			t.Errorf("shut down: %v", err)
		}
	})
	return g
}

// twin is another registry over the same store and provider, as another process
// has it.
func (g *rig) twin(opts *Options) *rig { g.t.Helper(); return newRigOn(g.t, g.url, g.p, opts) }

func (g *rig) create(edit func(*workspace.Spec)) string {
	g.t.Helper()
	spec := workspace.Spec{Kind: memory.Kind}
	if edit != nil {
		edit(&spec)
	}
	rec, err := g.Create(g.t.Context(), spec)
	if err != nil {
		g.t.Fatal(err)
	}
	return rec.ID
}

func (g *rig) acquireOK(id string) *workspace.Workspace {
	g.t.Helper()
	ws, err := g.Acquire(g.t.Context(), id)
	if err != nil {
		g.t.Fatal(err)
	}
	return ws
}

func (g *rig) state(id string) State {
	g.t.Helper()
	rec, err := g.store.Get(g.t.Context(), id)
	if fault.Of(err) == fault.NotFound {
		return ""
	}
	if err != nil {
		g.t.Fatal(err)
	}
	return rec.State
}

func (g *rig) wantState(id string, want State) {
	g.t.Helper()
	if got := g.state(id); got != want {
		g.t.Errorf("the workspace is %q, want %q", got, want)
	}
}

// told lists the states that the event stream told of.
func (g *rig) told(id string) []State {
	var got []State
	for _, e := range g.ring.Events() {
		if e.Kind == event.WorkspaceState && e.Workspace == id {
			got = append(got, State(e.Fields[event.FieldTo].(string)))
		}
	}
	return got
}

func wantCode(t testing.TB, what string, err error, want fault.Code) {
	t.Helper()
	if got := fault.Of(err); got != want {
		t.Errorf("%s: %v (%s), want %s", what, err, got, want)
	}
}

// decorated is a provider whose workspaces are changed by edit, on copies, as
// every decorator does it.
type decorated struct {
	driver.Provider
	edit func(*driver.Workspace)
}

func (p decorated) wrap(d *driver.Workspace, err error) (*driver.Workspace, error) {
	if err != nil {
		return nil, err
	}
	c := *d
	p.edit(&c)
	return &c, nil
}

func (p decorated) Open(ctx context.Context, spec driver.Spec) (*driver.Workspace, error) {
	return p.wrap(p.Provider.Open(ctx, spec))
}

func (p decorated) Resolve(ctx context.Context, ref driver.Ref) (*driver.Workspace, error) {
	return p.wrap(p.Provider.Resolve(ctx, ref))
}

const testLease = 15 * time.Second
