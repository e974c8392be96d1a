package workspace

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/suggest"
	"github.com/croft-run/croft/workspace/driver"
)

// A Mux maps kinds to providers. The zero value has no provider. A Mux is safe for
// concurrent use.
type Mux struct {
	mu        sync.RWMutex
	providers map[string]driver.Provider
}

// NewMux returns a mux with the given providers.
func NewMux(providers ...driver.Provider) *Mux {
	m := new(Mux)
	for _, p := range providers {
		m.Register(p)
	}
	return m
}

// Register adds a provider. It panics if the kind is registered already, which is a
// bug of the program.
func (m *Mux) Register(p driver.Provider) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.providers == nil {
		m.providers = map[string]driver.Provider{}
	}
	if _, dup := m.providers[p.Kind()]; dup {
		panic("workspace: two providers of kind " + p.Kind())
	}
	m.providers[p.Kind()] = p
}

// Kinds lists the kinds of the providers in alphabetical order.
func (m *Mux) Kinds() []string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return slices.Sorted(maps.Keys(m.providers))
}

// Provider returns the provider of a kind. An unknown kind is InvalidArgument, and
// the error lists the known kinds.
func (m *Mux) Provider(kind string) (driver.Provider, error) {
	m.mu.RLock()
	p, ok := m.providers[kind]
	m.mu.RUnlock()
	if !ok {
		err := fault.WithHint(fmt.Errorf("unknown provider %q: %w", kind, fault.InvalidArgument), fault.HintProvider, kind)
		return nil, fault.Advise(err, "the providers are %s%s", strings.Join(m.Kinds(), ", "), suggest.Hint(kind, m.Kinds()))
	}
	return p, nil
}

// Open opens the workspace of spec.
func (m *Mux) Open(ctx context.Context, spec Spec, opts *Options) (*Workspace, error) {
	if !driver.ValidID(spec.ID) {
		return nil, fmt.Errorf("workspace id %q: %w: an id is %d of [a-z0-9]", spec.ID, fault.InvalidArgument, driver.IDLength)
	}
	p, err := m.Provider(spec.Kind)
	if err != nil {
		return nil, err
	}
	return m.attach(ctx, verbOpen, spec.ID, spec.Kind, spec.Want, opts, func(ctx context.Context) (*driver.Workspace, error) {
		return p.Open(ctx, spec)
	})
}

// Resolve attaches to the workspace that ref names. id is the id of the workspace,
// and the handle has the capabilities want, or those of the ref if want is empty.
func (m *Mux) Resolve(ctx context.Context, id string, ref Ref, want Capabilities, opts *Options) (*Workspace, error) {
	p, err := m.Provider(ref.Provider)
	if err != nil {
		return nil, err
	}
	return m.attach(ctx, verbResolve, id, ref.Provider, want, opts, func(ctx context.Context) (*driver.Workspace, error) {
		return p.Resolve(ctx, ref)
	})
}

// attach gets a workspace from a provider, returns a handle on it, and reports the
// operation. A workspace that violates the contract is closed.
func (m *Mux) attach(ctx context.Context, v *verb, id, kind string, want Capabilities, opts *Options, get func(context.Context) (*driver.Workspace, error)) (w *Workspace, err error) {
	start := time.Now()
	ctx, span := startSpan(ctx, v, id, kind)
	defer func() {
		code := fault.Of(err)
		endSpan(span, code)
		recordDuration(ctx, v, kind, code, start)
	}()
	defer recoverPanic(logger(opts), id, kind, &err)
	d, err := get(ctx)
	if err != nil {
		return nil, err
	}
	if w, err = New(id, d, want, opts); err != nil {
		if d != nil && d.Life.Close != nil {
			err = errors.Join(err, d.Life.Close(context.WithoutCancel(ctx)))
		}
		return nil, err
	}
	w.emitOperation(v, subject{}, nil, start)
	return w, nil
}
