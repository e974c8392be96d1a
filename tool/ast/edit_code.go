package ast

import (
	"context"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/tool"
)

// Actions of edit_code.
const (
	actionBody      = "body"
	actionSignature = "signature"
	actionInsert    = "insert_after"
)

type editCodeInput struct {
	FilePath string `json:"file_path" jsonschema:"path of the file" croft:"path"`
	Action   string `json:"action" jsonschema:"body, signature or insert_after"`
	Name     string `json:"name" jsonschema:"function or method: F, (*T).M and (T).M in Go, or Class.method"`
	Code     string `json:"code" jsonschema:"statements without the braces, everything before the body, or a whole new method with its comment"`
}

// editCodeTool is edit_function_body, change_function_signature and insert_after_method in
// one, for clients to which each tool costs.
func editCodeTool(e *Editor) *tool.Tool {
	return tool.New(toolSpec("edit_code", "Edit a function or method by its name: replace its body or its signature, or insert a method after it."),
		func(ctx context.Context, c *tool.Call, in editCodeInput) (editOutput, error) {
			if err := requireArguments(argument{"name", in.Name}); err != nil {
				return editOutput{}, err
			}
			if in.Action != actionBody {
				if err := requireArguments(argument{"code", in.Code}); err != nil {
					return editOutput{}, err
				}
			}
			var edit func(src []byte) (Change, error)
			switch in.Action {
			case actionBody:
				edit = func(src []byte) (Change, error) { return e.FunctionBody(ctx, in.FilePath, src, in.Name, in.Code) }
			case actionSignature:
				edit = func(src []byte) (Change, error) { return e.Signature(ctx, in.FilePath, src, in.Name, in.Code) }
			case actionInsert:
				recv, method := splitMethod(in.Name)
				if recv == "" {
					return editOutput{}, tool.Errorf(fault.InvalidArgument, "name must be a method, such as (*T).M or Class.method, to insert another one after it")
				}
				edit = func(src []byte) (Change, error) { return e.InsertAfter(ctx, in.FilePath, src, recv, method, in.Code) }
			default:
				return editOutput{}, tool.Errorf(fault.InvalidArgument, "action must be body, signature or insert_after")
			}
			return e.editFile(ctx, c, in.FilePath, edit)
		})
}

// splitMethod splits the name of a method into its type or class and its own name.
func splitMethod(name string) (recv, method string) {
	at := strings.LastIndex(name, ".")
	if at < 0 {
		return "", name
	}
	return strings.Trim(name[:at], "(*)"), name[at+1:]
}
