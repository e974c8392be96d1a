package changecmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/internal/gclater"
	"github.com/croft-run/croft/snapshot"
)

// DiffOptions say what Diff compares, and how it prints that.
type DiffOptions struct {
	client.DiffOptions
	Stat, NameOnly bool
	Project        string // directory of the host that the workspace was copied from, "" if it was not copied from one
}

// DiffCommand returns croft ws diff.
func DiffCommand(a *console.Console) *cobra.Command {
	var opts DiffOptions
	var cmd *cobra.Command
	cmd = &cobra.Command{
		Use:   "diff NAME [PATH...]",
		Short: "Show the changes of a workspace as a patch",
		Long: `Show the changes of a workspace as a patch for git apply or patch(1). In a file or a pipe the patch contains
binary files in the format of git diff --binary, which patch(1) refuses: use --binary=false there. On a terminal it
only says that binary files differ, unless --binary is given. Without --from, changes are those since the origin of
the workspace: a snapshot, a template, what was put into it, or else its newest snapshot. Files that .gitignore
excludes and caches are left out and counted; --ignored or their path shows them. Of a repository only the number of new commits
and refs is shown.

--from and --to are the id or name of a snapshot, template:NAME, workspace:NAME, or a directory (dir:PATH, or a path
that begins with / or .). With --server, it is a directory of the server's host.`,
		Example: "  croft ws diff demo\n  croft ws diff demo --stat\n  croft ws diff demo --from before --to after src\n  croft ws diff demo --from ~/src/app\n  croft ws diff demo --from workspace:other",
		Args:    cobra.MinimumNArgs(1),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			if opts.Context < -1 {
				return console.Usagef("--unified %d: give a number of lines, or -1 for none", opts.Context)
			}
			if opts.Stat && opts.NameOnly {
				return console.Usagef("--stat and --name-only exclude each other: give one")
			}
			for flag, side := range map[string]*string{"--from": &opts.From, "--to": &opts.To} {
				var err error
				if *side, err = resolveSide(a, flag, *side); err != nil {
					return err
				}
			}
			opts.Paths = args[1:]
			opts.Text = !opts.NameOnly
			if !cmd.Flags().Changed("binary") {
				_, screen := console.TerminalFile(a.Out)
				opts.Binary = !screen && !a.JSON && !opts.Stat && !opts.NameOnly
			}
			return Diff(ctx, a, args[0], opts)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&opts.From, "from", "", "old state: a snapshot by id or name, template:NAME, workspace:NAME or a directory")
	f.StringVar(&opts.To, "to", "", "new state, instead of the present one of the workspace")
	f.IntVarP(&opts.Context, "unified", "U", 0, "lines around a change; 0 is 3, and -1 none")
	f.BoolVar(&opts.Stat, "stat", false, "print one line for each file, and a total")
	f.BoolVar(&opts.NameOnly, "name-only", false, "print only the kind of change and the path")
	f.BoolVar(&opts.Binary, "binary", false, "include the content of binary files (default unless on a terminal or with --json)")
	f.BoolVar(&opts.Ignored, "ignored", false, "also compare files that .gitignore excludes, and caches")
	f.BoolVar(&opts.CrossSession, "cross-session", false, "allow snapshots of other sessions")
	return cmd
}

// resolveSide returns one side of a comparison in the form of the API: a directory is
// dir: and its absolute path.
func resolveSide(a *console.Console, flag, side string) (string, error) {
	dir, named := strings.CutPrefix(side, "dir:")
	if !named && !filepath.IsAbs(side) && side != "." && side != ".." && !strings.HasPrefix(side, "./") && !strings.HasPrefix(side, "../") {
		return side, nil
	}
	if a.Server != "" && !filepath.IsAbs(dir) {
		return "", console.Usagef("%s %s is relative: with --server, give a directory of the server's host from its root", flag, dir)
	}
	abs, err := filepath.Abs(dir)
	return "dir:" + abs, err
}

// Diff prints the changes of a workspace.
func Diff(ctx context.Context, a *console.Console, name string, opts DiffOptions) error {
	return a.WithWorkspaces(ctx, func(c console.Workspaces) error {
		stop := a.ShowProgress(ctx, c, name, "comparing")
		d, err := FetchDiff(ctx, c, name, opts.DiffOptions)
		stop()
		if err != nil {
			return err
		}
		NoteGit(a, d.Git, "")
		NoteScope(a, d.LeftOut)
		noteUnchanged(ctx, a, c, d, opts)
		return a.PrintAnswer(d, func(w io.Writer) error {
			switch {
			case opts.Stat:
				return writeStat(a, w, d)
			case opts.NameOnly:
				for _, ch := range d.Changes {
					if _, err := fmt.Fprintf(w, "%s\t%s\n", ch.Kind, console.Printable(ch.Path)); err != nil {
						return err
					}
				}
				return nil
			}
			if opts.Binary {
				noteLeftOut(a, d)
			}
			return writePatch(a, w, d)
		})
	})
}

// NoteGit prints the repositories that differ, and a hint.
func NoteGit(a *console.Console, list []snapshot.GitChange, hint string) {
	for _, g := range list {
		a.Note("%s: %s, %s%s", console.Printable(g.Path), console.CountText(g.Commits, "commit"), console.CountText(g.Refs, "ref"), hint)
	}
}

// NoteScope prints the changes that were left out.
func NoteScope(a *console.Console, list []snapshot.LeftOut) { NoteScopeFor(a, list, "") }

