package lsp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/tool/verify"
	"github.com/croft-run/croft/tool"
)

// diagnosticsTime bounds the analysis of a file.
const diagnosticsTime = 60 * time.Second

type diagnosticsOutput struct {
	Path        string       `json:"path"`
	Diagnostics []Diagnostic `json:"diagnostics"`
	Notes       []string     `json:"notes,omitempty"`
}

func (o diagnosticsOutput) Text() string {
	if len(o.Diagnostics) == 0 {
		return "no diagnostics for " + o.Path
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d diagnostic(s) for %s:\n", len(o.Diagnostics), o.Path)
	for _, d := range o.Diagnostics {
		fmt.Fprintf(&b, "%s:%d:%d: %s: %s", o.Path, d.Line, d.Col, d.Severity, d.Message)
		if rule := d.ruleName(); rule != "" {
			b.WriteString(" (" + rule + ")")
		}
		b.WriteByte('\n')
	}
	for _, n := range o.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	return b.String()
}

func diagnosticsTool() *tool.Tool {
	return newQueryTool("diagnostics", "Show the errors and warnings for the present content of a file.", fileInput.resolveFile,
		func(ctx context.Context, s *Set, name string, _ fileInput) (diagnosticsOutput, error) {
			return s.diagnose(ctx, name)
		})
}

// diagnose is Diagnostics within diagnosticsTime.
func (s *Set) diagnose(ctx context.Context, name string) (diagnosticsOutput, error) {
	bounded, cancel := context.WithTimeout(ctx, diagnosticsTime)
	defer cancel()
	list, err := s.Diagnostics(bounded, name)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return diagnosticsOutput{}, tool.Errorf(fault.DeadlineExceeded, "the language server did not analyse %s within %v", name, diagnosticsTime)
	}
	var messages []string
	for _, d := range list {
		messages = append(messages, d.Message)
	}
	return diagnosticsOutput{Path: name, Diagnostics: list, Notes: verify.Hints(s.ws, nil, strings.Join(messages, "\n"))}, err
}
