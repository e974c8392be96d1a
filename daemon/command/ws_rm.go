package command

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/provider/remote"
)

func (a *app) wsRmCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "rm NAME",
		Short: "End a workspace and remove all that belongs to it",
		Long:  "End a workspace and remove all that belongs to it. A directory that is used in place stays.",
		Args:  cobra.ExactArgs(1),
		RunE: run(func(ctx context.Context, args []string) error {
			return a.withClient(ctx, func(c *remote.Client) error {
				if err := c.Destroy(ctx, args[0]); err != nil {
					return err
				}
				a.note("removed %s", args[0])
				return a.done(map[string]string{"removed": args[0]})
			})
		}),
	}
}
