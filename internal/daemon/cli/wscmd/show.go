package wscmd

import (
	"context"
	"fmt"
	"io"
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
		{"labels", console.OrDash(console.LabelText(ws.Labels))}, {"created", console.TimeText(ws.CreatedAt)}, {"last used", console.TimeText(ws.LastUsed)},
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
