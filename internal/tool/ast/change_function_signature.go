package ast

import (
	"context"

	"github.com/croft-run/croft/tool"
)

type signatureInput struct {
	FilePath     string `json:"file_path" jsonschema:"path of the file" croft:"path"`
	FunctionName string `json:"function_name" jsonschema:"F, or (*T).M and (T).M for a method in Go, or Class.method"`
	NewSignature string `json:"new_signature" jsonschema:"everything before the body: func (s *S) Run(ctx context.Context) error"`
}

func changeSignatureTool(e *Editor) *tool.Tool {
	return tool.New(toolSpec("change_function_signature", "Replace the signature of a function or method and keep its body. Callers are not changed."), e.editSignature)
}

func (e *Editor) editSignature(ctx context.Context, c *tool.Call, in signatureInput) (editOutput, error) {
	if err := requireArguments(argument{"function_name", in.FunctionName}, argument{"new_signature", in.NewSignature}); err != nil {
		return editOutput{}, err
	}
	return e.editFile(ctx, c, in.FilePath, func(src []byte) (Change, error) {
		return e.Signature(ctx, in.FilePath, src, in.FunctionName, in.NewSignature)
	})
}
