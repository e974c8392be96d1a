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
	actionRename    = "rename"
)

type editCodeInput struct {
	FilePath string `json:"file_path" jsonschema:"path of the file" croft:"path"`
	Action   string `json:"action" jsonschema:"rename is within the file" enum:"body|signature|insert_after|rename"`
	Name     string `json:"name" jsonschema:"function or method: F, (*T).M and (T).M in Go, or Class.method; with rename any name"`
	Code     string `json:"code" jsonschema:"statements without the braces, everything before the body, a whole new method with its comment, or the new name"`
}

// editCodeTool is edit_function_body, change_function_signature, insert_after_method and
// rename_in_file in one, for clients to which each tool costs.
func editCodeTool(e *Editor) *tool.Tool {
	return tool.New(toolSpec("edit_code", "Edit a function or method by its name: replace its body or its signature, insert a method after it, or rename it in the file."),
		func(ctx context.Context, c *tool.Call, in editCodeInput) (editOutput, error) {
			if err := requireArguments(argument{"name", in.Name}); err != nil {
				return editOutput{}, err
			}
			if in.Action != actionBody {
				if err := requireArguments(argument{"code", in.Code}); err != nil {
					return editOutput{}, err
				}
			}
			switch in.Action {
			case actionBody:
				return e.editBody(ctx, c, bodyInput{in.FilePath, in.Name, in.Code})
			case actionSignature:
				return e.editSignature(ctx, c, signatureInput{in.FilePath, in.Name, in.Code})
			case actionInsert:
				recv, method := splitMethod(in.Name)
				if recv == "" {
					return editOutput{}, tool.Errorf(fault.InvalidArgument, "name must be a method, such as (*T).M or Class.method, to insert another one after it")
				}
				return e.insertMethod(ctx, c, insertInput{in.FilePath, recv, method, in.Code})
			case actionRename:
				return e.renameInFile(ctx, c, renameInFileInput{FilePath: in.FilePath, OldName: in.Name, NewName: in.Code})
			}
			return editOutput{}, tool.Errorf(fault.InvalidArgument, "action must be body, signature, insert_after or rename")
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
