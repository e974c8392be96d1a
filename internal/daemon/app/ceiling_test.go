package app_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/app"
	"github.com/croft-run/croft/workspace/driver"
)

const bounded = `
version: 1
server: {providers: [boxes, memory]}
defaults: {provider: boxes, policy: small}
providers:
  boxes: {kind: filestore, options: {namespace: clients}}
  files: {kind: filestore}
policies:
  small: {limits: {memory: {max: 512M, bestEffort: true}}, env: {CI: "1"}}
  big: {extends: small, limits: {memory: {max: 4G, bestEffort: true}}}
hostRoots: [/nowhere]
`

// TestAServersClientStaysBelowThePolicy: whatever a client of a server asks for, it gets
// no more than the configuration says. The operator gets it.
func TestAServersClientStaysBelowThePolicy(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	sys, url := serveWith(t, app.Config{DataDir: dir, Settings: settings(t, bounded)})
	c := newClient(t, sys, url)
	memory := func(n int64) driver.Policy {
		return driver.Policy{Limits: driver.Limits{driver.ResourceMemory: {Max: n, BestEffort: true}}}
	}
	for _, tt := range []struct {
		name   string
		spec   driver.Spec
		policy string
		want   string // in the error; "" is none
	}{
		{"as configured", driver.Spec{}, "", ""},
		{"less", driver.Spec{Policy: memory(1 << 20)}, "", ""},
		{"another policy by its name", driver.Spec{Policy: memory(1 << 30)}, "big", ""},
		{"99 GB", driver.Spec{Policy: memory(99 << 30)}, "", "limit memory: permission denied: 99 GiB (best-effort) is asked for, and the ceiling is 512 MiB"},
		{"99 GB of another policy", driver.Spec{Policy: memory(99 << 30)}, "big", "the ceiling is 4 GiB"},
		{"the built-in policy", driver.Spec{Policy: memory(99 << 30)}, "default", `policy "default": not found`},
		{"hosts", driver.Spec{Policy: driver.Policy{Network: driver.Network{Allow: []driver.NetRule{{Host: "*.com"}}}}}, "", `network: permission denied: "*.com" on ports [80] is asked for, and the ceiling is no network`},
		{"an open network", driver.Spec{Policy: driver.Policy{Network: driver.Network{Open: true}}}, "", "the ceiling is no network"},
		{"a weak level", driver.Spec{Policy: driver.Policy{Isolation: driver.IsolationProcess}}, "", "isolation: permission denied: process is asked for"},
		{"a variable", driver.Spec{Policy: driver.Policy{Env: map[string]string{"CI": "0"}}}, "", "env CI: permission denied"},
		{"another option", driver.Spec{Config: json.RawMessage(`{"namespace":"others"}`)}, "", `"namespace": permission denied: "others" is asked for, and the configuration says "clients"`},
		{"the same option", driver.Spec{Config: json.RawMessage(`{"namespace": "clients"}`)}, "", ""},
		{"a provider of another name", driver.Spec{Kind: "files"}, "", `provider "files": permission denied: this server does not offer it`},
		{"a kind under its own name", driver.Spec{Kind: "filestore"}, "", `provider "filestore": permission denied`},
		{"the host", driver.Spec{Kind: "local"}, "", `provider "local": permission denied`},
		{"the host by need", driver.Spec{Kind: "auto", Dir: dir}, "", "does not offer it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ws, err := c.CreateWith(t.Context(), tt.spec, tt.policy)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, %v; want %q", ws.ID, err, tt.want)
			}
		})
	}
	t.Run("a new policy", func(t *testing.T) {
		ws, err := c.Create(t.Context(), driver.Spec{})
		if err != nil {
			t.Fatal(err)
		}
		env := map[string]string{"CI": "1"}
		for limit, want := range map[int64]fault.Code{1 << 20: "", 4 << 30: "", 99 << 30: fault.PermissionDenied, 0: fault.PermissionDenied} {
			policy := driver.Policy{Limits: memory(limit).Limits, Env: env}
			if _, err := c.Change(t.Context(), ws.ID, client.Change{Policy: &policy}); fault.Of(err) != want {
				t.Errorf("memory %d: %v, want %v", limit, err, want)
			}
		}
	})
	t.Run("the operator", func(t *testing.T) {
		sys, err := app.Open(t.Context(), app.Config{DataDir: dir, Settings: settings(t, bounded), Operator: true})
		if err != nil {
			t.Fatal(err)
		}
		defer sys.Close(t.Context())
		rec, err := sys.Create(t.Context(), driver.Spec{Kind: "local", Policy: memory(99 << 30)}, "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sys.Registry.Acquire(t.Context(), rec.ID); err != nil {
			t.Fatal(err)
		}
		_, err = c.Acquire(t.Context(), rec.ID)
		if fault.Of(err) != fault.PermissionDenied || !strings.Contains(err.Error(), `workspaces of kind "local"`) {
			t.Errorf("the server gives its clients a workspace of kind local: %v", err)
		}
	})
	list, err := c.Providers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list {
		if p.Kind == "local" || p.Kind == "sandbox" {
			t.Errorf("it lists %s", p.Kind)
		}
	}
}

