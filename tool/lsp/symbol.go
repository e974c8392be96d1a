package lsp

import (
	"context"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/tool"
)

// Questions of symbol.
const (
	askDefinition  = "definition"
	askReferences  = "references"
	askHover       = "hover"
	askOutline     = "outline"
	askSearch      = "search"
	askDiagnostics = "diagnostics"
)

type symbolInput struct {
	Ask      string `json:"ask" jsonschema:"definition, references or hover of the symbol at a position; outline: declarations of the file; search: symbols of the project by name; diagnostics: errors and warnings of the file"`
	FilePath string `json:"file_path" jsonschema:"path of the file; for search any file of the project" croft:"path"`
	Line     int    `json:"line,omitempty" jsonschema:"line, counted from 1"`
	Col      int    `json:"col,omitempty" jsonschema:"column, counted in characters from 1"`
	Query    string `json:"query,omitempty" jsonschema:"for search: a name, or part of one" croft:"name"`
}

type symbolOutput struct {
	Locations   []Location   `json:"locations,omitempty"`
	Symbols     []Symbol     `json:"symbols,omitempty"`
	Diagnostics []Diagnostic `json:"diagnostics,omitempty"`
	Message     string       `json:"message,omitempty"`

	text string
}

func (o symbolOutput) Text() string { return o.text }

// symbolTool is the tools of this package that change nothing in one, for clients to which
// each tool costs.
func symbolTool() *tool.Tool {
	return tool.New(toolSpec("symbol", "Ask a language server about code."), askSymbol)
}

func askSymbol(ctx context.Context, c *tool.Call, in symbolInput) (symbolOutput, error) {
	var name string
	var err error
	switch at := (position{in.FilePath, in.Line, in.Col}); in.Ask {
	case askDefinition, askReferences, askHover:
		name, err = at.resolveFile(ctx, c)
	case askSearch:
		name, err = projectInput{in.Query, in.FilePath}.resolveFile(ctx, c)
	case askOutline, askDiagnostics:
		name, err = fileName(ctx, c, in.FilePath)
	default:
		err = tool.Errorf(fault.InvalidArgument, "ask must be definition, references, hover, outline, search or diagnostics")
	}
	if err != nil {
		return symbolOutput{}, err
	}
	s, err := serversOf(c)
	if err != nil {
		return symbolOutput{}, err
	}
	return s.answer(ctx, name, in)
}

func (s *Set) answer(ctx context.Context, name string, in symbolInput) (symbolOutput, error) {
	at := position{in.FilePath, in.Line, in.Col}
	switch in.Ask {
	case askDefinition, askReferences:
		find, what := s.Definition, "definition"
		if in.Ask == askReferences {
			find, what = s.References, "references"
		}
		list, err := find(ctx, name, in.Line, in.Col)
		l := newLocations(what, at, list)
		return symbolOutput{Locations: l.Locations, text: l.text}, err
	case askHover:
		m, err := s.hover(ctx, name, at)
		return symbolOutput{Message: m.Message, text: m.Message}, err
	case askOutline:
		l, err := s.outline(ctx, name, in.FilePath)
		return symbolOutput{Symbols: l.Symbols, text: l.text}, err
	case askSearch:
		l, err := s.search(ctx, name, in.Query)
		return symbolOutput{Symbols: l.Symbols, text: l.text}, err
	}
	d, err := s.diagnose(ctx, name)
	return symbolOutput{Diagnostics: d.Diagnostics, text: d.Text()}, err
}
