package ast

import (
	"context"

	"github.com/croft-run/croft/tool"
)

type insertInput struct {
	FilePath     string `json:"file_path" jsonschema:"path of the file" croft:"path"`
	ReceiverType string `json:"receiver_type" jsonschema:"the type or class that has the method"`
	MethodName   string `json:"method_name" jsonschema:"the method after which to insert"`
	NewMethod    string `json:"new_method" jsonschema:"the whole new method, with its comment"`
}

func insertAfterMethodTool(e *Editor) *tool.Tool {
	return tool.New(toolSpec("insert_after_method", "Insert a method after another one of the same type or class."), e.insertMethod)
}

func (e *Editor) insertMethod(ctx context.Context, c *tool.Call, in insertInput) (editOutput, error) {
	err := requireArguments(argument{"receiver_type", in.ReceiverType}, argument{"method_name", in.MethodName}, argument{"new_method", in.NewMethod})
	if err != nil {
		return editOutput{}, err
	}
	return e.editFile(ctx, c, in.FilePath, func(src []byte) (Change, error) {
		return e.InsertAfter(ctx, in.FilePath, src, in.ReceiverType, in.MethodName, in.NewMethod)
	})
}
