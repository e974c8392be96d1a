package verify

import (
	"strings"
	"testing"

	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/provider/local"
	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/workspace/driver"
)

// TestHints: a command that fails for want of network or of a toolchain names the flag that
// allows it.
func TestHints(t *testing.T) {
	const (
		goHint   = "toolchain: the project needs Go 1.99, the workspace has "
		hostHint = "network: registry.example.com can't be reached; the operator can allow it in the network policy"
	)
	for _, tt := range []struct {
		name, needs, command string
		want                 string
	}{
		{"toolchain", "go", "", goHint},
		{"host", "node", "node -e \"require('dns').lookup('registry.example.com', e => { console.error(e.message); process.exit(1) })\"", hostHint},
		{"some host", "python3", "python3 -c \"import socket; socket.create_connection(('pypi.example.com', 443))\"", "network: a host can't be reached; the operator can allow it in the network policy"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			testenv.NeedsProgram(t, tt.needs)
			ws, _ := open(t, sandbox.Kind, map[string]string{"go.mod": "module m\n\ngo 1.99\n", "m_test.go": "package m\n"})
			r, err := Test(t.Context(), ws, project(t, ws), &Options{Command: tt.command})
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(r.Notes, "\n"); !strings.Contains(got, tt.want) {
				t.Errorf("notes: %q, want %q\n%s\n%s", got, tt.want, r.Stdout, r.Stderr)
			}
			if tt.command != "" {
				return
			}
			found, err := Lint(t.Context(), ws, project(t, ws), nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(found.Notes, "\n"); !strings.Contains(got, tt.want) {
				t.Errorf("lint: notes: %q, want %q", got, tt.want)
			}
		})
	}
	t.Run("a program", func(t *testing.T) {
		for _, kind := range kinds {
			ws, _ := open(t, kind, map[string]string{"go.mod": "module m\n"})
			_, err := Test(t.Context(), ws, project(t, ws), &Options{Command: "no-such-runner all"})
			if err == nil {
				t.Fatal("a program that does not exist ran")
			}
			if !strings.Contains(err.Error(), "unsupported: no-such-runner: not found on PATH") {
				t.Errorf("%s: %v, want the name of the program", kind, err)
			}
			if got, want := strings.Contains(err.Error(), "can show the toolchains of the user; else install it there, or use an image that has it with the provider docker"), kind == sandbox.Kind; got != want {
				t.Errorf("%s: %v", kind, err)
			}
			if got, want := strings.Contains(MissingHint(ws, "/usr/bin/cargo"), "can show the toolchain rust;"), kind == sandbox.Kind; got != want {
				t.Errorf("%s: %q", kind, MissingHint(ws, "/usr/bin/cargo"))
			}
		}
	})
	t.Run("refused", func(t *testing.T) {
		ws, _ := open(t, local.Kind, nil)
		got := Hints(ws, []driver.Refusal{{Host: "proxy.golang.org:443", Reason: "no rule allows it"}}, "")
		if want := "network: proxy.golang.org:443 was refused: no rule allows it; the operator can allow proxy.golang.org in the network policy"; len(got) != 1 || got[0] != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}
