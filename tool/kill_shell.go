package tool

import (
	"context"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

type killShellInput struct {
	ShellID string `json:"shell_id" jsonschema:"id of a background command" croft:"name"`
}

func killShellTool() *Tool {
	return New(Spec{
		Name: "KillShell", Family: Shell, Needs: []workspace.Capability{driver.CapShell}, Destructive: true,
		Description: "Kill a background command with all its processes, and remove its session.",
	}, killShell)
}

func killShell(ctx context.Context, c *Call, in killShellInput) (Message, error) {
	if in.ShellID == "" {
		return Message{}, Errorf(fault.InvalidArgument, "shell_id is required")
	}
	s, _, err := c.attachShell(ctx, in.ShellID)
	if err != nil {
		return Message{}, err
	}
	if err := s.Close(ctx); err != nil {
		return Message{}, err
	}
	return Message{"killed: " + in.ShellID + "\n"}, nil
}
