package tool

import (
	"context"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

type multiEditInput struct {
	FilePath string       `json:"file_path" jsonschema:"path of the file, relative to the workspace or absolute within it" croft:"path"`
	Edits    []singleEdit `json:"edits" jsonschema:"replacements, applied in order"`
}

type singleEdit struct {
	OldString  string `json:"old_string" jsonschema:"text to be replaced; must occur exactly once unless replace_all"`
	NewString  string `json:"new_string" jsonschema:"text to put in its place"`
	ReplaceAll bool   `json:"replace_all,omitempty" jsonschema:"replace every occurrence"`
}

func multiEditTool() *Tool {
	return New(Spec{
		Name: "MultiEdit", Family: Files, Needs: []workspace.Capability{driver.CapFS}, Destructive: true,
		Description: "Replace several texts in one file, all or none. Otherwise like Edit.",
	}, multiEdit)
}

func multiEdit(ctx context.Context, c *Call, in multiEditInput) (editOutput, error) {
	switch {
	case in.FilePath == "":
		return editOutput{}, Errorf(fault.InvalidArgument, "file_path is required")
	case len(in.Edits) == 0:
		return editOutput{}, Errorf(fault.InvalidArgument, "edits must be non-empty")
	}
	var edits []workspace.Edit
	for _, e := range in.Edits {
		edits = append(edits, workspace.Edit{Old: e.OldString, New: e.NewString, All: e.ReplaceAll})
	}
	return c.applyEdits(ctx, in.FilePath, edits, "")
}
