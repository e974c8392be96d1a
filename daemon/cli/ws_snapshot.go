package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

func (a *command) wsSnapshotCommand() *cobra.Command {
	var labels []string
	var seal, processes bool
	opts := &driver.SnapshotOptions{}
	cmd := &cobra.Command{
		Use:   "snapshot NAME [SNAPSHOT]",
		Short: "Remember the files of a workspace as they are, and print the id of the snapshot",
		Long: `Remember the files of a workspace as they are, and print the id of the snapshot.
SNAPSHOT names it. A snapshot outlives its workspace. If processes ran that could not
be frozen while it was taken, that is said on standard error, and so are files that vanished meanwhile or
can't be read; --complete makes those an error.`,
		Args: cobra.RangeArgs(1, 2),
		RunE: run(func(ctx context.Context, args []string) error {
			if len(args) == 2 {
				opts.Name = args[1]
			}
			var err error
			if opts.Labels, err = parseLabels(labels); err != nil {
				return err
			}
			if seal && processes {
				return usagef("--seal is of files alone, since nothing may run, and --processes of what runs, too")
			}
			return a.wsSnapshot(ctx, args[0], opts, seal, processes)
		}),
	}
	f := cmd.Flags()
	f.StringArrayVar(&labels, "label", nil, "label K=V; may be given several times")
	f.StringArrayVar(&opts.Ignore, "ignore", nil, "leave out what this pattern, in the manner of .gitignore, matches")
	f.BoolVar(&opts.Complete, "complete", false, "fail if a file vanishes meanwhile or can't be read")
	f.BoolVar(&seal, "seal", false, "make it a layer from which any number of workspaces start at once; nothing may run")
	f.BoolVar(&processes, "processes", false, "remember processes and their memory, too, where the provider can")
	return cmd
}

func (a *command) wsSnapshot(ctx context.Context, name string, opts *driver.SnapshotOptions, seal, processes bool) error {
	return a.withAttached(ctx, name, func(c *client.Client, ws *workspace.Workspace) error {
		take := ws.Snapshot
		switch {
		case seal:
			take = ws.Seal
		case processes:
			take = ws.Checkpoint
		}
		stop := a.showProgress(ctx, c, ws.ID(), "taking a snapshot")
		info, err := take(ctx, opts)
		stop()
		if err != nil {
			return err
		}
		if !info.Frozen {
			a.note("the workspace was not frozen: what changed meanwhile may be in the snapshot in part")
		}
		if info.Skipped > 0 {
			a.note("left out: %d pipes, sockets and devices", info.Skipped)
		}
		a.noteMissing(info)
		return a.printAnswer(info, func(w io.Writer) error {
			_, err := fmt.Fprintln(w, info.ID)
			return err
		})
	})
}

// noteMissing names the files that are not in a snapshot, though they were to be.
func (a *command) noteMissing(info driver.SnapshotInfo) {
	for _, s := range info.Missing {
		a.note("missing: %s: %s", printable(s.Path), s.Reason)
	}
	if more := info.MissingTotal - int64(len(info.Missing)); more > 0 {
		a.note("missing: %d more", more)
	}
}

