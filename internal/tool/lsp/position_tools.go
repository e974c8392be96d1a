package lsp

import (
	"context"

	"github.com/croft-run/croft/tool"
)

func findDefinitionTool() *tool.Tool {
	return newPositionTool("find_definition", "Find the definition of a symbol, given by name or at a position.", (*Set).definition)
}

func findReferencesTool() *tool.Tool {
	return newPositionTool("find_references",
		"Find all uses of a symbol, given by name or at a position, with its declaration, and where else its name is a text.", (*Set).references)
}

func hoverTool() *tool.Tool {
	return newPositionTool("hover", "Show the type and the documentation of a symbol, given by name or at a position.", (*Set).hover)
}

func (s *Set) definition(ctx context.Context, at position) (locations, error) {
	list, err := s.Definition(ctx, at.FilePath, at.Line, at.Col)
	if err != nil {
		return locations{}, err
	}
	return newLocations("definition", at, list, nil), nil
}

func (s *Set) references(ctx context.Context, at position) (locations, error) {
	list, also, err := s.References(ctx, at.FilePath, at.Line, at.Col)
	if err != nil {
		return locations{}, err
	}
	return newLocations("reference", at, list, also), nil
}

func (s *Set) hover(ctx context.Context, at position) (tool.Message, error) {
	text, err := s.Hover(ctx, at.FilePath, at.Line, at.Col)
	if text == "" {
		text = "no information about the symbol at " + at.String()
	}
	return tool.Message{Message: text}, err
}

// learnSecrets lets the call hide the secrets of the file that a position is in: an answer has
// values of it without what is around them.
func (s *Set) learnSecrets(ctx context.Context, c *tool.Call, at position) {
	if text, err := readText(ctx, s.ws, at.FilePath); err == nil { // the question reports what is wrong
		c.LearnSecrets(text)
	}
}
