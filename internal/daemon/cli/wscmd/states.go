package wscmd

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/internal/daemon/config"
	"github.com/croft-run/croft/provider/all"
	"github.com/croft-run/croft/registry"
	"github.com/croft-run/croft/workspace/driver"
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
				rows = append(rows, []string{ws.ID, console.OrDash(ws.Name), kindText(ws.Kind), ws.State, console.TimeText(ws.CreatedAt),
					console.OrDash(console.LabelText(ws.Labels))})
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

func showCommand(a *command) *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME",
		Short: "Show one workspace",
		Args:  cobra.ExactArgs(1),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			return a.WithWorkspaces(ctx, func(c console.Workspaces) error {
				ws, err := c.Show(ctx, args[0])
				if err != nil {
					return err
				}
				return a.PrintAnswer(ws, func(w io.Writer) error { return console.WriteTable(w, showRows(ws)) })
			})
		}),
	}
}

// isolationRows show the policy, and the provider's traits where they are known.
func isolationRows(ws client.Workspace) [][]string {
	isolation := "the provider's default"
	if isolates, known := all.Isolates(ws.Kind); !known {
		isolation = "not known before it is used: the provider decides"
	} else if !isolates {
		isolation = "none: nothing isolates its commands from their host"
	} else if ws.Policy.Isolation != "" {
		isolation = "at least " + string(ws.Policy.Isolation)
	}
	if ws.Traits != nil && ws.Traits.Isolation.Rank() > 0 {
		isolation = string(ws.Traits.Isolation)
		if by := ws.Traits.IsolatedBy.By; by != "" {
			isolation += " (" + by + ")"
		}
	}
	network := networkText(ws.Policy.Network)
	if ws.Policy.Network.None() && ws.Traits != nil {
		network = "none"
		if ws.Traits.Network == driver.NetworkOpen {
			network = "open: the provider can't restrict it"
		}
	}
	rows := [][]string{{"isolation", isolation}, {"network", network}}
	limits := "none"
	if texts := limitTexts(ws.Policy.Limits); len(texts) > 0 {
		limits = strings.Join(texts, ", ")
	}
	return append(rows, []string{"limits", limits})
}

func networkText(n driver.Network) string {
	switch {
	case n.Open:
		return "open"
	case n.None():
		return "the provider's default"
	}
	var hosts []string
	for _, r := range n.Allow {
		host := r.Host
		if len(r.Ports) > 0 {
			host = fmt.Sprintf("%s:%d", host, r.Ports[0])
			for _, p := range r.Ports[1:] {
				host += fmt.Sprintf(",%d", p)
			}
		}
		if r.Credential != "" {
			host += " (with the secret " + r.Credential + ")"
		}
		hosts = append(hosts, console.Printable(host))
	}
	return strings.Join(hosts, ", ")
}

func limitTexts(l driver.Limits) []string {
	var texts []string
	for _, r := range driver.Resources {
		x := l[r.Name]
		if x.Max == 0 {
			continue
		}
		text := string(r.Name) + " " + config.Amount{N: x.Max, Unit: r.Unit}.String()
		if r.Unit == driver.UnitMillicores {
			text += " cores"
		}
		if x.BestEffort {
			text += " (best-effort)"
		}
		texts = append(texts, text)
	}
	return texts
}

func showRows(ws client.Workspace) [][]string {
	rows := [][]string{
		{"id", ws.ID}, {"name", console.OrDash(ws.Name)}, {"provider", ws.Kind}, {"state", ws.State},
		{"labels", console.OrDash(console.LabelText(ws.Labels))}, {"created", console.TimeText(ws.CreatedAt)},
		{"last used", console.TimeText(ws.LastUsed)},
		{"read-only", strconv.FormatBool(ws.Policy.ReadOnly)}, {"durable", strconv.FormatBool(ws.Policy.Durable)},
	}
	rows = append(rows, isolationRows(ws)...)
	if ws.Owner != "" {
		rows = append(rows, []string{"owner", ws.Owner})
	}
	if ws.Dir != "" {
		rows = append(rows, []string{"dir", console.Printable(ws.Dir)})
	}
	if ws.Policy.Idle > 0 {
		rows = append(rows, []string{"idle", ws.Policy.Idle.String()})
	}
	if !ws.EndAt.IsZero() {
		then := "destroyed"
		if ws.OnEnd == string(registry.PauseOnEnd) {
			then = "paused"
		}
		rows = append(rows, []string{"end", console.TimeText(ws.EndAt) + ", then it is " + then})
	}
	if ws.Error != nil {
		rows = append(rows, []string{"error", ws.Error.Message})
	}
	return rows
}

func describeCommand(a *command) *cobra.Command {
	return &cobra.Command{
		Use:   "describe NAME",
		Short: "Show all details of a workspace, for operators",
		Args:  cobra.ExactArgs(1),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			return a.WithWorkspaces(ctx, func(c console.Workspaces) error {
				d, err := c.Describe(ctx, args[0])
				if err != nil {
					return err
				}
				return a.PrintAnswer(d, func(w io.Writer) error { return console.WriteTable(w, describeRows(d)) })
			})
		}),
	}
}

func describeRows(d client.Description) [][]string {
	rows := append(showRows(d.Workspace),
		[]string{"updated", console.TimeText(d.UpdatedAt)},
		[]string{"revision", strconv.FormatInt(d.Revision, 10)},
		[]string{"attempts", strconv.Itoa(d.Attempts)},
		[]string{"live here", strconv.FormatBool(d.Live)},
		[]string{"may become", console.OrDash(strings.Join(d.Moves, " "))},
	)
	for _, h := range d.Holders {
		what, text := "leased to", fmt.Sprintf("process %d on %s until %s", h.PID, h.Host, console.TimeText(h.Expires))
		if h.Died {
			what, text = "was leased to", fmt.Sprintf("process %d on %s, which has died; the lease expires at %s", h.PID, h.Host, console.TimeText(h.Expires))
		}
		rows = append(rows, []string{what, text})
	}
	if d.Error != nil {
		rows = append(rows, []string{"code", d.Error.Code})
	}
	return rows
}

func pauseCommand(a *command) *cobra.Command {
	return moveCommand(a, "pause NAME", "Freeze the processes of a workspace; they use no CPU and keep their memory", "paused",
		(*client.Client).Pause)
}

func resumeCommand(a *command) *cobra.Command {
	return moveCommand(a, "resume NAME", "Resume a paused workspace", "resumed", (*client.Client).Resume)
}

// moveCommand is a command that moves a workspace to another state.
func moveCommand(a *command, use, short, done string, move func(*client.Client, context.Context, string) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: cobra.ExactArgs(1),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			return a.WithClient(ctx, func(c *client.Client) error {
				if err := move(c, ctx, args[0]); err != nil {
					return err
				}
				return a.PrintJSONOnly(map[string]string{done: args[0]})
			})
		}),
	}
}

func resetCommand(a *command) *cobra.Command {
	return &cobra.Command{
		Use:   "reset NAME",
		Short: "Let a failed workspace be opened again",
		Args:  cobra.ExactArgs(1),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			return a.WithClient(ctx, func(c *client.Client) error {
				ws, err := c.Reset(ctx, args[0])
				if err != nil {
					return err
				}
				a.Note("%s will be opened again at its next use", args[0])
				if a.JSON {
					return a.PrintAnswer(ws, nil)
				}
				return nil
			})
		}),
	}
}