func (a *command) wsSnapshotsCommand() *cobra.Command {
	var opts driver.ListSnapshotsOptions
	var remove string
	cmd := &cobra.Command{
		Use:   "snapshots NAME",
		Short: "List the snapshots of a workspace, the newest first",
		Args:  cobra.ExactArgs(1),
		RunE: run(func(ctx context.Context, args []string) error {
			if opts.Limit < 0 {
				return usagef("--limit %d: it is a number of snapshots; 0 is all", opts.Limit)
			}
			return a.withWorkspace(ctx, args[0], func(ws *workspace.Workspace) error {
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
	f.BoolVar(&opts.CrossSession, "all", false, "those of other workspaces and sessions, too")
	f.IntVar(&opts.Limit, "limit", 0, "the newest so many; 0 is all")
	f.StringVar(&remove, "delete", "", "forget this snapshot instead")
	return cmd
}

func (a *command) printSnapshots(ctx context.Context, ws *workspace.Workspace, opts *driver.ListSnapshotsOptions) error {
	list, err := ws.Snapshots(ctx, opts)
	if err != nil {
		return err
	}
	return a.printAnswer(list, func(w io.Writer) error { return writeTable(w, snapshotRows(list)) })
}

func snapshotRows(list []driver.SnapshotInfo) [][]string {
	rows := [][]string{{"ID", "NAME", "WORKSPACE", "CREATED", "FILES", "BYTES", "FROZEN", "LABELS"}}
	for _, s := range list {
		rows = append(rows, []string{s.ID, orDash(printable(s.Name)), s.Workspace, timeText(s.Created),
			strconv.FormatInt(s.Files, 10), strconv.FormatInt(s.Bytes, 10), strconv.FormatBool(s.Frozen), orDash(labelText(s.Labels))})
	}
	return rows
}

func (a *command) wsRestoreCommand() *cobra.Command {
	var inPlace bool
	var opts client.ForkOptions
	cmd := &cobra.Command{
		Use:   "restore NAME SNAPSHOT [NEW]",
		Short: "Open a new workspace from a snapshot, or return to it in place",
		Long: `Open a new workspace, called NEW, from a snapshot of the workspace NAME and print its id;
NAME itself stays as it is. With --in-place NAME returns to the snapshot instead: what it held
before becomes a snapshot, whose id is printed.`,
		Args: cobra.RangeArgs(2, 3),
		RunE: run(func(ctx context.Context, args []string) error {
			if inPlace {
				if len(args) == 3 {
					return usagef("--in-place makes no new workspace to be called %s", args[2])
				}
				return a.wsRollback(ctx, args[0], args[1], opts.CrossSession)
			}
			opts.Snapshot = args[1]
			if len(args) == 3 {
				opts.Name = args[2]
			}
			return a.wsFork(ctx, args[0], opts)
		}),
	}
	cmd.Flags().BoolVar(&inPlace, "in-place", false, "return to the snapshot in this very workspace")
	cmd.Flags().BoolVar(&opts.CrossSession, "cross-session", false, "a snapshot that another session took, too")
	return cmd
}

func (a *command) wsRollback(ctx context.Context, name, id string, crossSession bool) error {
	return a.withAttached(ctx, name, func(c *client.Client, ws *workspace.Workspace) error {
		stop := a.showProgress(ctx, c, ws.ID(), "going back")
		before, err := ws.Rollback(ctx, id, &driver.SnapshotAccess{CrossSession: crossSession})
		stop()
		if err != nil {
			return err
		}
		a.note("what was there is snapshot %s", before.ID)
		a.noteMissing(before)
		return a.printAnswer(before, func(w io.Writer) error {
			_, err := fmt.Fprintln(w, before.ID)
			return err
		})
	})
}

func (a *command) wsForkCommand() *cobra.Command {
	var opts client.ForkOptions
	var labels []string
	cmd := &cobra.Command{
		Use:   "fork NAME [NEW]",
		Short: "Open new workspaces that begin as this one is now, and print their ids",
		Args:  cobra.RangeArgs(1, 2),
		RunE: run(func(ctx context.Context, args []string) error {
			if len(args) == 2 {
				opts.Name = args[1]
			}
			var err error
			if opts.Labels, err = parseLabels(labels); err != nil {
				return err
			}
			return a.wsFork(ctx, args[0], opts)
		}),
	}
	f := cmd.Flags()
	f.IntVarP(&opts.Count, "count", "n", 0, "how many, called NEW-1 and so on; 0 is one")
	f.StringVar(&opts.Snapshot, "snapshot", "", "begin as this snapshot instead")
	f.BoolVar(&opts.CrossSession, "cross-session", false, "a snapshot that another session took, too")
	f.StringArrayVar(&labels, "label", nil, "label K=V of the new ones; may be given several times")
	return cmd
}

func (a *command) wsFork(ctx context.Context, name string, opts client.ForkOptions) error {
	return a.withClient(ctx, func(c *client.Client) error {
		stop := a.showProgress(ctx, c, name, "forking")
		res, err := c.Fork(ctx, name, opts)
		stop()
		if err != nil {
			return err
		}
		return a.printAnswer(res, func(w io.Writer) error {
			for _, ws := range res.Workspaces {
				if _, err := fmt.Fprintln(w, ws.ID); err != nil {
					return err
				}
			}
			return nil
		})
	})
}
