package wscmd

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/workspace"
)

func killCommand(a *command) *cobra.Command {
	var signal string
	var grace time.Duration
	cmd := &cobra.Command{
		Use:   "kill NAME SESSION",
		Short: "Kill a session with all its processes, or send it a signal",
		Args:  cobra.ExactArgs(2),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			return a.WithAttached(ctx, args[0], func(_ console.Workspaces, ws *workspace.Workspace) error {
				session, err := ws.Attach(ctx, args[1])
				if err != nil {
					return err
				}
				if signal != "" {
					err = session.Signal(ctx, signalName(signal))
				} else {
					err = session.Kill(ctx, grace)
				}
				if err != nil {
					return err
				}
				return a.PrintJSONOnly(map[string]string{"session": args[1]})
			})
		}),
	}
	cmd.Flags().StringVar(&signal, "signal", "", "only send this signal, such as INT, to the foreground process group")
	cmd.Flags().DurationVar(&grace, "grace", 0, "time between SIGTERM and SIGKILL; 0 is SIGKILL at once")
	return cmd
}

// signalName returns the full name of a signal: SIGINT for int.
func signalName(s string) string {
	s = strings.ToUpper(s)
	if !strings.HasPrefix(s, "SIG") {
		s = "SIG" + s
	}
	return s
}
