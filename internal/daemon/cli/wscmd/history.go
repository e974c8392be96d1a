package wscmd

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/internal/history"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// historyAnswer is a state of a workspace as ws history --json lists it.
type historyAnswer struct {
	driver.SnapshotInfo
	Parent  string `json:"parent,omitempty"` // the state before it
	Current bool   `json:"current,omitempty"`
}

func historyCommand(a *command) *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:   "history NAME",
		Short: "List the states that a workspace can return to, newest first",
		Long: `List the states that a workspace can return to, newest first, with the step that led to each and
its parent state. The current state is marked with *.`,
		Args: cobra.ExactArgs(1),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			if limit < 0 {
				return console.Usagef("--limit %d: give a number of states, at least 0; 0 is all", limit)
			}
			return a.WithWorkspace(ctx, args[0], func(ws *workspace.Workspace) error { return a.history(ctx, ws, limit) })
		}),
	}
	cmd.Flags().IntVar(&limit, "limit", 20, "only the newest N; 0 is all")
	return cmd
}

func (a *command) history(ctx context.Context, ws *workspace.Workspace, limit int) error {
	r, err := history.Load(ctx, ws)
	if err != nil {
		return err
	}
	list := []historyAnswer{}
	for _, s := range slices.Backward(r.States) {
		if limit > 0 && len(list) == limit {
			break
		}
		one := historyAnswer{SnapshotInfo: s.SnapshotInfo, Current: s == r.Current}
		if s.Parent != nil {
			one.Parent = s.Parent.ID
		}
		list = append(list, one)
	}
	return a.PrintAnswer(list, func(w io.Writer) error {
		rows := [][]string{{"", "ID", "CREATED", "WHAT", "FROM"}}
		for _, s := range list {
			mark := ""
			if s.Current {
				mark = "*"
			}
			rows = append(rows, []string{mark, s.ID, console.TimeText(s.Created), console.OrDash(console.Printable(stateText(s.SnapshotInfo))), console.OrDash(s.Parent)})
		}
		return console.WriteTable(w, rows, "FROM", "CREATED")
	})
}

// stateText describes a state: the step that led to it, its name, or its cause.
func stateText(s driver.SnapshotInfo) string {
	for _, text := range []string{s.Labels[history.StepLabel], s.Name, s.Labels[snapshot.CauseLabel]} {
		if text != "" {
			return text
		}
	}
	return ""
}

func undoCommand(a *command) *cobra.Command {
	var redo bool
	cmd := &cobra.Command{
		Use:   "undo NAME",
		Short: "Return to the newest snapshot or checkpoint before the present state; --redo reverts that",
		Args:  cobra.ExactArgs(1),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			if redo {
				return a.undoRedo(ctx, args[0], history.Redo)
			}
			return a.undoRedo(ctx, args[0], history.Undo)
		}),
	}
	cmd.Flags().BoolVar(&redo, "redo", false, "return to the state before the last undo")
	return cmd
}

func redoCommand(a *command) *cobra.Command {
	return &cobra.Command{
		Use:   "redo NAME",
		Short: "Revert the last undo, unless files changed since",
		Args:  cobra.ExactArgs(1),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			return a.undoRedo(ctx, args[0], history.Redo)
		}),
	}
}

func (a *command) undoRedo(ctx context.Context, name string, move func(context.Context, *workspace.Workspace) (history.Move, error)) error {
	return a.WithAttached(ctx, name, func(c console.Workspaces, ws *workspace.Workspace) error {
		stop := a.ShowProgress(ctx, c, ws.ID(), "going back")
		m, err := move(ctx, ws)
		stop()
		if err != nil {
			return err
		}
		a.Note("returned to snapshot %s of %s (%s); the previous state is snapshot %s", m.To.ID, console.TimeText(m.To.Created), console.OrDash(console.Printable(stateText(m.To))), m.Before.ID)
		const most = 10
		for _, name := range m.Changed[:min(len(m.Changed), most)] {
			a.Note("changed: %s", console.Printable(name))
		}
		if more := len(m.Changed) - most; more > 0 {
			a.Note("changed: %d more", more)
		}
		return a.PrintAnswer(m, func(w io.Writer) error {
			_, err := fmt.Fprintln(w, m.To.ID)
			return err
		})
	})
}
