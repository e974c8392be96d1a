package wscmd

import (
	"context"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/provider/all"
)

type listOptions struct {
	labels   []string
	state    string
	provider string
}

func listCommand(a *command) *cobra.Command {
	var opts listOptions
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List workspaces, oldest first",
		Args:  cobra.NoArgs,
		RunE: console.RunE(func(ctx context.Context, _ []string) error {
			return a.list(ctx, opts)
		}),
	}
	f := cmd.Flags()
	f.StringArrayVar(&opts.labels, "label", nil, "only workspaces with this label K=V; may be given several times")
	f.StringVar(&opts.state, "state", "", "only workspaces in this state")
	f.StringVar(&opts.provider, "provider", "", "only workspaces of this kind")
	return cmd
}

func (a *command) list(ctx context.Context, opts listOptions) error {
	labels, err := parseLabels(opts.labels)
	if err != nil {
		return err
	}
	return a.WithWorkspaces(ctx, func(c console.Workspaces) error {
		list, err := c.List(ctx, client.Filter{Labels: labels, State: opts.state, Kind: opts.provider})
		if err != nil {
			return err
		}
		return a.PrintAnswer(list, func(w io.Writer) error {
			rows := [][]string{{"ID", "NAME", "PROVIDER", "STATE", "CREATED", "LABELS"}}
			for _, ws := range list {
				rows = append(rows, []string{ws.ID, console.OrDash(ws.Name), kindText(ws.Kind), ws.State, console.TimeText(ws.CreatedAt), console.OrDash(console.LabelText(ws.Labels))})
			}
			// Two tenants may use one name.
			if slices.ContainsFunc(list, func(ws client.Workspace) bool { return ws.Tenant != "" }) {
				const at = 2
				rows[0] = slices.Insert(rows[0], at, "TENANT")
				for i, ws := range list {
					rows[i+1] = slices.Insert(rows[i+1], at, console.OrDash(ws.Tenant))
				}
			}
			return console.WriteTable(w, rows, "CREATED", "PROVIDER", "ID", "LABELS", "TENANT")
		})
	})
}

// kindText is a kind in a table. Of a kind that nothing isolates, or nobody knows, it says so.
func kindText(kind string) string {
	switch isolates, known := all.Isolates(kind); {
	case !known:
		return kind + " (isolation unknown)"
	case !isolates:
		return kind + " (not isolated)"
	}
	return kind
}
