package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/internal/daemon/cli/console"
)

func (a *command) wsPauseCommand() *cobra.Command {
	return a.moveCommand("pause NAME", "Freeze the processes of a workspace; they use no CPU and keep their memory", "paused", (*client.Client).Pause)
}

func (a *command) wsResumeCommand() *cobra.Command {
	return a.moveCommand("resume NAME", "Resume a paused workspace", "resumed", (*client.Client).Resume)
}

// moveCommand is a command that moves a workspace to another state.
func (a *command) moveCommand(use, short, done string, move func(*client.Client, context.Context, string) error) *cobra.Command {
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
