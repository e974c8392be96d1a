package wscmd

import (
	"bufio"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

type globOptions struct {
	name, pattern string
	glob          driver.GlobOptions
}

func globCommand(a *command) *cobra.Command {
	var opts globOptions
	cmd := &cobra.Command{
		Use:   "glob NAME PATTERN",
		Short: "List the paths of a workspace that match a pattern",
		Long:  "List the paths of a workspace that match a pattern: * ? [a-z] {a,b}, and ** for any depth.",
		Args:  cobra.ExactArgs(2),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			opts.name, opts.pattern = args[0], args[1]
			return a.glob(ctx, opts)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&opts.glob.Path, "path", "", "directory where the pattern starts")
	f.BoolVar(&opts.glob.GitIgnore, "gitignore", false, "leave out files that .gitignore files exclude")
	f.BoolVar(&opts.glob.Hidden, "hidden", false, "also match names that start with a dot")
	f.BoolVar(&opts.glob.Dirs, "directories", false, "also list directories")
	f.IntVar(&opts.glob.Limit, "limit", 0, "maximum number of paths; 0 is no limit")
	return cmd
}

func (a *command) glob(ctx context.Context, opts globOptions) error {
	opts.glob.Stat = a.JSON // text shows paths only
	return a.WithWorkspace(ctx, opts.name, func(ws *workspace.Workspace) error {
		res, err := ws.Glob(ctx, opts.pattern, &opts.glob)
		if err != nil {
			return err
		}
		switch {
		case res.Truncated:
			a.Note("ended early: the limit of %d was reached", opts.glob.Limit)
		case len(res.Entries) == 0:
			a.Note("no match")
		}
		return a.PrintAnswer(res, func(out io.Writer) error {
			w := bufio.NewWriter(out)
			for _, e := range res.Entries {
				fmt.Fprintln(w, console.Printable(e.Path))
			}
			return w.Flush()
		})
	})
}