// NoteScopeFor is NoteScope for a command without the flags that include them: other, such
// as "croft work apply ", has them.
func NoteScopeFor(a *console.Console, list []snapshot.LeftOut, other string) {
	for _, l := range list {
		about := map[string]string{
			snapshot.LeftOutIgnored: " that changed (" + other + "--ignored)", snapshot.LeftOutAutorun: " that changed (" + other + "--allow-autorun)",
			snapshot.LeftOutSpecial: " (FIFOs, sockets and devices)",
		}[l.Reason]
		a.Note("left out: %s%s: %s", console.CountText(l.Total, l.Reason+" file"), about, FirstPaths(l.Paths, l.Total))
	}
}

// FirstPaths lists the first of paths, of which there are total.
func FirstPaths(paths []string, total int) string {
	names := make([]string, min(len(paths), 5))
	for i := range names {
		names[i] = console.Printable(paths[i])
	}
	if total > len(names) {
		names = append(names, "...")
	}
	return strings.Join(names, ", ")
}

// noteUnchanged names the paths that were asked for and have no change.
func noteUnchanged(ctx context.Context, a *console.Console, c console.Workspaces, d *snapshot.Comparison, opts DiffOptions) {
	for _, p := range opts.Paths {
		at := path.Clean("/" + p)
		isBelow := func(name string) bool { return at == "/" || "/"+name == at || strings.HasPrefix("/"+name, at+"/") }
		if slices.ContainsFunc(d.Changes, func(c snapshot.FileChange) bool { return isBelow(c.Path) || c.From != "" && isBelow(c.From) }) {
			continue
		}
		also := ""
		if _, err := os.Lstat(filepath.Join(opts.Project, at)); opts.Project != "" && errors.Is(err, fs.ErrNotExist) {
			also = ", and the project has no such file, nor a work of that name"
		}
		if opts.Project == "" && !strings.Contains(p, "/") {
			if _, err := c.Show(ctx, p); err == nil {
				also = "; --from workspace:" + p + " compares with the workspace of that name"
			}
		}
		a.Note("no change at %s%s", console.Printable(p), also)
	}
}

// noteLeftOut lists the files that are too large for a patch.
func noteLeftOut(a *console.Console, d *snapshot.Comparison) {
	var names []string
	for i := range d.Changes {
		if c := &d.Changes[i]; (c.Binary || c.TooBig) && c.Patch == "" {
			names = append(names, console.Printable(c.Path))
		}
	}
	if len(names) > 0 {
		a.Note("too large for a patch, so git apply will refuse it (use croft ws apply): %s", strings.Join(names, ", "))
	}
}

// writePatch writes a patch. On a terminal it is in colour, and control characters in it,
// with which a file could rewrite what the user reads, are escaped.
func writePatch(a *console.Console, w io.Writer, d *snapshot.Comparison) error {
	if _, ok := console.TerminalFile(w); !ok {
		return d.WriteUnified(w)
	}
	return WritePrintablePatch(a, w, d)
}

// WritePrintablePatch writes a patch for a person, with its control characters escaped.
func WritePrintablePatch(a *console.Console, w io.Writer, d *snapshot.Comparison) error {
	var b bytes.Buffer
	if err := d.WriteUnified(&b); err != nil {
		return err
	}
	text := console.PrintableText(b.String())
	if !console.UseColour(w) {
		_, err := io.WriteString(w, text)
		return err
	}
	for line := range strings.Lines(text) {
		if colour := PatchColour(line); colour != "" {
			line = colour + strings.TrimSuffix(line, "\n") + "\x1b[m\n"
		}
		if _, err := io.WriteString(w, line); err != nil {
			return err
		}
	}
	return nil
}

// PatchColour returns the control sequence that starts the colour of a line of a patch, ""
// for none.
func PatchColour(line string) string {
	switch {
	case strings.HasPrefix(line, "diff "), strings.HasPrefix(line, "--- "), strings.HasPrefix(line, "+++ "):
		return "\x1b[1m"
	case strings.HasPrefix(line, "@@"):
		return "\x1b[36m"
	case strings.HasPrefix(line, "+"):
		return "\x1b[32m"
	case strings.HasPrefix(line, "-"):
		return "\x1b[31m"
	}
	return ""
}

// writeStat writes a line for each file, with the pluses and minuses in colour on
// a terminal.
func writeStat(a *console.Console, w io.Writer, d *snapshot.Comparison) error {
	if !console.UseColour(w) {
		return d.WriteStat(w)
	}
	var b bytes.Buffer
	if err := d.WriteStat(&b); err != nil {
		return err
	}
	for line := range strings.Lines(b.String()) {
		// A name may contain " | ", so the last one counts.
		if at := strings.LastIndex(line, " | "); at >= 0 {
			bar := strings.TrimLeft(line[at+3:], "0123456789 ")
			plus := strings.Count(bar, "+")
			if minus := strings.Count(bar, "-"); bar == strings.Repeat("+", plus)+strings.Repeat("-", minus)+"\n" {
				line = strings.TrimSuffix(line, bar) + "\x1b[32m" + strings.Repeat("+", plus) + "\x1b[31m" + strings.Repeat("-", minus) + "\x1b[m\n"
			}
		}
		if _, err := io.WriteString(w, line); err != nil {
			return err
		}
	}
	return nil
}

// FetchDiff returns the changes of a workspace.
func FetchDiff(ctx context.Context, c console.Workspaces, name string, opts client.DiffOptions) (*snapshot.Comparison, error) {
	gclater.Save()
	return c.Diff(ctx, name, opts)
}
