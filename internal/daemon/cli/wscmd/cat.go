package wscmd

import (
	"context"
	"io"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

type catOptions struct {
	name, path string
	read       driver.ReadOptions
}

func catCommand(a *command) *cobra.Command {
	var opts catOptions
	cmd := &cobra.Command{
		Use:   "cat NAME PATH",
		Short: "Print a file of a workspace",
		Args:  cobra.ExactArgs(2),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			opts.name, opts.path = args[0], args[1]
			return a.cat(ctx, opts)
		}),
	}
	cmd.Flags().Int64Var(&opts.read.Offset, "offset", 0, "first byte")
	cmd.Flags().Int64Var(&opts.read.Limit, "limit", 0, "maximum number of bytes; 0 is all")
	return cmd
}

// fileAnswer is the JSON of a file. Content that is not UTF-8 is base64.
type fileAnswer struct {
	Info       driver.Info `json:"info"`
	Content    string      `json:"content,omitempty"`
	ContentB64 []byte      `json:"contentB64,omitempty"`
}

func (a *command) cat(ctx context.Context, opts catOptions) error {
	return a.WithWorkspace(ctx, opts.name, func(ws *workspace.Workspace) error {
		body, info, err := ws.Read(ctx, opts.path, &opts.read)
		if err != nil {
			return console.SayOf(fault.NotFound, err, console.ListFiles)
		}
		defer body.Close()
		if !a.JSON {
			_, err = io.Copy(a.Out, body)
			return err
		}
		data, err := io.ReadAll(body)
		if err != nil {
			return err
		}
		out := fileAnswer{Info: info, Content: string(data)}
		if !utf8.Valid(data) {
			out.Content, out.ContentB64 = "", data
		}
		return a.PrintAnswer(out, nil)
	})
}
