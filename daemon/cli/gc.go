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
		Short: "Remove what belongs to no workspace any more",
		Long: `Remove what belongs to no workspace: what killed processes left in the data directory, among it the
workspaces of croft run, code and script whose process was killed; and containers and volumes of this host, made
for any data directory, whose files are gone. What is in use stays. (What no snapshot needs, croft snapshot gc
removes.)`,
		Args: cobra.NoArgs,
		RunE: run(func(ctx context.Context, _ []string) error {
			return a.withSystem(ctx, "gc collects what is left", func(s *app.System) error {
				c, err := s.Client(ctx)
				if err != nil {
					return err
				}
				a.system = s
				a.sweepRuns(ctx, c)
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
					return nil
				})
			})
		}),
	}
}
