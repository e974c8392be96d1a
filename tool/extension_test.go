package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/secret"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// fullDisk is a provider's files whose writes fail with a plain error.
type fullDisk struct {
	driver.Files
	text string
}

func (f fullDisk) Write(context.Context, string, io.Reader, *driver.WriteOptions) (driver.WriteResult, error) {
	return driver.WriteResult{}, errors.New(f.text)
}

// gauge is an extra capability whose tool fails in a chosen way.
type gauge struct{ call func() error }

func (g gauge) Tools() []driver.Tool {
	return []driver.Tool{{
		Name: "measure", Description: "Measure.", Input: json.RawMessage(`{"type":"object"}`),
		Call: func(context.Context, json.RawMessage) (driver.ToolResult, error) {
			return driver.ToolResult{}, g.call()
		},
	}}
}

// extended is an Env over a workspace whose files are fullDisk and whose extra is a gauge.
func extended(t *testing.T, text string, call func() error) *tool.Env {
	t.Helper()
	id := driver.NewID()
	d, err := new(memory.Provider).Open(t.Context(), driver.Spec{ID: id, Kind: memory.Kind})
	if err != nil {
		t.Fatal(err)
	}
	d.FS.Files = fullDisk{d.FS.Files, text}
	d.Extra = map[string]any{"gauges": gauge{call}}
	d.Ref.Capabilities = d.Built()
	ws, err := workspace.New(id, d, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	set := new(tool.Set)
	if err := set.Add("w", ws); err != nil {
		t.Fatal(err)
	}
	secrets, err := secret.New(&secret.Options{Environ: []string{"CROFT_SECRET_PIN=hunter2hunter2"}})
	if err != nil {
		t.Fatal(err)
	}
	return newEnv(t, tool.Config{Tools: tool.Coding(), Workspaces: set, Secrets: secrets})
}

func TestPlainErrorsReachTheModel(t *testing.T) {
	const text = "disk says no to hunter2hunter2"
	env := extended(t, text, func() error { return errors.New(text) })
	for name, args := range map[string]string{"Write": `{"file_path":"f","content":"a"}`, "measure": `{}`} {
		got := refused(t, env, name, args, fault.Failed)
		if !strings.Contains(got, "disk says no to [REDACTED:") || strings.Contains(got, "hunter2") {
			t.Errorf("%s: the model sees %q, want the text of the error without the secret", name, got)
		}
	}
	long := strings.Repeat("é", 100_000)
	env = extended(t, long, func() error { return errors.New(long) })
	for name, args := range map[string]string{"Write": `{"file_path":"f","content":"a"}`, "measure": `{}`} {
		if got := refused(t, env, name, args, fault.Failed); len(got) > 3000 {
			t.Errorf("%s: the model sees %d bytes of an error, want at most 3000", name, len(got))
		}
	}
}

func TestPanicNamesTheExtension(t *testing.T) {
	env := extended(t, "", func() error { panic("out of range") })
	got := refused(t, env, "measure", `{}`, fault.Internal)
	if !strings.Contains(got, "extension gauges") || strings.Contains(got, "out of range") {
		t.Errorf("the model sees %q, want the name of the extension and not the panic", got)
	}
}
