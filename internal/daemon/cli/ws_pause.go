package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/client"
)

func (a *command) wsPauseCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "pause NAME",
		Short: "Freeze the processes of a workspace; they use no CPU and keep their memory",
		Args:  cobra.ExactArgs(1),
		RunE: run(func(ctx context.Context, args []string) error {
			return a.withClient(ctx, func(c *client.Client) error {
				if err := c.Pause(ctx, args[0]); err != nil {
					return err
				}
				return a.printJSONOnly(map[string]string{"paused": args[0]})
			})
		}),
	}
}

func (a *command) wsResumeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "resume NAME",
		Short: "Resume a paused workspace",
		Args:  cobra.ExactArgs(1),
		RunE: run(func(ctx context.Context, args []string) error {
			return a.withClient(ctx, func(c *client.Client) error {
				if err := c.Resume(ctx, args[0]); err != nil {
					return err
				}
				return a.printJSONOnly(map[string]string{"resumed": args[0]})
			})
		}),
	}
}
