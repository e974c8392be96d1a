package wscmd

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/internal/daemon/cli/changecmd"
	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/internal/history"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

func snapshotCommand(a *command) *cobra.Command {
	var labels []string
	var seal, processes bool
	opts := &driver.SnapshotOptions{}
	cmd := &cobra.Command{
		Use:   "snapshot NAME [SNAPSHOT]",
		Short: "Take a snapshot of the files of a workspace, and print its id",
		Long: `Take a snapshot of the files of a workspace, and print its id. SNAPSHOT is its name. A snapshot
outlives its workspace. A note on standard error says if running processes could not be frozen, and which files
vanished meanwhile or could not be read; with --complete such files are an error.`,
		Args: cobra.RangeArgs(1, 2),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			if len(args) == 2 {
				opts.Name = args[1]
			}
			var err error
			if opts.Labels, err = parseLabels(labels); err != nil {
				return err
			}
			if seal && processes {
				return console.Usagef("--seal and --processes exclude each other: give one")
			}
			return a.snapshot(ctx, args[0], opts, seal, processes)
		}),
	}
	f := cmd.Flags()
	f.StringArrayVar(&labels, "label", nil, "label K=V; may be given several times")
	f.StringArrayVar(&opts.Ignore, "ignore", nil, "leave out files that match this pattern of .gitignore syntax")
	f.BoolVar(&opts.Complete, "complete", false, "fail if a file vanishes meanwhile or can't be read")
	f.BoolVar(&seal, "seal", false, "make the files a layer from which workspaces start at once; no process may run")
	f.BoolVar(&processes, "processes", false, "include processes and their memory, if the provider can")
	return cmd
}

func (a *command) snapshot(ctx context.Context, name string, opts *driver.SnapshotOptions, seal, processes bool) error {
	return a.WithAttached(ctx, name, func(c console.Workspaces, ws *workspace.Workspace) error {
		take := ws.Snapshot
		switch {
		case seal:
			take = ws.Seal
		case processes:
			take = ws.Checkpoint
		}
		stop := a.ShowProgress(ctx, c, ws.ID(), "taking a snapshot")
		info, err := take(ctx, opts)
		stop()
		if err != nil {
			return err
		}
		if !info.Frozen {
			a.Note("the workspace was not frozen: the snapshot may contain parts of concurrent changes; if programs write to it, end them and take another one")
		}
		a.noteMissing(info)
		return a.PrintAnswer(info, func(w io.Writer) error {
			_, err := fmt.Fprintln(w, info.ID)
			return err
		})
	})
}

// noteMissing lists the files that could not be read into a snapshot, special files, and
// credential files that it contains.
func (a *command) noteMissing(info driver.SnapshotInfo) {
	if info.Skipped > 0 {
		changecmd.NoteScope(a.Console, []snapshot.LeftOut{{Reason: snapshot.LeftOutSpecial, Total: int(info.Skipped), Paths: info.SkippedPaths}})
	}
	for _, name := range info.Credentials {
		a.Note("contains a credential file: %s", console.Printable(name))
	}
	for _, s := range info.Missing {
		a.Note("missing: %s: %s", console.Printable(s.Path), s.Reason)
	}
	if more := info.MissingTotal - int64(len(info.Missing)); more > 0 {
		a.Note("missing: %d more", more)
	}
}

func snapshotsCommand(a *command) *cobra.Command {
	var opts driver.ListSnapshotsOptions
	var remove string
	cmd := &cobra.Command{
		Use:   "snapshots NAME",
		Short: "List the snapshots of a workspace, newest first",
		Args:  cobra.ExactArgs(1),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			if opts.Limit < 0 {
				return console.Usagef("--limit %d: give a number of snapshots, at least 0; 0 is all", opts.Limit)
			}
			return a.WithWorkspace(ctx, args[0], func(ws *workspace.Workspace) error {
				if remove != "" {
					if err := ws.DeleteSnapshot(ctx, remove, &opts.SnapshotAccess); err != nil {
						return err
					}
					return a.printRemoved(remove)
				}
				return a.printSnapshots(ctx, ws, &opts)
			})
		}),
	}
	f := cmd.Flags()
	f.BoolVar(&opts.CrossSession, "all", false, "all snapshots, those of other workspaces and sessions included")
	f.IntVar(&opts.Limit, "limit", 0, "only the newest N; 0 is all")
	f.StringVar(&remove, "delete", "", "delete this snapshot instead")
	return cmd
}

func (a *command) printSnapshots(ctx context.Context, ws *workspace.Workspace, opts *driver.ListSnapshotsOptions) error {
	list, err := ws.Snapshots(ctx, opts)
	if err != nil {
		return err
	}
	return a.PrintAnswer(list, func(w io.Writer) error { return writeSnapshots(w, list) })
}

