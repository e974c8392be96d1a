package driver

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/croft-run/croft/fault"
)

// A Capability names a module of a workspace, or an extra.
type Capability string

// The capabilities that the core knows. Any other name is an extra, found in
// Workspace.Extra.
const (
	CapFS       Capability = "fs"
	CapShell    Capability = "shell"
	CapCode     Capability = "code"
	CapScript   Capability = "script"
	CapSnapshot Capability = "snapshot"
)

// Capabilities is a set of capabilities: a key that is absent or false is not
// in it. On the wire it is an object of flags.
type Capabilities map[Capability]bool

// NewCapabilities returns the set of the given capabilities.
func NewCapabilities(caps ...Capability) Capabilities {
	set := make(Capabilities, len(caps))
	for _, c := range caps {
		set[c] = true
	}
	return set
}

// Has reports whether c is in the set.
func (s Capabilities) Has(c Capability) bool { return s[c] }

// Names lists the set in alphabetical order.
func (s Capabilities) Names() []Capability {
	var names []Capability
	for c, ok := range s {
		if ok {
			names = append(names, c)
		}
	}
	slices.Sort(names)
	return names
}

// Missing lists the elements of want that are not in s, in alphabetical order.
func (s Capabilities) Missing(want Capabilities) []Capability {
	var missing []Capability
	for _, c := range want.Names() {
		if !s.Has(c) {
			missing = append(missing, c)
		}
	}
	return missing
}

// Equal reports whether both are the same set.
func (s Capabilities) Equal(other Capabilities) bool {
	return slices.Equal(s.Names(), other.Names())
}

// intersect returns the set of what is in both.
func (s Capabilities) intersect(other Capabilities) Capabilities {
	both := s.Clone()
	maps.DeleteFunc(both, func(c Capability, _ bool) bool { return !other.Has(c) })
	return both
}

// With returns a copy of the set, with c if has is true.
func (s Capabilities) With(c Capability, has bool) Capabilities {
	out := s.Clone()
	if has {
		out[c] = true
	}
	return out
}

// Clone returns a copy of the set.
func (s Capabilities) Clone() Capabilities { return maps.Clone(s) }

// Built returns the capabilities of w: the modules that are set.
func (w *Workspace) Built() Capabilities {
	set := Capabilities{}
	for c, module := range w.modules() {
		if !isNil(module) {
			set[c] = true
		}
	}
	return set
}

func (w *Workspace) modules() map[Capability]any {
	m := map[Capability]any{
		CapFS: w.FS, CapShell: w.Shell, CapCode: w.Code, CapScript: w.Script, CapSnapshot: w.Life.Snapshot,
	}
	for name, extra := range w.Extra {
		m[Capability(name)] = extra
	}
	return m
}

// Only returns w with the modules of caps alone: all that w has if caps is empty. Refs of
// the result list the modules that it has. Providers end Open with Only(spec.Want), and
// Resolve with Only(ref.Capabilities).
func (w *Workspace) Only(caps Capabilities) *Workspace {
	if w == nil || len(caps.Names()) == 0 {
		return w
	}
	out := *w
	out.Ref.Capabilities = w.Ref.Capabilities.intersect(caps)
	if !caps.Has(CapFS) {
		out.FS = nil
	}
	if !caps.Has(CapShell) {
		out.Shell = nil
	}
	if !caps.Has(CapCode) {
		out.Code = nil
	}
	if !caps.Has(CapScript) {
		out.Script = nil
	}
	if !caps.Has(CapSnapshot) {
		out.Life.Snapshot = nil
	}
	out.Extra = maps.Clone(w.Extra)
	maps.DeleteFunc(out.Extra, func(name string, _ any) bool { return !caps.Has(Capability(name)) })
	if update := w.Life.Update; update != nil {
		out.Life.Update = func(ctx context.Context, policy Policy) (Ref, error) {
			ref, err := update(ctx, policy)
			ref.Capabilities = ref.Capabilities.intersect(caps)
			return ref, err
		}
	}
	return &out
}

// Validate checks what a provider returned from Open or Resolve, so that a bug of the
// provider shows when the workspace is opened and not at the first call: the required
// parts are set, no module is a typed nil or lacks its required interface, the version of
// the ref is in the window, the ref lists the modules that were built, and these include
// all of want.
func (w *Workspace) Validate(want Capabilities) error {
	if w == nil {
		return fmt.Errorf("provider returned no workspace: %w", fault.Failed)
	}
	if w.Life.Close == nil || w.Life.Destroy == nil {
		return fmt.Errorf("provider %s: workspace lacks Close or Destroy: %w", w.Ref.Provider, fault.Failed)
	}
	cores := []struct {
		name Capability
		set  bool
		core any
	}{
		{CapFS, w.FS != nil, w.FS.core()},
		{CapShell, w.Shell != nil, w.Shell.core()},
		{CapCode, w.Code != nil, w.Code.core()},
		{CapScript, w.Script != nil, w.Script.core()},
		{CapSnapshot, w.Life.Snapshot != nil, w.Life.Snapshot.core()},
	}
	for _, m := range cores {
		if m.set && isNil(m.core) {
			return fmt.Errorf("provider %s: module %s is a typed nil or lacks its core: %w", w.Ref.Provider, m.name, fault.Failed)
		}
	}
	for name, extra := range w.Extra {
		if isNil(extra) {
			return fmt.Errorf("provider %s: extra %q is nil: %w", w.Ref.Provider, name, fault.Failed)
		}
		if slices.Contains([]Capability{CapFS, CapShell, CapCode, CapScript, CapSnapshot}, Capability(name)) {
			return fmt.Errorf("provider %s: extra %q has the name of a module: %w", w.Ref.Provider, name, fault.Failed)
		}
	}
	if err := CheckVersion(w.Ref, SchemaVersion, nil); err != nil {
		return err
	}
	built := w.Built()
	if !built.Equal(w.Ref.Capabilities) {
		return fmt.Errorf("provider %s: the ref says %v, but %v was built: %w",
			w.Ref.Provider, w.Ref.Capabilities.Names(), built.Names(), fault.Failed)
	}
	if missing := built.Missing(want); len(missing) > 0 {
		return fmt.Errorf("provider %s: declared capabilities %v are not provided (it has %v): %w",
			w.Ref.Provider, missing, built.Names(), fault.Failed)
	}
	return nil
}

func isNil(v any) bool {
	if v == nil {
		return true
	}
	switch rv := reflect.ValueOf(v); rv.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice, reflect.Func, reflect.Chan, reflect.Interface:
		return rv.IsNil()
	default:
		return false
	}
}
