package workspacetest

import (
	"context"
	"fmt"
	"io"
	"reflect"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

var capabilityChecks = []Check{
	{"Capabilities/are-what-is-built", nil, capsBuilt},
	{"Capabilities/declared-are-there", nil, capsDeclared},
	{"Capabilities/not-declared-are-absent", nil, capsNotDeclared},
	{"Capabilities/of-a-ref-that-can't-be-built-are-refused", nil, capsClaimed},
	{"Capabilities/beyond-what-is-there-fail-at-the-start", nil, capsBeyond},
	{"Capabilities/no-module-is-a-typed-nil", nil, capsTypedNil},
	{"Capabilities/wrapping-loses-no-module", nil, capsWrapped},
	{"Capabilities/are-what-was-announced", nil, capsAnnounced},
}

func capsBuilt(t testing.TB, e *Env) {
	p := e.open(t)
	q := e.resolve(t, p.spec, p.Ref())
	for what, d := range map[string]*driver.Workspace{"Open": p.d, "Resolve": q.d} {
		if built := d.Built(); !built.Equal(d.Ref.Capabilities) {
			t.Errorf("%s: the ref says %v, but %v was built", what, d.Ref.Capabilities.Names(), built.Names())
		}
	}
	if !p.d.Built().Equal(q.d.Built()) {
		t.Errorf("Open builds %v, but Resolve %v", p.d.Built().Names(), q.d.Built().Names())
	}
	if lost := Lost(p.d, q.d); len(lost) > 0 {
		t.Errorf("Resolve does not build what Open builds: %v", lost)
	}
}

func capsDeclared(t testing.TB, e *Env) {
	built := e.sample.Built()
	for _, c := range built.Names() {
		want := driver.NewCapabilities(c)
		p := e.open(t, func(s *driver.Spec) { s.Want = want })
		if missing := p.d.Built().Missing(want); len(missing) > 0 {
			t.Errorf("Open that wants %s lacks %v", c, missing)
		}
		q := e.resolve(t, p.spec, p.Ref())
		if missing := q.d.Built().Missing(want); len(missing) > 0 {
			t.Errorf("Resolve of a workspace that wants %s lacks %v", c, missing)
		}
	}
	e.open(t, func(s *driver.Spec) { s.Want = built.Clone() })
}

// capsNotDeclared opens workspaces that want one capability each, and all but that one.
func capsNotDeclared(t testing.TB, e *Env) {
	built := e.sample.Built()
	for _, c := range built.Names() {
		others := built.Clone()
		delete(others, c)
		for _, want := range []driver.Capabilities{driver.NewCapabilities(c), others} {
			if len(want) == 0 {
				continue // wants all
			}
			p := e.open(t, func(s *driver.Spec) { s.Want = want })
			q := e.resolve(t, p.spec, p.Ref())
			for what, d := range map[string]*driver.Workspace{"Open": p.d, "Resolve": q.d} {
				if got := d.Built(); !got.Equal(want) {
					t.Errorf("%s of a workspace that wants %v builds %v", what, want.Names(), got.Names())
				}
			}
			if p.d.Life.Update == nil {
				continue
			}
			ref, err := p.d.Life.Update(t.Context(), otherPolicy(e))
			if wantNil(t, "Update", err) && !ref.Capabilities.Equal(want) {
				t.Errorf("Update of a workspace that wants %v returns a ref with %v", want.Names(), ref.Capabilities.Names())
			}
		}
	}
}

// capsClaimed resolves refs whose capabilities are not those of any workspace of the
// provider.
func capsClaimed(t testing.TB, e *Env) {
	p := e.open(t)
	claims := []driver.Capabilities{nil}
	for _, c := range []driver.Capability{driver.CapFS, driver.CapShell, driver.CapCode, driver.CapScript, driver.CapSnapshot, "no-such-extra"} {
		if !p.d.Built().Has(c) {
			more := p.d.Built()
			more[c] = true
			claims = append(claims, more)
		}
	}
	for _, caps := range claims {
		ref := p.Ref()
		ref.Capabilities = caps
		e.wantRefRefused(t, fmt.Sprintf("a ref that claims %v", caps.Names()), ref)
	}
}

func capsBeyond(t testing.TB, e *Env) {
	built := e.sample.Built()
	mux := workspace.NewMux(e.sharedProvider(t))
	for _, c := range []driver.Capability{driver.CapFS, driver.CapShell, driver.CapCode, driver.CapScript, driver.CapSnapshot, "no-such-extra"} {
		if built.Has(c) {
			continue
		}
		want := built.Clone()
		want[c] = true
		spec := e.spec(func(s *driver.Spec) { s.Want = want })
		ws, err := mux.Open(t.Context(), spec, nil)
		wantFailed(t, fmt.Sprintf("Open that wants %s", c), err)
		if ws != nil {
			ws.Destroy(t.Context()) // it should not exist
		}
		p := e.open(t)
		_, err = mux.Resolve(t.Context(), p.spec.ID, p.Ref(), want, nil)
		wantCode(t, fmt.Sprintf("Resolve that wants %s", c), err, fault.Failed)
	}
}

func capsTypedNil(t testing.TB, e *Env) {
	p := e.open(t)
	q := e.resolve(t, p.spec, p.Ref())
	for what, d := range map[string]*driver.Workspace{"Open": p.d, "Resolve": q.d} {
		wantNil(t, what, d.Validate(nil))
		for _, name := range typedNils(reflect.ValueOf(d).Elem(), "Workspace") {
			t.Errorf("%s: %s is a nil inside of an interface", what, name)
		}
	}
}

// typedNils finds interfaces that hold a nil pointer, map, slice or function, in
// a workspace and in its modules.
func typedNils(v reflect.Value, path string) []string {
	var found []string
	for i := range v.NumField() {
		f, name := v.Field(i), path+"."+v.Type().Field(i).Name
		switch {
		case f.Kind() == reflect.Interface && !f.IsNil() && nilInside(f.Elem()):
			found = append(found, name)
		case f.Kind() == reflect.Pointer && !f.IsNil() && f.Elem().Kind() == reflect.Struct:
			found = append(found, typedNils(f.Elem(), name)...)
		case f.Type() == reflect.TypeFor[driver.Life]():
			found = append(found, typedNils(f, name)...)
		}
	}
	return found
}

func nilInside(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice, reflect.Func, reflect.Chan:
		return v.IsNil()
	}
	return false
}

