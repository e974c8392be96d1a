package lsp

import (
	"context"
	"fmt"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/tool/verify"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// Tools returns the tools of this package.
func Tools() []*tool.Tool {
	return []*tool.Tool{
		findDefinitionTool(), findReferencesTool(), renameSymbolTool(), hoverTool(), documentSymbolsTool(), projectSymbolsTool(), diagnosticsTool(), symbolTool(),
	}
}

func toolSpec(name, description string) tool.Spec {
	return tool.Spec{
		Name: name, Family: tool.LSP, Needs: []workspace.Capability{driver.CapFS, driver.CapShell}, ReadOnly: true, Idempotent: true,
		Description: description + " Uses a language server for Go, Python, JavaScript, TypeScript, Rust, C or C++.",
	}
}

// newQueryTool returns a tool that queries a server about a file. check validates the
// arguments and returns the path in the workspace.
func newQueryTool[I, O any](name, description string, check func(I, context.Context, *tool.Call) (string, error), f func(ctx context.Context, s *Set, name string, in I) (O, error)) *tool.Tool {
	return tool.New(toolSpec(name, description), func(ctx context.Context, c *tool.Call, in I) (O, error) {
		var nothing O
		file, err := check(in, ctx, c)
		if err != nil {
			return nothing, err
		}
		s, err := serversOf(c)
		if err != nil {
			return nothing, err
		}
		return f(ctx, s, file, in)
	})
}

// newPositionTool returns a tool that queries a server about a symbol.
func newPositionTool[O any](name, description string, f func(s *Set, ctx context.Context, at position) (O, error)) *tool.Tool {
	return tool.New(toolSpec(name, description), func(ctx context.Context, c *tool.Call, in position) (O, error) {
		var nothing O
		s, err := serversOf(c)
		if err != nil {
			return nothing, err
		}
		at, err := s.resolve(ctx, c, in)
		if err != nil {
			return nothing, err
		}
		s.learnSecrets(ctx, c, at)
		return f(s, ctx, at)
	})
}

// serversOf returns the Set of the call's workspace, without starting a server.
func serversOf(c *tool.Call) (*Set, error) {
	return tool.PerWorkspace(c, func() (*Set, error) { return New(c.Workspace, 0), nil })
}

// Servers returns the language servers of a call's workspace for diagnostics after an edit.
// It starts none.
func Servers(c *tool.Call) verify.Diagnoser {
	s, err := serversOf(c)
	if err != nil {
		return nil // can't happen: making a Set does not fail
	}
	return s
}

// Effect notifies running servers of the files that a tool changed.
func Effect(ctx context.Context, c *tool.Call, paths []string) (string, error) {
	s, err := serversOf(c)
	if err != nil {
		return "", err
	}
	_ = s.NotifyChanged(ctx, paths...) // a failure means a dead server, which the next request restarts
	return "", nil
}

// Diagnose is Diagnostics for a running server; it starts none.
func (s *Set) Diagnose(ctx context.Context, name string) ([]verify.Diagnostic, bool, error) {
	if !s.Warm(name) {
		return nil, false, nil
	}
	found, err := s.Diagnostics(ctx, name)
	list := make([]verify.Diagnostic, 0, len(found))
	for _, d := range found {
		if d.Severity != "hint" {
			list = append(list, verify.Diagnostic{File: name, Line: d.Line, Column: d.Col, Severity: verifySeverity(d.Severity), Rule: d.ruleName(), Message: d.Message})
		}
	}
	return list, true, err
}

func verifySeverity(s string) verify.Severity {
	switch s {
	case "error":
		return verify.Error
	case "warning":
		return verify.Warning
	}
	return verify.Info
}

func (d Diagnostic) ruleName() string {
	if d.Code != "" {
		return d.Code
	}
	return d.Source
}

// A position is the input of most tools of this package: a place, or a name.
type position struct {
	FilePath string `json:"file_path,omitempty" jsonschema:"path of the file; with name it may be left out" croft:"path"`
	Line     int    `json:"line,omitempty" jsonschema:"line, counted from 1"`
	Col      int    `json:"col,omitempty" jsonschema:"column, counted in characters from 1"`
	Name     string `json:"name,omitempty" jsonschema:"the symbol's name, or CONTAINER.NAME, instead of line and col" croft:"name"`
}

func (p position) String() string { return fmt.Sprintf("%s:%d:%d", p.FilePath, p.Line, p.Col) }

// resolveFile validates a place and returns the path in the workspace.
func (p position) resolveFile(ctx context.Context, c *tool.Call) (string, error) {
	switch {
	case p.FilePath == "":
		return "", tool.Errorf(fault.InvalidArgument, "name or file_path is required")
	case p.Line < 1:
		return "", tool.Errorf(fault.InvalidArgument, "line (1-based) or name is required")
	case p.Col < 1:
		return "", tool.Errorf(fault.InvalidArgument, "col (1-based) or name is required")
	}
	return fileName(ctx, c, p.FilePath)
}

func fileName(ctx context.Context, c *tool.Call, file string) (string, error) {
	if file == "" {
		return "", tool.Errorf(fault.InvalidArgument, "file_path is required")
	}
	info, err := c.Workspace.Stat(ctx, file, nil)
	if err != nil {
		return "", tool.PathError(c.Tool, file, err)
	}
	if info.Type == driver.TypeDir {
		return "", tool.Errorf(fault.InvalidArgument, "path is a directory: %s", file)
	}
	return info.Path, nil
}

// locations is the answer of tools that find positions.
type locations struct {
	Locations []Location `json:"locations"`
	Also      *Mentions  `json:"also,omitempty" jsonschema:"where the name is a text and none of the locations"`

	text string
}

func (l locations) Text() string { return l.text }

func newLocations(what string, at position, list []Location, also *Mentions) locations {
	var b strings.Builder
	fmt.Fprintf(&b, "Found %d %s(s) for symbol at %s:\n", len(list), what, at)
	for i, l := range list {
		fmt.Fprintf(&b, "  %d. %s:%d:%d", i+1, l.Path, l.Line, l.Col)
		if l.Text != "" {
			b.WriteString("  " + l.Text)
		}
		b.WriteByte('\n')
	}
	b.WriteString(also.text("the language server does not count"))
	return locations{list, also, b.String()}
}
