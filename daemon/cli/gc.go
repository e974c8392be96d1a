package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/daemon/app"
)

func (a *command) gcCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "gc",
		Short: "Remove leftovers that belong to no workspace",
		Long: `Remove leftovers of killed processes: files in the data directory, temporary workspaces of croft run,
code, script and mcp, and containers and volumes of this host whose data directory entry is gone. Nothing in use is
removed. Snapshots without a name are removed at the age snapshots.maxAge of the configuration, 30 days by
default, unless a workspace started from them. (croft snapshot prune removes others by age and number.)`,
		Args: cobra.NoArgs,
		RunE: run(func(ctx context.Context, _ []string) error {
			return a.withSystem(ctx, "gc removes leftovers", func(s *app.System) error {
				c, err := s.Client(ctx)
				if err != nil {
					return err
				}
				a.system = s
				a.sweepRuns(ctx, c)
				if err := s.Discard(ctx, app.MCPLabel); err != nil {
					return err
				}
				removed, err := s.Collect(ctx)
				if err != nil {
					return err
				}
				return a.printAnswer(removed, func(w io.Writer) error {
					for _, c := range removed.Containers {
						what := "container"
						if c.Volume {
							what = "volume"
						}
						if _, err := fmt.Fprintf(w, "removed %s %s, of %s in %s\n", what, c.Name, c.Workspace, printable(c.Root)); err != nil {
							return err
						}
					}
					if n := len(removed.Snapshots); n > 0 {
						_, err := fmt.Fprintf(w, "removed %s without a name\n", countText(int64(n), "snapshot"))
						return err
					}
					return nil
				})
			})
		}),
	}
}
