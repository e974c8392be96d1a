package lsp

import (
	"context"

	"github.com/croft-run/croft/tool"
)

func findDefinitionTool() *tool.Tool {
	return newQueryTool("find_definition", "Find the definition of the symbol at a position.", position.resolveFile,
		func(ctx context.Context, s *Set, name string, in position) (locations, error) {
			list, err := s.Definition(ctx, name, in.Line, in.Col)
			return newLocations("definition", in, list), err
		})
}

func findReferencesTool() *tool.Tool {
	return newQueryTool("find_references", "Find all uses of the symbol at a position, with its declaration.", position.resolveFile,
		func(ctx context.Context, s *Set, name string, in position) (locations, error) {
			list, err := s.References(ctx, name, in.Line, in.Col)
			return newLocations("references", in, list), err
		})
}

func hoverTool() *tool.Tool {
	return newQueryTool("hover", "Show the type and the documentation of the symbol at a position.", position.resolveFile,
		func(ctx context.Context, s *Set, name string, in position) (tool.Message, error) {
			return s.hover(ctx, name, in)
		})
}

func (s *Set) hover(ctx context.Context, name string, at position) (tool.Message, error) {
	text, err := s.Hover(ctx, name, at.Line, at.Col)
	if text == "" {
		text = "no information about the symbol at " + at.String()
	}
	return tool.Message{Message: text}, err
}
