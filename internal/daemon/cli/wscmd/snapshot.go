package wscmd

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/workspace/driver"
)

func snapshotStoreCommand(a *command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "snapshot",
		Short: "Manage the snapshot store",
		Long:  "Manage the snapshot store. Snapshots outlive their workspaces. croft ws snapshot takes one.",
	}
	cmd.AddCommand(snapshotListCommand(a), snapshotPruneCommand(a), snapshotGCCommand(a), snapshotFsckCommand(a), snapshotExportCommand(a),
		snapshotImportCommand(a), snapshotRmCommand(a))
	return cmd
}

func snapshotListCommand(a *command) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List all snapshots, those of destroyed workspaces included, newest first",
		Args:    cobra.NoArgs,
		RunE: console.RunE(func(ctx context.Context, _ []string) error {
			return a.WithClient(ctx, func(c *client.Client) error {
				list, err := c.Snapshots(ctx)
				if err != nil {
					return err
				}
				return a.PrintAnswer(list, func(w io.Writer) error { return writeSnapshots(w, list) })
			})
		}),
	}
}

func snapshotPruneCommand(a *command) *cobra.Command {
	var r client.Retention
	var maxAge time.Duration
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Delete snapshots by count and age, and print their ids",
		Long: `Delete the snapshots that no rule keeps, and print their ids: --keep N keeps the newest N of each
workspace, --max-age the younger ones. With both, a snapshot stays if either rule keeps it. Templates and
the origins of existing workspaces always stay. Run croft snapshot gc to free the disk space.`,
		Example: "  croft snapshot prune --keep 20 --max-age 168h && croft snapshot gc",
		Args:    cobra.NoArgs,
		RunE: console.RunE(func(ctx context.Context, _ []string) error {
			if r.Keep < 0 || maxAge < 0 {
				return console.Usagef("--keep and --max-age must not be negative")
			}
			if r.Keep == 0 && maxAge == 0 {
				return console.Usagef("no rule: give --keep N, --max-age AGE, or both")
			}
			if maxAge > 0 {
				r.MaxAge = maxAge.String()
			}
			return a.snapshotPrune(ctx, r)
		}),
	}
	f := cmd.Flags()
	f.IntVar(&r.Keep, "keep", 0, "keep the newest N of each workspace")
	f.DurationVar(&maxAge, "max-age", 0, "keep younger snapshots, such as 72h")
	f.StringVar(&r.Workspace, "workspace", "", "workspace by name or id (if it is destroyed, by id); only its snapshots")
	return cmd
}

