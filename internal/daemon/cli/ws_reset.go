package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/client"
)

func (a *command) wsResetCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "reset NAME",
		Short: "Let a failed workspace be opened again",
		Args:  cobra.ExactArgs(1),
		RunE: run(func(ctx context.Context, args []string) error {
			return a.withClient(ctx, func(c *client.Client) error {
				ws, err := c.Reset(ctx, args[0])
				if err != nil {
					return err
				}
				a.note("%s will be opened again at its next use", args[0])
				if a.json {
					return a.printAnswer(ws, nil)
				}
				return nil
			})
		}),
	}
}
