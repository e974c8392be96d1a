package eval

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/croft-run/croft/eval/suite"
	"github.com/croft-run/croft/fault"
)

// A Module is a reporter of the user: a TypeScript or JavaScript module that exports an
// object with hooks, as default or as reporter. Its console output goes to out of
// NewModule.
type Module struct {
	ctx context.Context // of the run; Report has no context
	r   *suite.Reporter
}

// NewModule loads the module at path with a loader, whose Log is replaced. ctx bounds all hooks.
// Close the module after use.
func NewModule(ctx context.Context, l suite.Loader, path string, out io.Writer) (*Module, error) {
	l.Log = func(l suite.Log) { fmt.Fprintln(out, l.Text) }
	r, err := l.LoadReporter(ctx, path)
	if err != nil {
		return nil, err
	}
	return &Module{ctx, r}, nil
}

// Report calls the hook of an event and waits for its promise. The result of the run is
// read from results.json, because the run keeps only summaries.
func (m *Module) Report(e Event) error {
	if r, ok := e.Result.(*Result); ok && e.Hook == OnSuiteFinish {
		full, err := os.ReadFile(filepath.Join(r.ArtifactDir, ResultsName))
		if err != nil {
			return fmt.Errorf("eval: report %s: %w: %w", e.Hook, fault.Of(err), err)
		}
		e.Result = json.RawMessage(full)
	}
	data, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("eval: report %s: %w: %w", e.Hook, fault.Internal, err)
	}
	m.r.OutputDir = e.Context.ArtifactDir
	return m.r.Call(m.ctx, string(e.Hook), data)
}

// Close ends the module.
func (m *Module) Close() error { return m.r.Close() }