// capsWrapped wraps the workspace as a decorator does, by copying the structs and
// replacing fields, and reports what was lost.
func capsWrapped(t testing.TB, e *Env) {
	p := e.open(t)
	calls := 0
	wrapped := countWrites(p.d, &calls)
	for _, lost := range Lost(p.d, wrapped) {
		t.Errorf("wrapping loses %s", lost)
	}
	newTestWorkspace(t, p.spec, wrapped).wantUsable(t)
	if p.d.FS != nil && calls == 0 {
		t.Error("the decorator was never called")
	}
	scripted := NewScripted(e.sharedProvider(t))
	d, err := scripted.Open(t.Context(), p.spec)
	if !wantNil(t, "Open through a scripted provider", err) {
		return
	}
	for _, lost := range Lost(p.d, d) {
		t.Errorf("a scripted provider loses %s", lost)
	}
	newTestWorkspace(t, p.spec, d).wantUsable(t)
}

// capsAnnounced compares the capabilities that a provider reports with those of a
// workspace.
func capsAnnounced(t testing.TB, e *Env) {
	p := e.open(t)
	said, has := e.sharedProvider(t).Features().Capabilities, p.d.Built()
	if said != nil && !said.Equal(has) {
		t.Errorf("Features().Capabilities = %v, and a workspace has %v", said.Names(), has.Names())
	}
}

// countWrites counts writes.
func countWrites(d *driver.Workspace, calls *int) *driver.Workspace {
	w := *d
	if d.FS != nil {
		fs := *d.FS
		fs.Files = countingFiles{d.FS.Files, calls}
		w.FS = &fs
	}
	return &w
}

type countingFiles struct {
	driver.Files
	calls *int
}

func (f countingFiles) Write(ctx context.Context, name string, body io.Reader, opts *driver.WriteOptions) (driver.WriteResult, error) {
	*f.calls++
	return f.Files.Write(ctx, name, body, opts)
}

// Lost lists the modules, functions and extras that only one of before and after has.
// It walks the structs of the contract by reflection, so fields that are added later
// are included. Tests of decorators use it.
func Lost(before, after *driver.Workspace) []string {
	lost := lostFields(reflect.ValueOf(before).Elem(), reflect.ValueOf(after).Elem(), "Workspace")
	for name := range before.Extra {
		if _, ok := after.Extra[name]; !ok {
			lost = append(lost, "Workspace.Extra["+name+"]")
		}
	}
	return lost
}

func lostFields(before, after reflect.Value, path string) []string {
	var lost []string
	for i := range before.NumField() {
		b, a, name := before.Field(i), after.Field(i), path+"."+before.Type().Field(i).Name
		switch b.Kind() {
		case reflect.Func, reflect.Interface:
			if b.IsNil() != a.IsNil() {
				lost = append(lost, name)
			}
		case reflect.Pointer:
			if b.IsNil() != a.IsNil() {
				lost = append(lost, name)
			} else if !b.IsNil() && b.Elem().Kind() == reflect.Struct {
				lost = append(lost, lostFields(b.Elem(), a.Elem(), name)...)
			}
		case reflect.Struct:
			if b.Type() == reflect.TypeFor[driver.Life]() {
				lost = append(lost, lostFields(b, a, name)...)
			}
		}
	}
	return lost
}
