package wscmd

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/fault"
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
			return console.SayOf(fault.NotFound, err, listFiles)
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
					return console.SayOf(fault.NotFound, err, listFiles)
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

func mkdirCommand(a *command) *cobra.Command {
	return &cobra.Command{
		Use:   "mkdir NAME PATH",
		Short: "Make a directory in a workspace, with its parents; it may exist already",
		Args:  cobra.ExactArgs(2),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			return a.WithWorkspace(ctx, args[0], func(ws *workspace.Workspace) error {
				if err := ws.Mkdir(ctx, args[1], &driver.MkdirOptions{Parents: true}); err != nil {
					return err
				}
				return a.PrintJSONOnly(map[string]string{"made": args[1]})
			})
		}),
	}
}

func mvCommand(a *command) *cobra.Command {
	var opts driver.RenameOptions
	cmd := &cobra.Command{
		Use:   "mv NAME FROM TO",
		Short: "Rename a file, a directory or a symlink of a workspace",
		Long: `Rename a file, a directory or a symlink of a workspace to TO, atomically. An existing file is
replaced. TO is the new path itself, never a directory to move into.`,
		Args: cobra.ExactArgs(3),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			return a.WithWorkspace(ctx, args[0], func(ws *workspace.Workspace) error {
				if err := ws.Rename(ctx, args[1], args[2], &opts); err != nil {
					return err
				}
				return a.PrintJSONOnly(map[string]string{"from": args[1], "to": args[2]})
			})
		}),
	}
	cmd.Flags().BoolVar(&opts.CreateOnly, "create-only", false, "refuse to replace an existing file")
	cmd.Flags().BoolVar(&opts.Parents, "parents", false, "make missing directories above TO")
	return cmd
}

func delCommand(a *command) *cobra.Command {
	var opts driver.RemoveOptions
	cmd := &cobra.Command{
		Use:   "del NAME PATH",
		Short: "Remove a file, a symlink or a directory from a workspace (ws rm removes the workspace)",
		Args:  cobra.ExactArgs(2),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			return a.WithWorkspace(ctx, args[0], func(ws *workspace.Workspace) error {
				err := ws.Remove(ctx, args[1], &opts)
				if fault.Of(err) == fault.AlreadyExists && !opts.Recursive { // the directory is not empty
					return fmt.Errorf("%w; remove a directory with its content with -r", err)
				}
				if err != nil {
					return err
				}
				return a.PrintJSONOnly(map[string]string{"removed": args[1]})
			})
		}),
	}
	cmd.Flags().BoolVarP(&opts.Recursive, "recursive", "r", false, "remove a directory with its content")
	return cmd
}

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

const listFiles = "croft ws ls NAME lists the files"
