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

type grepOptions struct {
	name, pattern string
	context       int
	grep          driver.GrepOptions
}

func grepCommand(a *command) *cobra.Command {
	var opts grepOptions
	cmd := &cobra.Command{
		Use:   "grep NAME PATTERN [PATH]",
		Short: "Search the files of a workspace for a regular expression (RE2)",
		Long: `Search the files of a workspace for a regular expression (RE2) and print path:line:text. Files
that were not searched are listed on standard error. No match is not an error.`,
		Args: cobra.RangeArgs(2, 3),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			opts.name, opts.pattern = args[0], args[1]
			if len(args) == 3 {
				opts.grep.Path = args[2]
			}
			if opts.context < 0 {
				return console.Usagef("--context %d: give a number of lines, at least 0", opts.context)
			}
			if opts.context > 0 {
				opts.grep.Before, opts.grep.After = max(opts.grep.Before, opts.context), max(opts.grep.After, opts.context)
			}
			return a.grep(ctx, opts)
		}),
	}
	f := cmd.Flags()
	g := &opts.grep
	f.BoolVarP(&g.IgnoreCase, "ignore-case", "i", false, "ignore case")
	f.BoolVarP(&g.Literal, "fixed-strings", "F", false, "the pattern is text, not a regular expression")
	f.BoolVarP(&g.Multiline, "multiline", "U", false, "a match may span lines")
	f.StringArrayVar(&g.Include, "include", nil, "search only files that match this glob")
	f.StringArrayVar(&g.Exclude, "exclude", nil, "do not search files that match this glob")
	f.BoolVar(&g.GitIgnore, "gitignore", false, "leave out files that .gitignore files exclude")
	f.BoolVar(&g.Hidden, "hidden", false, "also search names that start with a dot")
	f.IntVarP(&g.Before, "before-context", "B", 0, "lines before a match")
	f.IntVarP(&g.After, "after-context", "A", 0, "lines after a match")
	f.IntVarP(&opts.context, "context", "C", 0, "lines before and after a match")
	f.IntVarP(&g.MaxPerFile, "max-count", "m", 0, "maximum number of matches per file; 0 is no limit")
	f.IntVar(&g.MaxMatches, "max-matches", 0, "maximum number of matches; 0 is 10000")
	f.Int64Var(&g.MaxFileSize, "max-file-size", 0, "skip larger files; 0 is 10 MiB, -1 no limit")
	f.DurationVar(&g.MaxTime, "max-time", 0, "maximum time; 0 is no limit")
	return cmd
}

func (a *command) grep(ctx context.Context, opts grepOptions) error {
	return a.WithWorkspace(ctx, opts.name, func(ws *workspace.Workspace) error {
		res, err := ws.Grep(ctx, opts.pattern, &opts.grep)
		if err != nil {
			return err
		}
		a.grepNotes(res)
		return a.PrintAnswer(res, func(w io.Writer) error { return printMatches(w, res, opts.grep.Before+opts.grep.After > 0) })
	})
}

// grepNotes prints which files were not searched, and why.
func (a *command) grepNotes(res driver.GrepResult) {
	for _, s := range res.Skipped {
		a.Note("skipped %s: %s", console.Printable(s.Path), s.Reason)
	}
	if more := res.Skips - len(res.Skipped); more > 0 {
		a.Note("skipped %d more", more)
	}
	switch {
	case res.Truncated != "":
		a.Note("ended early: the limit on %s was reached", res.Truncated)
	case len(res.Matches) == 0:
		a.Note("no match in %d files", res.Searched)
	}
}

func printMatches(out io.Writer, res driver.GrepResult, withContext bool) error {
	w := bufio.NewWriter(out)
	for i, m := range res.Matches {
		path := console.Printable(m.Path)
		if withContext && i > 0 {
			fmt.Fprintln(w, "--")
		}
		for j, line := range m.Before {
			fmt.Fprintf(w, "%s-%d-%s\n", path, m.Line-len(m.Before)+j, line)
		}
		fmt.Fprintf(w, "%s:%d:%s\n", path, m.Line, m.Text)
		for j, line := range m.After {
			fmt.Fprintf(w, "%s-%d-%s\n", path, m.Line+1+j, line)
		}
	}
	return w.Flush()
}
