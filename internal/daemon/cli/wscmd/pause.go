package wscmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/internal/daemon/cli/console"
)

func pauseCommand(a *command) *cobra.Command {
	return moveCommand(a, "pause NAME", "Freeze the processes of a workspace; they use no CPU and keep their memory", "paused", (*client.Client).Pause)
}

func resumeCommand(a *command) *cobra.Command {
	return moveCommand(a, "resume NAME", "Resume a paused workspace", "resumed", (*client.Client).Resume)
}

// moveCommand is a command that moves a workspace to another state.
func moveCommand(a *command, use, short, done string, move func(*client.Client, context.Context, string) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: cobra.ExactArgs(1),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			return a.WithClient(ctx, func(c *client.Client) error {
				if err := move(c, ctx, args[0]); err != nil {
					return err
				}
				return a.PrintJSONOnly(map[string]string{done: args[0]})
			})
		}),
	}
}
