package wscmd

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/workspace"
)

func psCommand(a *command) *cobra.Command {
	return &cobra.Command{
		Use:   "ps NAME",
		Short: "List the sessions of a workspace, recently ended ones included",
		Args:  cobra.ExactArgs(1),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			return a.WithAttached(ctx, args[0], func(_ console.Workspaces, ws *workspace.Workspace) error {
				list, err := ws.Sessions(ctx)
				if err != nil {
					return err
				}
				if list == nil {
					list = []workspace.SessionInfo{}
				}
				return a.PrintAnswer(list, func(w io.Writer) error { return console.WriteTable(w, psRows(list), "TTY", "STARTED", "PID") })
			})
		}),
	}
}

func psRows(list []workspace.SessionInfo) [][]string {
	rows := [][]string{{"SESSION", "PID", "STATE", "STARTED", "TTY", "COMMAND"}}
	for _, s := range list {
		command := s.Script
		if len(s.Argv) > 0 {
			command = console.ShellText(s.Argv)
		}
		const most = 60
		if len(command) > most {
			command = strings.ToValidUTF8(command[:most], "") + "..."
		}
		pid := "-"
		if s.PID > 0 {
			pid = strconv.Itoa(s.PID)
		}
		rows = append(rows, []string{s.ID, pid, sessionState(s), console.TimeText(s.Started), strconv.FormatBool(s.TTY), console.Printable(command)})
	}
	return rows
}

// sessionState is the state of a session in a few words.
func sessionState(s workspace.SessionInfo) string {
	text := endState(s)
	if s.LogDropped > 0 {
		text += fmt.Sprintf(", log lacks %s", console.CountText(s.LogDropped, "byte"))
	}
	return text
}

func endState(s workspace.SessionInfo) string {
	switch {
	case s.Running:
		return "running"
	case s.Result == nil:
		return "ended"
	case s.Result.Cause != "":
		return fmt.Sprintf("%s (exit %d)", s.Result.Cause, s.Result.ExitCode)
	}
	return fmt.Sprintf("exit %d", s.Result.ExitCode)
}
