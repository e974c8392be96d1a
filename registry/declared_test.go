package registry

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
	"github.com/croft-run/croft/workspace/workspacetest"
)

// TestOnlyDeclaredCapabilities has a provider that builds more than the spec wants.
func TestOnlyDeclaredCapabilities(t *testing.T) {
	p := decorated{new(memory.Provider), func(d *driver.Workspace) {
		d.Extra = map[string]any{"more": 1}
		d.Ref.Capabilities = driver.NewCapabilities(driver.CapFS, "more")
	}}
	g := newRigOn(t, sqliteURL(t), workspacetest.NewScripted(p), nil)
	want := driver.NewCapabilities(driver.CapFS)
	id := g.create(func(s *workspace.Spec) { s.Want = want })
	ws := g.acquireOK(id)
	rec, err := g.Lookup(t.Context(), "", id)
	if err != nil {
		t.Fatal(err)
	}
	for what, got := range map[string]driver.Capabilities{"handle": ws.Capabilities(), "stored ref": rec.Ref.Capabilities, "record": rec.Capabilities()} {
		if !got.Equal(want) {
			t.Errorf("capabilities of the %s are %v, want %v", what, got.Names(), want.Names())
		}
	}
}

func TestRefusesBadRefs(t *testing.T) {
	const password = "correct-horse"
	for _, tt := range []struct {
		name string
		edit func(*driver.Ref)
		want string // in the error
	}{
		{"a version outside the window", func(r *driver.Ref) { r.SchemaVersion = 7 }, "schema version 7"},
		{"a claim that was not built", func(r *driver.Ref) { r.Capabilities = driver.NewCapabilities(driver.CapFS, driver.CapShell) }, "[fs shell]"},
		{"a secret", func(r *driver.Ref) { r.Payload = json.RawMessage(`{"id":"x","password":"` + password + `"}`) }, "secret"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := decorated{new(memory.Provider), func(d *driver.Workspace) { tt.edit(&d.Ref) }}
			g := newRigOn(t, sqliteURL(t), workspacetest.NewScripted(p), &Options{
				HasSecretValue: func(text string) bool { return strings.Contains(text, password) },
			})
			id := g.create(nil)
			_, err := g.Acquire(t.Context(), id)
			wantCode(t, "Acquire", err, fault.Failed)
			if err != nil && (!strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), password)) {
				t.Errorf("the error is %q, want %q in it and no secret", err, tt.want)
			}
			g.wantState(id, Failed)
		})
	}
}
