package console

import (
	"context"
	"errors"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// NoteUnisolated says that nothing isolates the commands of a workspace, if so.
func NoteUnisolated(a *Console, ws *workspace.Workspace) {
	if ws.Traits().Isolation.Rank() == 0 && ws.Capabilities().Has(driver.CapShell) {
		hint := "; --provider sandbox does"
		if a.InWork { // it has no such flag
			hint = ""
		}
		a.Note("croft: nothing of Croft isolates commands in this workspace from the machine that they run on%s", hint)
	}
}

// ShellOptions say where Shell runs.
type ShellOptions struct {
	Name    string
	Session string
	Env     []string
}

// ReplayBytes is how much of the earlier output is shown at attach.
const ReplayBytes = 16 << 10

// Shell opens a shell in a workspace, or attaches to a session.
func Shell(ctx context.Context, a *Console, opts ShellOptions) error {
	env, err := ParseEnv(opts.Env)
	if err != nil {
		return err
	}
	return a.WithAttached(ctx, opts.Name, func(c Workspaces, ws *workspace.Workspace) error {
		NoteUnisolated(a, ws)
		id, from := opts.Session, client.TerminalOptions{Tail: ReplayBytes}
		if id == "" {
			if id, err = startShell(ctx, a, ws, env); err != nil {
				return err
			}
			from = client.TerminalOptions{}
		}
		t, err := OpenTerminal(ctx, c, ws.ID(), id, from)
		if err != nil {
			return err
		}
		defer t.Close()
		res, err := a.AttachTerminal(ctx, t, !a.EndsWithUs(ws), EarlierModes(ctx, ws, id, from.Tail))
		if errors.Is(err, ErrDetached) {
			a.Note("\r\ndetached from session %s, which keeps running; attach again with: croft ws shell %s --session %s", id, opts.Name, id)
			return nil
		}
		if err != nil {
			return err
		}
		return a.CommandOutcome(*res)
	})
}

// startShell starts bash, or sh without bash.
func startShell(ctx context.Context, a *Console, ws *workspace.Workspace, env map[string]string) (string, error) {
	size := a.TerminalSize()
	session, err := ws.Start(ctx, driver.Command{
		Script: `if command -v bash > /dev/null; then exec bash -i; else exec sh -i; fi`,
		Env:    env, TTY: &size, Interactive: true, Detached: true, Labels: map[string]string{"croft-shell": "true"},
	})
	if err != nil {
		return "", err
	}
	return session.ID(), nil
}
