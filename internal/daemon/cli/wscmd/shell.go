package wscmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/internal/daemon/cli/console"
)

func shellCommand(a *command) *cobra.Command {
	var opts console.ShellOptions
	cmd := &cobra.Command{
		Use:   "shell NAME [--session ID]",
		Short: "Open a shell on a terminal in a workspace",
		Long: `Start a shell on a terminal in a workspace, or attach to a running session. Detach with ctrl-],
or with ~. at the beginning of a line: the session keeps running, and its id is printed for
--session. Several terminals may attach to one session.

The exit status is that of the shell; 125 is an error of croft itself.`,
		Args: cobra.ExactArgs(1),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			opts.Name = args[0]
			return a.WithCroftStatus(console.Shell(ctx, a.Console, opts))
		}),
	}
	f := cmd.Flags()
	f.StringVar(&opts.Session, "session", "", "attach to this session instead of starting one")
	console.RegisterEnv(f, &opts.Env)
	return cmd
}
