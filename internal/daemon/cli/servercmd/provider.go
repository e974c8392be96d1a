package servercmd

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/workspace/driver"
)

func providerCommand(a *command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "provider",
		Short: "List the kinds of workspaces",
	}
	cmd.AddCommand(providerListCommand(a), providerShowCommand(a))
	return cmd
}

func providerListCommand(a *command) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List providers and what the host supports, tested by trying",
		Args:    cobra.NoArgs,
		RunE: console.RunE(func(ctx context.Context, _ []string) error {
			return a.WithClient(ctx, func(c *client.Client) error {
				list, err := c.Providers(ctx)
				if err != nil {
					return err
				}
				return a.PrintAnswer(list, func(w io.Writer) error { return printProviders(w, list) })
			})
		}),
	}
}

// printProviders prints a table of the usable providers, and why the others are not
// usable.
func printProviders(w io.Writer, list []client.ProviderInfo) error {
	rows := [][]string{{"KIND", "ISOLATION", "NETWORK", "SURVIVES", "IN PLACE", "LIMITS"}}
	var unusable [][]string
	for _, p := range list {
		switch {
		case p.Error != nil:
			unusable = append(unusable, []string{p.Kind, "unusable: " + console.TrimPackages(p.Error.Message)})
		case p.Traits != nil:
			rows = append(rows, []string{p.Kind, console.OrDash(string(p.Traits.Isolation)), console.OrDash(string(p.Traits.Network)),
				console.OrDash(string(p.Traits.Durability)), strconv.FormatBool(p.Traits.InPlace), console.OrDash(enforcedLimits(p.Traits.Limits))})
		}
	}
	if err := console.WriteTable(w, rows, "IN PLACE", "SURVIVES", "NETWORK"); err != nil || len(unusable) == 0 {
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return console.WriteTable(w, unusable)
}

// enforcedLimits names the limits that are enforced.
func enforcedLimits(limits driver.LimitTraits) string {
	var names []string
	for _, r := range driver.Resources {
		if limits[r.Name].Enforced() {
			names = append(names, string(r.Name))
		}
	}
	return strings.Join(names, ",")
}

func providerShowCommand(a *command) *cobra.Command {
	return &cobra.Command{
		Use:   "show KIND",
		Short: "Show the traits of a provider, and what enforces them",
		Args:  cobra.ExactArgs(1),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			return a.WithClient(ctx, func(c *client.Client) error {
				list, err := c.Providers(ctx)
				if err != nil {
					return err
				}
				i := slices.IndexFunc(list, func(p client.ProviderInfo) bool { return p.Kind == args[0] })
				if i < 0 {
					var kinds []string
					for _, p := range list {
						kinds = append(kinds, p.Kind)
					}
					return fault.Advise(fmt.Errorf("provider %.80q: %w", args[0], fault.NotFound), "the providers are %s", strings.Join(kinds, ", "))
				}
				return a.PrintAnswer(list[i], func(w io.Writer) error { return console.WriteTable(w, traitRows(list[i])) })
			})
		}),
	}
}

// traitRows are the traits of a provider, with what enforces them or why nothing does.
func traitRows(p client.ProviderInfo) [][]string {
	rows := [][]string{{"kind", p.Kind}}
	if p.Error != nil {
		return append(rows, []string{"unusable", console.TrimPackages(p.Error.Message)})
	}
	t := p.Traits
	rows = append(rows,
		[]string{"isolation", console.OrDash(string(t.Isolation)), enforcementReason(t.IsolatedBy)},
		[]string{"network", console.OrDash(string(t.Network)), enforcementReason(t.NetworkBy)},
		[]string{"read-only", strconv.FormatBool(t.ReadOnly.Enforced()), enforcementReason(t.ReadOnly)},
	)
	for _, r := range driver.Resources {
		l := t.Limits[r.Name]
		rows = append(rows, []string{"limit " + string(r.Name), strconv.FormatBool(l.Enforced()), enforcementReason(l)})
	}
	return append(rows,
		[]string{"survives", console.OrDash(string(t.Durability))},
		[]string{"in place", strconv.FormatBool(t.InPlace)},
		[]string{"copy on write", console.OrDash(t.CopyOnWrite)},
	)
}

func enforcementReason(e driver.Enforcement) string {
	switch {
	case e.By != "":
		return "by " + e.By
	case e.Reason != "":
		return "because " + e.Reason
	}
	return ""
}
