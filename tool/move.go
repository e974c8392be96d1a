package tool

import (
	"context"
	"fmt"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

type moveInput struct {
	From      string `json:"from" jsonschema:"file or directory to move" croft:"path"`
	To        string `json:"to" jsonschema:"its new path; missing parent directories are created" croft:"path"`
	Overwrite bool   `json:"overwrite,omitempty" jsonschema:"replace an existing file"`
}

func moveTool() *Tool {
	return New(Spec{
		Name: "move", Family: Files, Needs: []workspace.Capability{driver.CapFS}, Destructive: true,
		Description: "Move or rename a file or directory within the workspace.",
	}, movePath)
}

func movePath(ctx context.Context, c *Call, in moveInput) (Message, error) {
	for name, v := range map[string]string{"from": in.From, "to": in.To} {
		if v == "" {
			return Message{}, Errorf(fault.InvalidArgument, "%s is required", name)
		}
	}
	end, err := c.LockFiles(ctx, in.From, in.To)
	if err != nil {
		return Message{}, err
	}
	defer end()
	c.KeepBefore(ctx, in.From, in.To)
	err = c.Workspace.Rename(ctx, in.From, in.To, &driver.RenameOptions{CreateOnly: !in.Overwrite, Parents: true})
	switch fault.Of(err) {
	case "":
	case fault.AlreadyExists:
		return Message{}, Errorf(fault.AlreadyExists, "refusing to move %s: there is something at %s; set overwrite=true to replace it", in.From, in.To)
	default:
		return Message{}, PathError("move", in.From, err)
	}
	c.trackMove(ctx, in.From, in.To)
	return Message{fmt.Sprintf("moved %s to %s", in.From, in.To)}, nil
}

// trackMove moves what was read of a file to its new path.
func (c *Call) trackMove(ctx context.Context, from, to string) {
	info, err := c.Workspace.Stat(ctx, to, nil)
	if err != nil {
		return
	}
	c.moveSeen(c.relPath(from), info.Path)
}
