package tool

import (
	"context"
	"fmt"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

type deleteInput struct {
	Path      string `json:"path" jsonschema:"file, symlink or directory to remove" croft:"path"`
	Recursive bool   `json:"recursive,omitempty" jsonschema:"remove a directory with its content"`
}

func deleteTool() *Tool {
	return New(Spec{
		Name: "delete", Family: Files, Needs: []workspace.Capability{driver.CapFS}, Destructive: true,
		Description: "Remove a file, a symlink, or a directory, which must be empty unless recursive.",
	}, deletePath)
}

func deletePath(ctx context.Context, c *Call, in deleteInput) (Message, error) {
	if in.Path == "" {
		return Message{}, Errorf(fault.InvalidArgument, "path is required")
	}
	end, err := c.LockFile(ctx, in.Path)
	if err != nil {
		return Message{}, err
	}
	defer end()
	c.KeepBefore(ctx, in.Path)
	if err := c.Workspace.Remove(ctx, in.Path, &driver.RemoveOptions{Recursive: in.Recursive}); err != nil {
		return Message{}, PathError("delete", in.Path, err)
	}
	c.Unread(c.relPath(in.Path))
	return Message{fmt.Sprintf("deleted %s", in.Path)}, nil
}
