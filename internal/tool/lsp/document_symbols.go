package lsp

import (
	"context"
	"fmt"
	"strings"

	"github.com/croft-run/croft/tool"
)

type fileInput struct {
	FilePath string `json:"file_path" jsonschema:"path of the file" croft:"path"`
}

func (in fileInput) resolveFile(ctx context.Context, c *tool.Call) (string, error) {
	return fileName(ctx, c, in.FilePath)
}

// symbols is the answer of tools that list symbols.
type symbols struct {
	Symbols []Symbol `json:"symbols"`

	text string
}

func (s symbols) Text() string { return s.text }

func documentSymbolsTool() *tool.Tool {
	return newQueryTool("document_symbols", "List the declarations of a file, with lines.", fileInput.resolveFile,
		func(ctx context.Context, s *Set, name string, in fileInput) (symbols, error) {
			return s.outline(ctx, name, in.FilePath)
		})
}

// outline lists the declarations of a file; shown is its path as the agent gave it.
func (s *Set) outline(ctx context.Context, name, shown string) (symbols, error) {
	list, err := s.DocumentSymbols(ctx, name)
	if err != nil {
		return symbols{}, err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d symbol(s) in %s:\n", len(list), shown)
	for _, sym := range list {
		fmt.Fprintf(&b, "%s%d: %s [%s]", strings.Repeat("  ", sym.Depth+1), sym.Line, sym.Name, sym.Kind)
		if sym.Detail != "" {
			b.WriteString(" " + sym.Detail)
		}
		b.WriteByte('\n')
	}
	return symbols{append([]Symbol{}, list...), b.String()}, nil
}
