package wscmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/internal/daemon/cli/console"
)

func resetCommand(a *command) *cobra.Command {
	return &cobra.Command{
		Use:   "reset NAME",
		Short: "Let a failed workspace be opened again",
		Args:  cobra.ExactArgs(1),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			return a.WithClient(ctx, func(c *client.Client) error {
				ws, err := c.Reset(ctx, args[0])
				if err != nil {
					return err
				}
				a.Note("%s will be opened again at its next use", args[0])
				if a.JSON {
					return a.PrintAnswer(ws, nil)
				}
				return nil
			})
		}),
	}
}
