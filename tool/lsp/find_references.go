package lsp

import (
	"context"

	"github.com/croft-run/croft/tool"
)

func findReferences() *tool.Tool {
	return tool.New(toolSpec("find_references", "Find everything that uses the symbol at a place, its declaration included."),
		func(ctx context.Context, c *tool.Call, in place) (locations, error) {
			name, err := in.check(ctx, c)
			if err != nil {
				return locations{}, err
			}
			s, err := of(c)
			if err != nil {
				return locations{}, err
			}
			list, err := s.References(ctx, name, in.Line, in.Col)
			if err != nil {
				return locations{}, err
			}
			return newLocations("references", in, list), nil
		})
}
