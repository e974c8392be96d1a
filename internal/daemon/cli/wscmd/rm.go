package wscmd

import (
	"cmp"
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/internal/daemon/app"
	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/internal/daemon/work"
)

// ownedLabels mark the workspaces that end with a command, or that croft work manages.
var ownedLabels = []string{console.RunLabel, console.EvalLabel, app.MCPLabel, work.ProjectLabel}

type rmOptions struct {
	all    bool
	labels []string
	yes    bool
}

func rmCommand(a *command) *cobra.Command {
	var opts rmOptions
	cmd := &cobra.Command{
		Use:   "rm NAME... | rm --all | rm --label K=V",
		Short: "Destroy workspaces and all their files",
		Long: `Destroy workspaces and all their files. A directory that is used in place stays. If one can't be
removed, the others still are. --all and --label ask first; without a terminal to ask on they need
--yes. Both leave out the works of croft work, which croft work discard removes, and the temporary
workspaces of croft run, code, mcp and eval, which end with their command.`,
		Example: "  croft ws rm demo\n  croft ws rm --label team=core\n  croft ws rm --all --yes",
		Args:    cobra.ArbitraryArgs,
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			return a.WithWorkspaces(ctx, func(c console.Workspaces) error {
				names, err := a.chosenWorkspaces(ctx, c, opts, args)
				if err != nil || len(names) == 0 {
					return err
				}
				return console.Remove(ctx, a.Console, c, names)
			})
		}),
	}
	f := cmd.Flags()
	f.BoolVar(&opts.all, "all", false, "all workspaces")
	f.StringArrayVar(&opts.labels, "label", nil, "all workspaces with this label K=V; may be given several times, then they have all of them")
	console.RegisterYes(f, &opts.yes)
	return cmd
}

// chosenWorkspaces returns the workspaces to remove: those of names, or of --all or --label,
// about which the user is asked.
func (a *command) chosenWorkspaces(ctx context.Context, c console.Workspaces, opts rmOptions, names []string) ([]string, error) {
	labels, err := parseLabels(opts.labels)
	switch {
	case err != nil:
		return nil, err
	case !opts.all && len(labels) == 0:
		if len(names) == 0 {
			return nil, console.Usagef("croft ws rm takes NAME...; given 0 arguments; --all takes all workspaces")
		}
		return names, nil
	case opts.all && len(labels) > 0 || len(names) > 0:
		return nil, console.Usagef("give names, --all or --label, not several of them")
	}
	list, err := c.List(ctx, client.Filter{Labels: labels})
	if err != nil {
		return nil, err
	}
	for _, ws := range list {
		if !slices.ContainsFunc(ownedLabels, func(label string) bool { return ws.Labels[label] != "" }) {
			names = append(names, cmp.Or(ws.Name, ws.ID))
		}
	}
	if left := len(list) - len(names); left > 0 {
		a.Note("not removed: %s of croft work, or of commands that run; croft work list --all lists works, croft work discard removes one", console.CountText(left, "workspace"))
	}
	return a.ConfirmRemoval(names, "workspace", opts.yes)
}
