package ast

import (
	"context"

	"github.com/croft-run/croft/tool"
)

type renameInFileInput struct {
	FilePath string `json:"file_path" jsonschema:"path of the file" croft:"path"`
	OldName  string `json:"old_name" jsonschema:"the present name"`
	NewName  string `json:"new_name" jsonschema:"the new name"`
	Line     int    `json:"line,omitempty" jsonschema:"a line where it is declared or used, if the name is ambiguous"`
}

func renameInFileTool(e *Editor) *tool.Tool {
	return tool.New(toolSpec("rename_in_file", "Rename a variable, parameter, function, field or type inside one file. Strings and comments are not changed. "+
		"Use rename_symbol for names that other files use."),
		e.renameInFile)
}

func (e *Editor) renameInFile(ctx context.Context, c *tool.Call, in renameInFileInput) (editOutput, error) {
	if err := requireArguments(argument{"old_name", in.OldName}, argument{"new_name", in.NewName}); err != nil {
		return editOutput{}, err
	}
	out, err := e.editFile(ctx, c, in.FilePath, func(src []byte) (Change, error) {
		return e.Rename(ctx, in.FilePath, src, in.OldName, in.NewName, in.Line)
	})
	if err == nil {
		out.text = renamedText(c.Tool, in.FilePath, in.OldName, in.NewName, out.Count) + out.text
	}
	return out, err
}