func writeSnapshots(w io.Writer, list []driver.SnapshotInfo) error {
	rows := [][]string{{"ID", "NAME", "WORKSPACE", "CREATED", "FILES", "BYTES", "FROZEN", "LABELS"}}
	for _, s := range list {
		rows = append(rows, []string{s.ID, console.OrDash(console.Printable(s.Name)), s.Workspace, console.TimeText(s.Created),
			strconv.FormatInt(s.Files, 10), strconv.FormatInt(s.Bytes, 10), strconv.FormatBool(s.Frozen),
			console.OrDash(console.LabelText(s.Labels))})
	}
	return console.WriteTable(w, rows, "FROZEN", "FILES", "BYTES", "WORKSPACE", "ID", "LABELS")
}

func restoreCommand(a *command) *cobra.Command {
	var inPlace bool
	var opts client.ForkOptions
	cmd := &cobra.Command{
		Use:   "restore NAME SNAPSHOT [NEW]",
		Short: "Open a new workspace from a snapshot, or return to it in place",
		Long: `Open a new workspace NEW from a snapshot of the workspace NAME, and print its id. NAME does not
change. With --in-place, NAME itself returns to the snapshot; its previous state becomes a
snapshot, whose id is printed.`,
		Args: cobra.RangeArgs(2, 3),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			if inPlace {
				if len(args) == 3 {
					return console.Usagef("--in-place makes no new workspace: leave out %s", args[2])
				}
				return a.rollback(ctx, args[0], args[1], opts.CrossSession)
			}
			opts.Snapshot = args[1]
			if len(args) == 3 {
				opts.Name = args[2]
			}
			return a.fork(ctx, args[0], opts)
		}),
	}
	cmd.Flags().BoolVar(&inPlace, "in-place", false, "return to the snapshot in the workspace itself")
	cmd.Flags().BoolVar(&opts.CrossSession, "cross-session", false, "allow a snapshot of another session")
	return cmd
}

func (a *command) rollback(ctx context.Context, name, id string, crossSession bool) error {
	return a.WithAttached(ctx, name, func(c console.Workspaces, ws *workspace.Workspace) error {
		stop := a.ShowProgress(ctx, c, ws.ID(), "going back")
		before, err := ws.Rollback(ctx, id, &driver.SnapshotAccess{CrossSession: crossSession})
		stop()
		if err != nil {
			return err
		}
		a.Note("the previous state is snapshot %s", before.ID)
		a.noteMissing(before)
		return a.PrintAnswer(before, func(w io.Writer) error {
			_, err := fmt.Fprintln(w, before.ID)
			return err
		})
	})
}

func forkCommand(a *command) *cobra.Command {
	var opts client.ForkOptions
	var labels []string
	var cmd *cobra.Command
	cmd = &cobra.Command{
		Use:   "fork NAME [NEW]",
		Short: "Open new workspaces from the present state of this one, and print their ids",
		Args:  cobra.RangeArgs(1, 2),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			if len(args) == 2 {
				opts.Name = args[1]
			}
			if cmd.Flags().Changed("count") && opts.Count < 1 {
				return console.Usagef("--count %d: give a number of workspaces, at least 1", opts.Count)
			}
			var err error
			if opts.Labels, err = parseLabels(labels); err != nil {
				return err
			}
			return a.fork(ctx, args[0], opts)
		}),
	}
	f := cmd.Flags()
	f.IntVarP(&opts.Count, "count", "n", 0, "number of workspaces, named NEW-1 and so on (default one, named NEW)")
	f.StringVar(&opts.Snapshot, "snapshot", "", "start from this snapshot instead")
	f.BoolVar(&opts.CrossSession, "cross-session", false, "allow a snapshot of another session")
	f.StringArrayVar(&labels, "label", nil, "label K=V of the new workspaces; may be given several times")
	return cmd
}

func (a *command) fork(ctx context.Context, name string, opts client.ForkOptions) error {
	return a.WithWorkspaces(ctx, func(c console.Workspaces) error {
		stop := a.ShowProgress(ctx, c, name, "forking")
		res, err := c.Fork(ctx, name, opts)
		stop()
		if err != nil {
			return err
		}
		a.noteMissing(res.Snapshot)
		return a.PrintAnswer(res, func(w io.Writer) error {
			for _, ws := range res.Workspaces {
				if _, err := fmt.Fprintln(w, ws.ID); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

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
			rows = append(rows, []string{mark, s.ID, console.TimeText(s.Created), console.OrDash(console.Printable(stateText(s.SnapshotInfo))),
				console.OrDash(s.Parent)})
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
