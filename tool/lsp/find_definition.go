package lsp

import (
	"context"

	"github.com/croft-run/croft/tool"
)

func findDefinition() *tool.Tool {
	return tool.New(toolSpec("find_definition", "Find where the symbol at a place is defined."),
		func(ctx context.Context, c *tool.Call, in place) (locations, error) {
			name, err := in.check(ctx, c)
			if err != nil {
				return locations{}, err
			}
			s, err := of(c)
			if err != nil {
				return locations{}, err
			}
			list, err := s.Definition(ctx, name, in.Line, in.Col)
			if err != nil {
				return locations{}, err
			}
			return newLocations("definition", in, list), nil
		})
}
