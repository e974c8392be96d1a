package wscmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

func mkdirCommand(a *command) *cobra.Command {
	return &cobra.Command{
		Use:   "mkdir NAME PATH",
		Short: "Make a directory in a workspace, with its parents; it may exist already",
		Args:  cobra.ExactArgs(2),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			return a.WithWorkspace(ctx, args[0], func(ws *workspace.Workspace) error {
				if err := ws.Mkdir(ctx, args[1], &driver.MkdirOptions{Parents: true}); err != nil {
					return err
				}
				return a.PrintJSONOnly(map[string]string{"made": args[1]})
			})
		}),
	}
}