// TestMountsStayBelowHostRoots: a directory of the host that is not listed can't be used,
// by any field.
func TestMountsStayBelowHostRoots(t *testing.T) {
	roots, outside := t.TempDir(), t.TempDir()
	cfg := settings(t, "version: 1\nserver: {providers: [local, sandbox]}\nhostRoots: ["+roots+"]\n")
	sys, url := serveWith(t, app.Config{DataDir: t.TempDir(), Settings: cfg})
	c := newClient(t, sys, url)
	binds, err := json.Marshal(map[string]any{"binds": []map[string]any{{"dir": outside, "readOnly": true}}})
	if err != nil {
		t.Fatal(err)
	}
	template, err := json.Marshal(map[string]any{"template": outside})
	if err != nil {
		t.Fatal(err)
	}
	for name, spec := range map[string]driver.Spec{
		"in place":             {Kind: "local", Dir: outside},
		"in place, sandboxed":  {Kind: "sandbox", Dir: outside},
		"a template":           {Kind: "sandbox", From: driver.Source{Template: outside}},
		"mounted":              {Kind: "sandbox", Config: binds},
		"a template as option": {Kind: "sandbox", Config: template},
	} {
		_, err := c.Create(t.Context(), spec)
		if fault.Of(err) == fault.Unsupported {
			continue // the host lacks isolation
		}
		if fault.Of(err) != fault.PermissionDenied || !strings.Contains(err.Error(), outside) || !strings.Contains(err.Error(), roots) {
			t.Errorf("%s: %v; want PermissionDenied that names %s and %s", name, err, outside, roots)
		}
	}
}

// TestCommandsKeepVariablesOfPolicies: the env of a command can't change a variable that a
// policy sets.
func TestCommandsKeepVariablesOfPolicies(t *testing.T) {
	const text = "version: 1\nserver: {providers: [local]}\ndefaults: {provider: local, policy: small}\npolicies: {small: {env: {CI: \"1\"}}}\n"
	sys, _ := serveWith(t, app.Config{DataDir: filepath.Join(t.TempDir(), "data"), Settings: settings(t, text)})
	rec, err := sys.Create(t.Context(), driver.Spec{}, "")
	if err != nil {
		t.Fatal(err)
	}
	ws, err := sys.Registry.Acquire(t.Context(), rec.ID)
	if err != nil {
		t.Fatal(err)
	}
	for pair, want := range map[string]fault.Code{"CI=0": fault.PermissionDenied, "CI=": fault.PermissionDenied, "CI=1": "", "OTHER=0": ""} {
		cmd := ws.Command(t.Context(), "true")
		cmd.Env = []string{pair}
		if err := cmd.Run(); fault.Of(err) != want || want != "" && !strings.Contains(err.Error(), `"CI"`) {
			t.Errorf("%s: %v, want %q", pair, err, want)
		}
	}
}
