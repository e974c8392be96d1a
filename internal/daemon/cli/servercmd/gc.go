package servercmd

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/internal/daemon/app"
	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/internal/daemon/gc"
)

// gcAnswer is what croft gc removed.
type gcAnswer struct {
	Workspaces []string `json:"workspaces"` // ids of temporary workspaces
	gc.Collected
}

func gcCommand(a *command) *cobra.Command {
	return &cobra.Command{
		Use:   "gc",
		Short: "Remove leftovers that belong to no workspace",
		Long: `Remove leftovers of killed processes: files in the data directory, temporary workspaces of croft run,
code, script and mcp, and containers and volumes of this host whose data directory entry is gone. Nothing in use is
removed.

Snapshots that were taken automatically (before an apply or a rollback, after a command, for a fork or a work) are removed
at the age snapshots.maxAge of the configuration, 30 days by default, and those of removed workspaces at
snapshots.removedAge, 7 days, unless a workspace started from them. Those that you took or named stay, and so do
templates: croft snapshot rm and prune remove them. What stays is said on standard error, and until when.`,
		Args: cobra.NoArgs,
		RunE: console.RunE(func(ctx context.Context, _ []string) error {
			return a.WithSystem(ctx, "gc removes leftovers", func(s *app.System) error {
				runs := a.SweepRuns(ctx)
				forks, err := s.Discard(ctx, app.MCPLabel, nil)
				if err != nil {
					return err
				}
				out := gcAnswer{Workspaces: slices.Concat([]string{}, runs, forks)}
				if out.Collected, err = s.GC.Collect(ctx); err != nil {
					return err
				}
				return a.PrintAnswer(out, func(w io.Writer) error {
					lines := out.lines()
					if len(lines) == 0 {
						a.Note("croft: nothing to remove on this host")
					}
					for _, k := range out.Kept {
						a.Note("croft: kept %s", keptText(k))
					}
					return console.WriteLines(w, lines)
				})
			})
		}),
	}
}

// lines says what was removed.
func (g *gcAnswer) lines() []string {
	var lines []string
	if n := len(g.Workspaces); n > 0 {
		lines = append(lines, fmt.Sprintf("removed %s of killed processes", console.CountText(n, "temporary workspace")))
	}
	if n := len(g.Directories); n > 0 {
		lines = append(lines, fmt.Sprintf("removed %s of workspaces without a record", console.CountText(n, "directory")))
	}
	if g.Backup {
		lines = append(lines, "removed what a killed backup left")
	}
	for _, c := range g.Containers {
		what := "container"
		if c.Volume {
			what = "volume"
		}
		lines = append(lines, fmt.Sprintf("removed %s %s, of %s in %s", what, c.Name, c.Workspace, console.Printable(c.Root)))
	}
	if n := len(g.Snapshots); n > 0 {
		lines = append(lines, fmt.Sprintf("removed %s that had been taken automatically", console.CountText(n, "snapshot")))
	}
	if g.Unused > 0 {
		lines = append(lines, fmt.Sprintf("removed %s of caches and of tests of container engines", console.CountText(g.Unused, "old file")))
	}
	return lines
}

// keptText says which snapshots stay, why, and until when.
func keptText(k gc.KeptSnapshots) string {
	count := console.CountText(k.Count, "snapshot")
	until := func(key string) string {
		if k.Until.IsZero() {
			return fmt.Sprintf("for ever: %s is 0s", key)
		}
		return fmt.Sprintf("the first until %s: %s", console.TimeText(k.Until), key)
	}
	switch k.Why {
	case gc.KeptOfRemoved:
		return fmt.Sprintf("%s, taken automatically, of removed workspaces; %s", count, until("snapshots.removedAge"))
	case gc.KeptOfExisting:
		return fmt.Sprintf("%s, taken automatically; %s", count, until("snapshots.maxAge"))
	case gc.KeptStart:
		return fmt.Sprintf("%s, from which workspaces started, until these are removed", count)
	case gc.KeptTemplate:
		return fmt.Sprintf("%s of templates, until croft template rm", count)
	}
	return fmt.Sprintf("%s that you or a program of yours took, until croft snapshot rm or prune", count)
}
