package wscmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

func delCommand(a *command) *cobra.Command {
	var opts driver.RemoveOptions
	cmd := &cobra.Command{
		Use:   "del NAME PATH",
		Short: "Remove a file, a symlink or a directory from a workspace (ws rm removes the workspace)",
		Args:  cobra.ExactArgs(2),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			return a.WithWorkspace(ctx, args[0], func(ws *workspace.Workspace) error {
				err := ws.Remove(ctx, args[1], &opts)
				if fault.Of(err) == fault.AlreadyExists && !opts.Recursive { // the directory is not empty
					return fmt.Errorf("%w; remove a directory with its content with -r", err)
				}
				if err != nil {
					return err
				}
				return a.PrintJSONOnly(map[string]string{"removed": args[1]})
			})
		}),
	}
	cmd.Flags().BoolVarP(&opts.Recursive, "recursive", "r", false, "remove a directory with its content")
	return cmd
}
