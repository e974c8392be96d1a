package lsp

import (
	"context"
	"fmt"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/tool"
)

const maxSymbols = 100

type projectInput struct {
	Query    string `json:"query" jsonschema:"a name, or part of one" croft:"name"`
	FilePath string `json:"file_path" jsonschema:"any file of the project; its extension selects the language server" croft:"path"`
}

func (in projectInput) resolveFile(ctx context.Context, c *tool.Call) (string, error) {
	if strings.TrimSpace(in.Query) == "" {
		return "", tool.Errorf(fault.InvalidArgument, "query is required")
	}
	return fileName(ctx, c, in.FilePath)
}

func projectSymbolsTool() *tool.Tool {
	return newQueryTool("project_symbols", "Find symbols of the whole project by name. For words and descriptions use search_code.", projectInput.resolveFile,
		func(ctx context.Context, s *Set, name string, in projectInput) (symbols, error) {
			return s.search(ctx, name, in.Query)
		})
}

// search finds symbols of the project of a file.
func (s *Set) search(ctx context.Context, name, query string) (symbols, error) {
	list, err := s.WorkspaceSymbols(ctx, name, query)
	if err != nil {
		return symbols{}, err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d symbol(s) for %q", len(list), query)
	if len(list) > maxSymbols {
		fmt.Fprintf(&b, ", the first %d", maxSymbols)
		list = list[:maxSymbols]
	}
	b.WriteString(":\n")
	for _, sym := range list {
		fmt.Fprintf(&b, "  %s:%d:%d  %s [%s]\n", sym.Path, sym.Line, sym.Col, sym.Name, sym.Kind)
	}
	return symbols{append([]Symbol{}, list...), b.String()}, nil
}