func (a *command) snapshotPrune(ctx context.Context, r client.Retention) error {
	return a.WithClient(ctx, func(c *client.Client) error {
		if r.Workspace != "" {
			ws, err := c.Show(ctx, r.Workspace)
			switch {
			case err == nil:
				r.Workspace = ws.ID
			case fault.Of(err) != fault.NotFound || !driver.ValidID(r.Workspace):
				return err
			}
		}
		gone, err := c.PruneSnapshots(ctx, r)
		if err != nil {
			return err
		}
		return a.PrintAnswer(gone, func(w io.Writer) error {
			for _, s := range gone {
				if _, err := fmt.Fprintln(w, s.ID); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

func snapshotGCCommand(a *command) *cobra.Command {
	return &cobra.Command{
		Use:   "gc",
		Short: "Remove unused objects from the store",
		Args:  cobra.NoArgs,
		RunE: console.RunE(func(ctx context.Context, _ []string) error {
			return a.WithClient(ctx, func(c *client.Client) error {
				_, stop := a.StartProgress("collecting garbage")
				res, err := c.GCSnapshots(ctx)
				stop()
				if err != nil {
					return err
				}
				return a.PrintAnswer(res, func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "%d snapshots need %d objects; removed %d packs, wrote %d anew, freed %d bytes\n",
						res.Snapshots, res.Objects, res.Removed, res.Rewritten, res.Freed)
					return err
				})
			})
		}),
	}
}

func snapshotFsckCommand(a *command) *cobra.Command {
	return &cobra.Command{
		Use:   "fsck",
		Short: "Read and verify the whole store",
		Long: `Read and verify the whole store. Damaged and missing objects are listed, with the snapshots that
can't be restored without them. Nothing is changed.`,
		Args: cobra.NoArgs,
		RunE: console.RunE(func(ctx context.Context, _ []string) error {
			return a.WithClient(ctx, func(c *client.Client) error {
				_, stop := a.StartProgress("reading the store")
				report, err := c.CheckSnapshots(ctx)
				stop()
				if err != nil {
					return err
				}
				if err := a.PrintAnswer(report, func(w io.Writer) error { return writeReport(w, report) }); err != nil || report.OK() {
					return err
				}
				return fmt.Errorf("snapshot fsck: %w: %d problems", fault.Failed, len(report.Problems))
			})
		}),
	}
}

func writeReport(w io.Writer, r *client.StoreReport) error {
	for _, p := range r.Problems {
		of := ""
		if p.Snapshot != "" {
			of = " (snapshot " + p.Snapshot + ")"
		}
		if _, err := fmt.Fprintf(w, "%s%s: %s\n", p.What, of, p.Error); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "%d snapshots, %d packs, %d objects, of which %d are not needed; %d problems\n",
		r.Snapshots, r.Packs, r.Objects, r.Unneeded, len(r.Problems))
	return err
}

func snapshotExportCommand(a *command) *cobra.Command {
	var to string
	var credentials bool
	cmd := &cobra.Command{
		Use:   "export SNAPSHOT --to URL",
		Short: "Copy a snapshot to a store in a bucket, and print its id there",
		Long: `Copy a snapshot to a store in a bucket, and print its id there. The URL is file:///path,
s3://bucket?region=REGION (with credentials from the environment; &endpoint=URL for another server, &prefix=a/
for a part of the bucket) or mem://. Objects that the bucket has already are not sent again.

Files that usually contain credentials, such as .env, .netrc and private keys, are left out and listed on standard
error, since others may read the bucket. --credentials includes them.`,
		Example: "  croft snapshot export ID --bucket file:///srv/snapshots",
		Args:    cobra.ExactArgs(1),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			if to == "" {
				return console.Usagef("--bucket is required: give the URL of a bucket, such as file:///srv/snapshots")
			}
			return a.snapshotExport(ctx, args[0], to, credentials)
		}),
	}
	cmd.Flags().StringVar(&to, "bucket", "", "URL of the bucket")
	cmd.Flags().BoolVar(&credentials, "credentials", false, "include files that usually contain credentials")
	return cmd
}

func (a *command) snapshotExport(ctx context.Context, id, to string, credentials bool) error {
	return a.WithClient(ctx, func(c *client.Client) error {
		_, stop := a.StartProgress("copying to the bucket")
		res, err := c.ExportSnapshot(ctx, id, to, credentials)
		stop()
		if err != nil {
			return err
		}
		a.noteCredentials(res.LeftOut)
		return a.PrintAnswer(res, func(w io.Writer) error {
			_, err := fmt.Fprintln(w, res.Snapshot.ID)
			return err
		})
	})
}

// noteCredentials prints the credential files that were left out of a copy.
func (a *command) noteCredentials(list []string) {
	if len(list) == 0 {
		return
	}
	names := make([]string, len(list))
	for i, name := range list {
		names[i] = console.Printable(name)
	}
	a.Note("left out, since they usually contain credentials (--credentials includes them): %s", strings.Join(names, ", "))
}

func snapshotImportCommand(a *command) *cobra.Command {
	var from string
	cmd := &cobra.Command{
		Use:   "import [SNAPSHOT] --from URL",
		Short: "Copy a snapshot from a store in a bucket, and print its id here",
		Long: `Copy a snapshot from a store in a bucket, by the id that croft snapshot export printed, and print its
id here. Without SNAPSHOT, list the snapshots of the bucket. The URL is as for croft snapshot export.`,
		Example: "  croft snapshot import --bucket file:///srv/snapshots\n  croft snapshot import ID --bucket file:///srv/snapshots\n" +
			"  croft template create back --snapshot ID && croft ws open again --template back",
		Args: cobra.MaximumNArgs(1),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			if from == "" {
				return console.Usagef("--bucket is required: give the URL of a bucket, such as file:///srv/snapshots")
			}
			return a.snapshotImport(ctx, args, from)
		}),
	}
	cmd.Flags().StringVar(&from, "bucket", "", "URL of the bucket")
	return cmd
}

func (a *command) snapshotImport(ctx context.Context, ids []string, from string) error {
	return a.WithClient(ctx, func(c *client.Client) error {
		id := strings.Join(ids, "")
		_, stop := a.StartProgress("copying from the bucket")
		list, err := c.ImportSnapshot(ctx, id, from)
		stop()
		if err != nil {
			return err
		}
		if id == "" {
			return a.PrintAnswer(list, func(w io.Writer) error { return writeSnapshots(w, list) })
		}
		return a.PrintAnswer(list[0], func(w io.Writer) error {
			_, err := fmt.Fprintln(w, list[0].ID)
			return err
		})
	})
}

func snapshotRmCommand(a *command) *cobra.Command {
	return &cobra.Command{
		Use:   "rm SNAPSHOT...",
		Short: "Delete snapshots by id, those of destroyed workspaces included",
		Long: `Delete snapshots by id, those of destroyed workspaces included. A template and the origin of an existing
workspace are refused. Run croft snapshot gc to free the disk space.`,
		Args: cobra.MinimumNArgs(1),
		RunE: console.RunE(func(ctx context.Context, ids []string) error {
			return a.WithClient(ctx, func(c *client.Client) error {
				for _, id := range ids {
					if err := c.ForgetSnapshot(ctx, id); err != nil {
						return err
					}
				}
				return a.PrintAnswer(map[string][]string{"removed": ids}, func(w io.Writer) error {
					_, err := fmt.Fprintln(w, "removed", strings.Join(ids, ", "))
					return err
				})
			})
		}),
	}
}
