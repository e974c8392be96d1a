package lsp

import (
	"context"

	"github.com/croft-run/croft/tool"
)

func hover() *tool.Tool {
	return tool.New(toolSpec("hover", "Show the type and the documentation of the symbol at a place."),
		func(ctx context.Context, c *tool.Call, in place) (tool.Message, error) {
			name, err := in.check(ctx, c)
			if err != nil {
				return tool.Message{}, err
			}
			s, err := of(c)
			if err != nil {
				return tool.Message{}, err
			}
			text, err := s.Hover(ctx, name, in.Line, in.Col)
			if err != nil {
				return tool.Message{}, err
			}
			if text == "" {
				text = "nothing is known of what is at " + in.String()
			}
			return tool.Message{Message: text}, nil
		})
}
