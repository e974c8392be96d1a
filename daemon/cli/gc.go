package cli

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/daemon/app"
)

// gcAnswer is what croft gc removed.
type gcAnswer struct {
	Workspaces []string `json:"workspaces"` // ids of temporary workspaces
	app.Collected
}

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
				runs := a.sweepRuns(ctx, c)
				forks, err := s.Discard(ctx, app.MCPLabel)
				if err != nil {
					return err
				}
				out := gcAnswer{Workspaces: slices.Concat([]string{}, runs, forks)}
				if out.Collected, err = s.Collect(ctx); err != nil {
					return err
				}
				return a.printAnswer(out, func(w io.Writer) error {
					lines := out.lines()
					if len(lines) == 0 {
						a.note("croft: nothing to remove on this host")
					}
					return writeLines(w, lines)
				})
			})
		}),
	}
}

// lines says what was removed.
func (g *gcAnswer) lines() []string {
	var lines []string
	if n := len(g.Workspaces); n > 0 {
		lines = append(lines, fmt.Sprintf("removed %s of killed processes", countText(n, "temporary workspace")))
	}
	if n := len(g.Directories); n > 0 {
		lines = append(lines, fmt.Sprintf("removed %s of workspaces without a record", countText(n, "directory")))
	}
	if g.Backup {
		lines = append(lines, "removed what a killed backup left")
	}
	for _, c := range g.Containers {
		what := "container"
		if c.Volume {
			what = "volume"
		}
		lines = append(lines, fmt.Sprintf("removed %s %s, of %s in %s", what, c.Name, c.Workspace, printable(c.Root)))
	}
	if n := len(g.Snapshots); n > 0 {
		lines = append(lines, fmt.Sprintf("removed %s without a name", countText(n, "snapshot")))
	}
	return lines
}
