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
)

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
