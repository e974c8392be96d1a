package command

import (
	"context"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/provider/remote"
)

func (a *app) wsShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME",
		Short: "Show one workspace",
		Args:  cobra.ExactArgs(1),
		RunE: run(func(ctx context.Context, args []string) error {
			return a.withClient(ctx, func(c *remote.Client) error {
				ws, err := c.Show(ctx, args[0])
				if err != nil {
					return err
				}
				return a.answer(ws, func(w io.Writer) error { return table(w, showRows(ws)) })
			})
		}),
	}
}

func showRows(ws remote.Workspace) [][]string {
	rows := [][]string{
		{"id", ws.ID}, {"name", orDash(ws.Name)}, {"provider", ws.Kind}, {"state", ws.State},
		{"labels", orDash(labelText(ws.Labels))}, {"created", timeText(ws.CreatedAt)}, {"last used", timeText(ws.LastUsed)},
		{"read-only", strconv.FormatBool(ws.Policy.ReadOnly)}, {"durable", strconv.FormatBool(ws.Policy.Durable)},
	}
	if ws.Owner != "" {
		rows = append(rows, []string{"owner", ws.Owner})
	}
	if ws.Dir != "" {
		rows = append(rows, []string{"dir", printable(ws.Dir)})
	}
	if ws.Policy.Idle > 0 {
		rows = append(rows, []string{"idle", ws.Policy.Idle.String()})
	}
	if ws.Error != nil {
		rows = append(rows, []string{"error", ws.Error.Message})
	}
	return rows
}
