package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

type wsShellOptions struct {
	name    string
	session string
	env     []string
}

func (a *command) wsShellCommand() *cobra.Command {
	var opts wsShellOptions
	cmd := &cobra.Command{
		Use:   "shell NAME [--session ID]",
		Short: "Open a shell on a terminal in a workspace",
		Long: `Start a shell on a terminal in a workspace, or attach to a running session. Detach with ctrl-],
or with ~. at the beginning of a line: the session keeps running, and its id is printed for
--session. Several terminals may attach to one session.

The exit status is that of the shell; 125 is an error of croft itself.`,
		Args: cobra.ExactArgs(1),
		RunE: run(func(ctx context.Context, args []string) error {
			opts.name = args[0]
			return a.withCroftStatus(a.wsShell(ctx, opts))
		}),
	}
	f := cmd.Flags()
	f.StringVar(&opts.session, "session", "", "attach to this session instead of starting one")
	registerEnv(f, &opts.env)
	return cmd
}

// replayBytes is how much of the earlier output is shown at attach.
const replayBytes = 16 << 10

func (a *command) wsShell(ctx context.Context, opts wsShellOptions) error {
	env, err := parseEnv(opts.env)
	if err != nil {
		return err
	}
	return a.withAttached(ctx, opts.name, func(c workspaces, ws *workspace.Workspace) error {
		a.noteUnisolated(ws)
		id, from := opts.session, client.TerminalOptions{Tail: replayBytes}
		if id == "" {
			if id, err = a.startShell(ctx, ws, env); err != nil {
				return err
			}
			from = client.TerminalOptions{}
		}
		t, err := openTerminal(ctx, c, ws.ID(), id, from)
		if err != nil {
			return err
		}
		defer t.Close()
		res, err := a.attachTerminal(ctx, t, !a.endsWithUs(ws), earlierModes(ctx, ws, id, from.Tail))
		if errors.Is(err, errDetached) {
			a.note("\r\ndetached from session %s, which keeps running; attach again with: croft ws shell %s --session %s", id, opts.name, id)
			return nil
		}
		if err != nil {
			return err
		}
		return a.commandOutcome(*res)
	})
}

// startShell starts bash, or sh without bash.
func (a *command) startShell(ctx context.Context, ws *workspace.Workspace, env map[string]string) (string, error) {
	size := a.terminalSize()
	session, err := ws.Start(ctx, driver.Command{
		Script: `if command -v bash > /dev/null; then exec bash -i; else exec sh -i; fi`,
		Env:    env, TTY: &size, Interactive: true, Detached: true, Labels: map[string]string{"croft-shell": "true"},
	})
	if err != nil {
		return "", err
	}
	return session.ID(), nil
}
