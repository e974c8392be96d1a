package wscmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

func mvCommand(a *command) *cobra.Command {
	var opts driver.RenameOptions
	cmd := &cobra.Command{
		Use:   "mv NAME FROM TO",
		Short: "Rename a file, a directory or a symlink of a workspace",
		Long: `Rename a file, a directory or a symlink of a workspace to TO, atomically. An existing file is
replaced. TO is the new path itself, never a directory to move into.`,
		Args: cobra.ExactArgs(3),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			return a.WithWorkspace(ctx, args[0], func(ws *workspace.Workspace) error {
				if err := ws.Rename(ctx, args[1], args[2], &opts); err != nil {
					return err
				}
				return a.PrintJSONOnly(map[string]string{"from": args[1], "to": args[2]})
			})
		}),
	}
	cmd.Flags().BoolVar(&opts.CreateOnly, "create-only", false, "refuse to replace an existing file")
	cmd.Flags().BoolVar(&opts.Parents, "parents", false, "make missing directories above TO")
	return cmd
}
