package wscmd

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

type logsOptions struct {
	name, session string
	follow        bool
	stderr        bool
	offset        int64
}

func logsCommand(a *command) *cobra.Command {
	var opts logsOptions
	cmd := &cobra.Command{
		Use:   "logs NAME SESSION",
		Short: "Print the output of a session",
		Args:  cobra.ExactArgs(2),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			opts.name, opts.session = args[0], args[1]
			return a.logs(ctx, opts)
		}),
	}
	f := cmd.Flags()
	f.BoolVarP(&opts.follow, "follow", "f", false, "print new output until the session ends")
	f.BoolVar(&opts.stderr, "stderr", false, "standard error instead of standard output; on a terminal all output is on standard output")
	f.Int64Var(&opts.offset, "offset", 0, "first byte")
	return cmd
}

func (a *command) logs(ctx context.Context, opts logsOptions) error {
	if a.JSON {
		return console.Usagef("logs prints the output byte for byte: leave out --json")
	}
	stream := driver.Stdout
	if opts.stderr {
		stream = driver.Stderr
	}
	return a.WithAttached(ctx, opts.name, func(c console.Workspaces, ws *workspace.Workspace) error {
		session, err := ws.Attach(ctx, opts.session)
		if err != nil {
			return err
		}
		if opts.follow {
			api, err := c.API(ctx)
			if err != nil {
				return err
			}
			body, err := api.Follow(ctx, ws.ID(), session.ID(), stream, opts.offset)
			if err != nil {
				return err
			}
			defer body.Close()
			if _, err = io.Copy(a.Out, body); err == nil {
				a.noteDropped(ctx, session)
			}
			return err
		}
		return a.printLog(ctx, session, stream, opts.offset)
	})
}

// noteDropped mentions output that the log has dropped.
func (a *command) noteDropped(ctx context.Context, session *workspace.Session) {
	info, err := session.State(ctx)
	if err == nil && info.LogDropped > 0 {
		a.Note("croft: the log reached its size limit: %s of both streams were dropped", console.CountText(info.LogDropped, "byte"))
	}
}

// printLog prints the log up to its present end.
func (a *command) printLog(ctx context.Context, session *workspace.Session, stream driver.Stream, offset int64) error {
	const chunkSize = 1 << 20
	for end := int64(-1); end < 0 || offset < end; {
		chunk, err := session.Log(ctx, stream, offset, chunkSize)
		if err != nil {
			return err
		}
		if end < 0 {
			end = chunk.Size // later output needs --follow
		}
		if len(chunk.Data) == 0 {
			return nil
		}
		if chunk.Offset > offset {
			a.Note("croft: the log reached its size limit: %s were dropped here", console.CountText(chunk.Offset-offset, "byte"))
		}
		if _, err := a.Out.Write(chunk.Data); err != nil {
			return fmt.Errorf("print log: %w", err)
		}
		offset = chunk.Next
	}
	return nil
}
