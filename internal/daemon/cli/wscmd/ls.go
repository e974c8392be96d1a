package wscmd

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

type lsOptions struct {
	name, path string
	long       bool
	recursive  bool
}

func lsCommand(a *command) *cobra.Command {
	var opts lsOptions
	cmd := &cobra.Command{
		Use:   "ls NAME [PATH]",
		Short: "List a directory of a workspace",
		Long: `List a directory of a workspace, by names relative to it. A directory ends in /. A name with
control characters is quoted; --json has all names unchanged.`,
		Args: cobra.RangeArgs(1, 2),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			opts.name = args[0]
			if len(args) == 2 {
				opts.path = args[1]
			}
			return a.ls(ctx, opts)
		}),
	}
	cmd.Flags().BoolVarP(&opts.long, "long", "l", false, "print mode, size and time")
	cmd.Flags().BoolVarP(&opts.recursive, "recursive", "R", false, "list all levels below")
	return cmd
}

func (a *command) ls(ctx context.Context, opts lsOptions) error {
	return a.WithWorkspace(ctx, opts.name, func(ws *workspace.Workspace) error {
		dir, entries, err := entriesOf(ctx, ws, opts.path, opts.recursive)
		if err != nil {
			return err
		}
		return a.PrintAnswer(entries, func(w io.Writer) error {
			var rows [][]string
			for _, e := range entries {
				rows = append(rows, lsRow(dir, e, opts.long))
			}
			return console.WriteTable(w, rows)
		})
	})
}

// entriesOf lists a directory, or returns the one file at path.
func entriesOf(ctx context.Context, ws *workspace.Workspace, path string, recursive bool) (dir string, entries []driver.Info, err error) {
	info, err := ws.Stat(ctx, path, nil)
	if err != nil {
		return "", nil, err
	}
	if info.Type != driver.TypeDir {
		return ".", []driver.Info{info}, nil
	}
	depth := 1
	if recursive {
		depth = -1
	}
	entries = []driver.Info{}
	err = eachEntry(ctx, ws, path, depth, func(e driver.Info) error {
		entries = append(entries, e)
		return nil
	})
	return info.Path, entries, err
}

// eachEntry calls f for every entry below path, parents first.
func eachEntry(ctx context.Context, ws *workspace.Workspace, path string, depth int, f func(driver.Info) error) error {
	opts := &driver.ListOptions{Depth: depth}
	for {
		page, err := ws.List(ctx, path, opts)
		if err != nil {
			return err
		}
		for _, e := range page.Entries {
			if err := f(e); err != nil {
				return err
			}
		}
		if page.Next == "" {
			return nil
		}
		opts.After = page.Next
	}
}

// relativeTo returns the path of an entry below dir.
func relativeTo(dir, path string) string {
	if dir == "." || dir == "" {
		return path
	}
	return strings.TrimPrefix(path, dir+"/")
}

func lsRow(dir string, e driver.Info, long bool) []string {
	name := console.Printable(relativeTo(dir, e.Path))
	if e.Type == driver.TypeDir {
		name += "/"
	}
	if !long {
		return []string{name}
	}
	if e.Type == driver.TypeSymlink {
		name += " -> " + console.Printable(e.Target)
	}
	return []string{string(e.Type), fmt.Sprintf("%04o", e.Mode), fmt.Sprint(e.Size), console.TimeText(e.ModTime), name}
}
