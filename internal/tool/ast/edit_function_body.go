package ast

import (
	"context"

	"github.com/croft-run/croft/tool"
)

type bodyInput struct {
	FilePath     string `json:"file_path" jsonschema:"path of the file" croft:"path"`
	FunctionName string `json:"function_name" jsonschema:"F, or (*T).M and (T).M for a method in Go, or Class.method"`
	NewBody      string `json:"new_body" jsonschema:"statements, without the surrounding braces; empty is an empty body"`
}

func editFunctionBodyTool(e *Editor) *tool.Tool {
	return tool.New(toolSpec("edit_function_body", "Replace the body of a function or method, given by name."), e.editBody)
}

func (e *Editor) editBody(ctx context.Context, c *tool.Call, in bodyInput) (editOutput, error) {
	if err := requireArguments(argument{"function_name", in.FunctionName}); err != nil {
		return editOutput{}, err
	}
	return e.editFile(ctx, c, in.FilePath, func(src []byte) (Change, error) {
		return e.FunctionBody(ctx, in.FilePath, src, in.FunctionName, in.NewBody)
	})
}
