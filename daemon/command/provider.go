package command

import (
	"context"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/provider/remote"
)

func (a *app) providerCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "provider",
		Short: "Say what kinds of workspaces there are",
		Args:  cobra.ArbitraryArgs,
		RunE:  group,
	}
	cmd.AddCommand(a.providerListCommand())
	return cmd
}

func (a *app) providerListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List providers, and what the host gives them, proven by trying",
		Args:  cobra.NoArgs,
		RunE: run(func(ctx context.Context, _ []string) error {
			return a.withClient(ctx, func(c *remote.Client) error {
				list, err := c.Providers(ctx)
				if err != nil {
					return err
				}
				return a.answer(list, func(w io.Writer) error { return table(w, providerRows(list)) })
			})
		}),
	}
}

func providerRows(list []remote.ProviderInfo) [][]string {
	rows := [][]string{{"KIND", "ISOLATION", "NETWORK", "SURVIVES", "IN PLACE"}}
	for _, p := range list {
		switch {
		case p.Error != nil:
			rows = append(rows, []string{p.Kind, "unusable: " + p.Error.Message})
		case p.Traits != nil:
			rows = append(rows, []string{p.Kind, orDash(string(p.Traits.Isolation)), orDash(string(p.Traits.Network)),
				orDash(string(p.Traits.Durability)), strconv.FormatBool(p.Traits.InPlace)})
		}
	}
	return rows
}
