package wscmd

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

func statCommand(a *command) *cobra.Command {
	var opts driver.StatOptions
	cmd := &cobra.Command{
		Use:   "stat NAME PATH",
		Short: "Describe a file, a directory or a symlink of a workspace",
		Args:  cobra.ExactArgs(2),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			return a.WithWorkspace(ctx, args[0], func(ws *workspace.Workspace) error {
				info, err := ws.Stat(ctx, args[1], &opts)
				if err != nil {
					return console.SayOf(fault.NotFound, err, console.ListFiles)
				}
				return a.PrintAnswer(info, func(w io.Writer) error { return console.WriteTable(w, statRows(info)) })
			})
		}),
	}
	cmd.Flags().BoolVar(&opts.Digest, "digest", false, "print the digest of a file's content")
	cmd.Flags().BoolVar(&opts.NoFollow, "no-follow", false, "describe a symlink itself")
	return cmd
}

func statRows(info driver.Info) [][]string {
	rows := [][]string{
		{"path", console.Printable(info.Path)}, {"type", string(info.Type)}, {"mode", fmt.Sprintf("%04o", info.Mode)},
		{"size", fmt.Sprint(info.Size)}, {"modified", console.TimeText(info.ModTime)},
	}
	if info.Target != "" {
		rows = append(rows, []string{"target", console.Printable(info.Target)})
	}
	if info.Digest != "" {
		rows = append(rows, []string{"digest", info.Digest})
	}
	return rows
}
