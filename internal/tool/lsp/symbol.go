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
	Ask      string `json:"ask" jsonschema:"outline: declarations of the file; search: symbols of the project by name; diagnostics: errors and warnings of the file" enum:"definition|references|hover|outline|search|diagnostics"`
	FilePath string `json:"file_path,omitempty" jsonschema:"path of the file; with name or for search it may be left out" croft:"path"`
	Line     int    `json:"line,omitempty" jsonschema:"line, counted from 1"`
	Col      int    `json:"col,omitempty" jsonschema:"column, counted in characters from 1"`
	Name     string `json:"name,omitempty" jsonschema:"the symbol's name, or CONTAINER.NAME, instead of line and col" croft:"name"`
	Query    string `json:"query,omitempty" jsonschema:"for search: a name, or part of one" croft:"name"`
}

type symbolOutput struct {
	Locations   []Location   `json:"locations,omitempty"`
	Symbols     []Symbol     `json:"symbols,omitempty"`
	Diagnostics []Diagnostic `json:"diagnostics,omitempty"`
	Message     string       `json:"message,omitempty"`
	Also        *Mentions    `json:"also,omitempty" jsonschema:"where the name is a text and none of the locations"`

	text string
}

func (o symbolOutput) Text() string { return o.text }

// symbolTool is the tools of this package that change nothing in one, for clients to which
// each tool costs.
func symbolTool() *tool.Tool {
	return tool.New(toolSpec("symbol", "Ask a language server about code."), askSymbol)
}

func askSymbol(ctx context.Context, c *tool.Call, in symbolInput) (symbolOutput, error) {
	s, err := serversOf(c)
	if err != nil {
		return symbolOutput{}, err
	}
	switch in.Ask {
	case askDefinition, askReferences, askHover:
		at, err := s.resolve(ctx, c, position{in.FilePath, in.Line, in.Col, in.Name})
		if err != nil {
			return symbolOutput{}, err
		}
		s.learnSecrets(ctx, c, at)
		return s.answer(ctx, in.Ask, at)
	case askSearch:
		query := projectInput{Query: in.Query, FilePath: in.FilePath}
		if query.Query == "" {
			query.Query = in.Name
		}
		name, err := query.resolveFile(ctx, c)
		if err != nil {
			return symbolOutput{}, err
		}
		l, err := s.search(ctx, name, query.Query)
		return symbolOutput{Symbols: l.Symbols, text: l.text}, err
	case askOutline, askDiagnostics:
		name, err := fileName(ctx, c, in.FilePath)
		if err != nil {
			return symbolOutput{}, err
		}
		if in.Ask == askOutline {
			l, err := s.outline(ctx, name, in.FilePath)
			return symbolOutput{Symbols: l.Symbols, text: l.text}, err
		}
		d, err := s.diagnose(ctx, name)
		return symbolOutput{Diagnostics: d.Diagnostics, text: d.Text()}, err
	}
	return symbolOutput{}, tool.Errorf(fault.InvalidArgument, "ask must be definition, references, hover, outline, search or diagnostics")
}

func (s *Set) answer(ctx context.Context, ask string, at position) (symbolOutput, error) {
	if ask == askHover {
		m, err := s.hover(ctx, at)
		return symbolOutput{Message: m.Message, text: m.Message}, err
	}
	find := s.definition
	if ask == askReferences {
		find = s.references
	}
	l, err := find(ctx, at)
	return symbolOutput{Locations: l.Locations, Also: l.Also, text: l.text}, err
}
