package lsp

import (
	"context"
	"fmt"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/workspace"
)

const maxSymbols = 100

type projectInput struct {
	Query    string `json:"query" jsonschema:"a name, or part of one" croft:"name"`
	FilePath string `json:"file_path,omitempty" jsonschema:"a file of the project, whose extension selects the language server; default a file that has the query as text" croft:"path"`
}

func (in projectInput) resolveFile(ctx context.Context, c *tool.Call) (string, error) {
	if strings.TrimSpace(in.Query) == "" {
		return "", tool.Errorf(fault.InvalidArgument, "query is required")
	}
	if in.FilePath == "" {
		return "", nil
	}
	return fileName(ctx, c, in.FilePath)
}

func projectSymbolsTool() *tool.Tool {
	return newQueryTool("project_symbols", "Find symbols of the whole project by name. For words and descriptions use search_code.", projectInput.resolveFile,
		func(ctx context.Context, s *Set, name string, in projectInput) (symbols, error) {
			return s.search(ctx, name, in.Query)
		})
}

// search finds symbols of the project of a file or, without one, of the projects whose files
// have the query as text: of each language one file.
func (s *Set) search(ctx context.Context, name, query string) (symbols, error) {
	files := []string{name}
	if name == "" {
		var err error
		if files, err = s.filesWith(ctx, query); err != nil {
			return symbols{}, err
		}
	}
	var list []Symbol
	var failed []string
	for _, file := range files {
		found, err := s.WorkspaceSymbols(ctx, file, query)
		if err != nil {
			if failed = append(failed, tool.ErrorText(err)); len(failed) == len(files) || ctx.Err() != nil {
				return symbols{}, err
			}
		}
		list = append(list, found...)
	}
	var b strings.Builder
	for _, text := range failed {
		fmt.Fprintf(&b, "incomplete: %s\n", text)
	}
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

// filesWith returns one file of each language that has a text; an error if there is none.
func (s *Set) filesWith(ctx context.Context, text string) ([]string, error) {
	o := workspace.GrepOptions{
		GitIgnore: true, Literal: true, IgnoreCase: true, Include: sourceGlobs(), Exclude: []string{"**/node_modules/**"}, MaxPerFile: 1,
	}
	res, err := s.ws.Grep(ctx, text, &o)
	if err != nil {
		return nil, fmt.Errorf("lsp: search %s: %w", text, err)
	}
	var files []string
	seen := map[*server]bool{}
	for _, m := range res.Matches {
		if spec, _ := languageOf(m.Path); spec != nil && !seen[spec] {
			seen[spec] = true
			files = append(files, m.Path)
		}
	}
	if len(files) == 0 {
		const none = "no file with a language server has %q as text; with file_path the server of that file is asked"
		return nil, tool.Errorf(fault.NotFound, none, text)
	}
	return files, nil
}
