package lsp

import (
	"context"

	"github.com/croft-run/croft/tool"
)

func findDefinition() *tool.Tool {
	return ask("find_definition", "Find where the symbol at a place is defined.", place.check,
		func(ctx context.Context, s *Set, name string, in place) (locations, error) {
			list, err := s.Definition(ctx, name, in.Line, in.Col)
			return newLocations("definition", in, list), err
		})
}

func findReferences() *tool.Tool {
	return ask("find_references", "Find everything that uses the symbol at a place, its declaration included.", place.check,
		func(ctx context.Context, s *Set, name string, in place) (locations, error) {
			list, err := s.References(ctx, name, in.Line, in.Col)
			return newLocations("references", in, list), err
		})
}

func hover() *tool.Tool {
	return ask("hover", "Show the type and the documentation of the symbol at a place.", place.check,
		func(ctx context.Context, s *Set, name string, in place) (tool.Message, error) {
			text, err := s.Hover(ctx, name, in.Line, in.Col)
			if text == "" {
				text = "nothing is known of what is at " + in.String()
			}
			return tool.Message{Message: text}, err
		})
}
