// Package changecmd shows the changes of a workspace and merges them into a directory of the
// host: croft ws diff and croft ws apply, and the same of croft work.
package changecmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/app"
	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/internal/gclater"
	"github.com/croft-run/croft/internal/history"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace"
)

// ApplyOptions say what Apply and ApplyCommits take from a workspace, and where to.
type ApplyOptions struct {
	Name, Dir string
	from      string
	To        string // snapshot of the workspace that is merged; "" is its present state
	Hunks     []string
	Branch    string
	Message   string
	undo      string
	force     bool
	Commits   bool
	Apply     snapshot.ApplyOptions

	ToUndo string                             // the command that undoes the apply; "" is croft ws apply
	Check  func(d *snapshot.Comparison) error // before anything is applied; nil checks nothing
	After  func(paths []string) error         // after these paths were applied, which its error takes back; nil does nothing
}

// noun returns the command whose subcommands are about the workspace.
func (opts *ApplyOptions) noun() string {
	if opts.ToUndo != "" {
		return "work"
	}
	return "ws"
}

// ApplyCommand returns croft ws apply.
func ApplyCommand(a *console.Console) *cobra.Command {
	var opts ApplyOptions
	var cmd *cobra.Command
	cmd = &cobra.Command{
		Use:   "apply NAME DIR [PATH...] | apply NAME --into DIR|WORKSPACE [PATH...]",
		Short: "Merge the changes of a workspace into a directory of this host, or into another workspace",
		Long: `Merge the changes of a workspace since its origin, or since --from, into a directory of this host or
another workspace: all changes, or those at PATHs or of --hunk. --into names a workspace, or a directory if it
contains a slash or exists as one. Files that changed on both sides are merged line by line. On a conflict nothing
is written, the conflicts are listed and the exit status is 15; --markers writes those of lines into the files, applies the
rest and lists the others, also with exit status 15.

.git is never applied. Autorun files (.envrc, .vscode, .mcp.json and the like, which tools run without being asked) are named and left
out, with exit status 13, until --allow-autorun. Files that .gitignore excludes and caches are counted and left out, unless
--ignored is given.

The merge is all or nothing: after a crash, the next croft command completes it or removes what is left of it. The
previous state is saved, and --undo returns to it. With --branch the changes become a commit in the git repository
DIR, without touching its work tree, index and hooks.

With --commits, instead, the commits that were made inside come out as git would fetch them: verified objects and
references, never configuration, hooks or attributes. Merge them with git.`,
		Example: "  croft ws apply demo .\n  croft ws apply try-2 --into demo\n  croft ws apply demo . src/main.go --hunk src/main.go:2\n  croft ws apply demo . --branch agent/fix -m 'fix the parser'",
		Args:    cobra.MinimumNArgs(1),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			opts.Name, args = args[0], args[1:]
			if err := opts.ParseHunks(); err != nil {
				return err
			}
			if err := opts.checkUndo(cmd.Flags()); err != nil {
				return err
			}
			if err := opts.checkCommits(cmd.Flags()); err != nil {
				return err
			}
			if opts.Dir == "" {
				if len(args) == 0 {
					return console.Usagef("no target: give a directory, or --into DIR|WORKSPACE")
				}
				opts.Dir, args = args[0], args[1:]
			} else if !isDirectory(opts.Dir) {
				return applyInto(ctx, a, opts, args)
			}
			if len(args) > 0 {
				opts.Apply.Only = args
			}
			if opts.undo != "" {
				return applyUndo(ctx, a, opts)
			}
			if opts.Commits {
				return ApplyCommits(ctx, a, opts)
			}
			return Apply(ctx, a, opts)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&opts.Dir, "into", "", "directory or workspace to merge into")
	f.StringVar(&opts.from, "from", "", "merge the changes since this snapshot, by id or name")
	f.StringArrayVar(&opts.Hunks, "hunk", nil, "PATH:N, apply only the Nth hunk of a file, in the order of ws diff; may be given several times")
	f.BoolVar(&opts.Apply.Markers, "markers", false, "write conflicts of lines into the files, with the markers of git")
	f.BoolVar(&opts.Apply.DryRun, "dry-run", false, "list the changes without writing them")
	f.StringVar(&opts.Branch, "branch", "", "commit to this branch of the git repository DIR instead")
	f.StringVarP(&opts.Message, "message", "m", "", "message of the commit")
	f.BoolVar(&opts.Apply.Autorun, "allow-autorun", false, "apply autorun files, too: review them first")
	f.BoolVar(&opts.Apply.Ignored, "ignored", false, "apply files that .gitignore excludes and caches, too")
	f.BoolVar(&opts.Commits, "commits", false, "bring the commits of the workspace into the git repository DIR: as refs/croft/NAME/*, or as the branch of --branch")
	f.StringVar(&opts.undo, "undo", "", "undo the apply to DIR that printed this id; with --dry-run list its files")
	f.BoolVar(&opts.force, "force", false, "with --undo: also if the files were changed since, which are overwritten")
	return cmd
}

// checkUndo refuses flags that have no meaning with or without --undo.
func (opts *ApplyOptions) checkUndo(flags *pflag.FlagSet) error {
	if opts.undo == "" {
		if opts.force {
			return console.Usagef("--force is for --undo")
		}
		return nil
	}
	for _, name := range []string{"from", "hunk", "markers", "branch", "message", "allow-autorun", "ignored", "commits"} {
		if flags.Changed(name) {
			return console.Usagef("--undo takes back a whole apply: leave out --%s", name)
		}
	}
	return nil
}

// checkCommits refuses flags that have no meaning with --commits.
func (opts *ApplyOptions) checkCommits(flags *pflag.FlagSet) error {
	for _, name := range []string{"from", "hunk", "markers", "message", "allow-autorun", "ignored", "dry-run"} {
		if opts.Commits && flags.Changed(name) {
			return console.Usagef("--commits takes whole commits: leave out --%s", name)
		}
	}
	return nil
}

// ParseHunks reads --hunk.
func (opts *ApplyOptions) ParseHunks() (err error) {
	if opts.Apply.Hunks, err = snapshot.ParseHunks(opts.Hunks); err != nil {
		return console.Usagef("--hunk %v", err)
	}
	return nil
}

// hostDir returns the directory to merge into.
func (opts *ApplyOptions) hostDir() (string, error) {
	dir, err := filepath.Abs(opts.Dir)
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(dir); err != nil {
		return "", fmt.Errorf("apply: directory %s: %w", console.Printable(opts.Dir), fault.Of(err))
	} else if !info.IsDir() {
		return "", fmt.Errorf("apply: %s: %w: not a directory", console.Printable(opts.Dir), fault.InvalidArgument)
	}
	return dir, nil
}

// HostStore returns the store and the directory of journals of this host: the directory
// is of this host, so its journal and previous state are, too, even if the workspace
// is on a server. Changes of killed processes are completed first.
func HostStore(ctx context.Context, a *console.Console) (store *snapshot.Store, journals string, err error) {
	gclater.Save()
	settings, err := a.Settings()
	if err != nil {
		return nil, "", err
	}
	store, journals = app.HostStore(settings.Data), app.JournalsDir(settings.Data)
	done, err := snapshot.RecoverAll(ctx, journals, store)
	a.NoteRecovered(done)
	if err != nil { // Apply and Undo refuse a directory of which this is true
		a.Note("croft: an interrupted change of a directory can't be completed: %v", err)
	}
	return store, journals, nil
}

func applyUndo(ctx context.Context, a *console.Console, opts ApplyOptions) error {
	if len(opts.Apply.Only) > 0 {
		return console.Usagef("--undo takes back a whole apply: leave out PATH")
	}
	dir, err := opts.hostDir()
	if err != nil {
		return err
	}
	store, journals, err := HostStore(ctx, a)
	if err != nil {
		return err
	}
	res, err := snapshot.Undo(ctx, store, opts.undo, dir, &snapshot.UndoOptions{Journals: journals, Force: opts.force, DryRun: opts.Apply.DryRun, Workspace: opts.Name})
	if fault.Of(err) == fault.Conflict {
		return fmt.Errorf("%w; --force does so", err)
	}
	if err != nil {
		return err
	}
	return a.PrintAnswer(res, func(w io.Writer) error { return console.WriteLines(w, res.Paths) })
}

// Apply merges the changes of a workspace into a directory of this host.
func Apply(ctx context.Context, a *console.Console, opts ApplyOptions) error {
	dir, err := opts.hostDir()
	if err != nil {
		return err
	}
	store, journals, err := HostStore(ctx, a)
	if err != nil {
		return err
	}
	opts.Apply.Journals, opts.Apply.Undo = journals, store
	opts.Apply.Ours = console.Printable(opts.Dir)
	return a.WithAttached(ctx, opts.Name, func(c console.Workspaces, ws *workspace.Workspace) error {
		base, theirs, d, err := compareForApply(ctx, a, c, ws, &opts)
		if err != nil || len(d.Changes) == 0 {
			return err
		}
		if opts.Check != nil {
			if err := opts.Check(d); err != nil {
				return err
			}
		}
		if opts.Branch != "" {
			return applyBranch(ctx, a, d, base, theirs, dir, opts)
		}
		here, stop := a.ShowLocalProgress(ctx, "merging")
		res, err := snapshot.ApplyCompared(here, base, theirs, d, dir, ws.ID(), opts.Name, opts.Apply)
		stop()
		if err != nil {
			return err
		}
		if opts.After != nil && res.Done && len(res.Conflicts) == 0 {
			if err := opts.After(res.Applied); err != nil {
				return takeBack(context.WithoutCancel(ctx), store, journals, dir, res.Undo, err)
			}
		}
		if res.Undo != "" {
			a.Note("to undo: %s", cmp.Or(opts.ToUndo, fmt.Sprintf("croft ws apply %s %s --undo %s", opts.Name, opts.Dir, res.Undo)))
		}
		if res.Done {
			noteLinksOut(a, dir, res.Applied)
		}
		return printMerge(a, res, res.Merged, res.Done, opts)
	})
}

// takeBack undoes an apply whose next step failed, and returns why.
func takeBack(ctx context.Context, store *snapshot.Store, journals, dir, id string, cause error) error {
	if id == "" { // nothing was written
		return cause
	}
	if _, err := snapshot.Undo(ctx, store, id, dir, &snapshot.UndoOptions{Journals: journals}); err != nil {
		return fmt.Errorf("%w; the changes are in %s, and could not be taken back: %w", cause, console.Printable(dir), err)
	}
	return errors.Join(fmt.Errorf("%w; the changes were taken back", cause), store.Delete(ctx, id))
}

// noteLinksOut names the symlinks that were applied to a directory and lead out of it: who
// writes to one writes elsewhere.
func noteLinksOut(a *console.Console, dir string, paths []string) {
	for _, p := range paths {
		target, err := os.Readlink(filepath.Join(dir, p))
		if err != nil {
			continue
		}
		at := target
		if !filepath.IsAbs(target) {
			at = filepath.Join(dir, filepath.Dir(p), target)
		}
		if rel, err := filepath.Rel(dir, at); err != nil || !filepath.IsLocal(rel) {
			a.Note("%s is a symlink that leads out of the directory: %s", console.Printable(p), console.Printable(target))
		}
	}
}

// ApplyCommits brings commits of a workspace into a git repository.
func ApplyCommits(ctx context.Context, a *console.Console, opts ApplyOptions) error {
	if len(opts.Apply.Only) > 0 {
		return console.Usagef("--commits takes whole commits: leave out PATH")
	}
	dir, err := opts.hostDir()
	if err != nil {
		return err
	}
	repo, err := snapshot.OpenRepository(ctx, dir)
	if err != nil {
		return fmt.Errorf("--commits: %w", err)
	}
	const mostTips = 1000
	known, err := repo.Tips(ctx, mostTips)
	if err != nil {
		return err
	}
	bundle, err := os.CreateTemp("", "croft-bundle-*")
	if err != nil {
		return err
	}
	defer os.Remove(bundle.Name())
	defer bundle.Close()
	var refs []snapshot.ImportedRef
	err = a.WithAttached(ctx, opts.Name, func(_ console.Workspaces, ws *workspace.Workspace) (err error) {
		if refs, err = history.Refs(ctx, ws); err != nil {
			return err
		}
		return history.WriteBundle(ctx, ws, known, bundle)
	})
	var in io.Reader = bundle
	if errors.Is(err, history.ErrNoCommits) {
		in, err = nil, nil
	}
	if err != nil {
		return err
	}
	if _, err := bundle.Seek(0, io.SeekStart); err != nil {
		return err
	}
	res := &snapshot.Imported{Refs: refs}
	if in != nil || len(refs) > 0 {
		res, err = repo.ImportBundle(ctx, in, &snapshot.BundleOptions{Prefix: "refs/croft/" + opts.Name + "/", Branch: opts.Branch, Refs: refs})
	}
	if err != nil {
		return err
	}
	if len(res.Refs)+len(res.Removed) == 0 {
		a.Note("no new commits")
	}
	if len(res.Removed) > 0 {
		a.Note("removed, as the workspace no longer has them: %s", console.Printable(strings.Join(res.Removed, ", ")))
	}
	if len(res.Autorun) > 0 {
		more := ""
		if n := res.AutorunTotal - len(res.Autorun); n > 0 {
			more = fmt.Sprintf(" and %d more", n)
		}
		a.Note("the commits change autorun files, which tools run without being asked: review them before a checkout or merge: %s%s", console.Printable(strings.Join(res.Autorun, ", ")), more)
	}
	return a.PrintAnswer(res, func(w io.Writer) error {
		for _, ref := range res.Refs {
			commits := console.CountText(ref.Commits, "commit")
			if _, err := fmt.Fprintf(w, "%s\t%s\t%s\n", console.Printable(ref.Name), ref.Commit, commits); err != nil {
				return err
			}
		}
		return nil
	})
}

// isDirectory reports whether into is written as a path, or is an existing directory.
func isDirectory(into string) bool {
	if strings.ContainsRune(into, '/') || into == "." || into == ".." {
		return true
	}
	info, err := os.Stat(into)
	return err == nil && info.IsDir()
}

// applyInto merges into another workspace.
func applyInto(ctx context.Context, a *console.Console, opts ApplyOptions, paths []string) error {
	if opts.Branch != "" || opts.undo != "" || opts.Commits {
		return console.Usagef("--branch, --commits and --undo are for directories; undo a merge into a workspace with croft ws undo")
	}
	return a.WithClient(ctx, func(c *client.Client) error {
		stop := a.ShowProgress(ctx, console.Remote{Client: c}, opts.Dir, "merging")
		res, err := c.Apply(ctx, opts.Dir, client.ApplyOptions{
			Source: opts.Name, From: opts.from, Paths: paths, Hunks: opts.Apply.Hunks, Markers: opts.Apply.Markers, DryRun: opts.Apply.DryRun,
			AllowAutorun: opts.Apply.Autorun, Ignored: opts.Apply.Ignored,
		})
		stop()
		if err != nil {
			return err
		}
		if res.Undo != "" {
			a.Note("to undo: croft ws undo %s, or croft ws restore %s %s --in-place", opts.Dir, opts.Dir, res.Undo)
		}
		return printMerge(a, res, res.Merged, res.Done, opts)
	})
}

// compareForApply compares a workspace with the state that it is merged from, and
// the two trees.
func compareForApply(ctx context.Context, a *console.Console, c console.Workspaces, ws *workspace.Workspace, opts *ApplyOptions) (
	base, theirs snapshot.Tree, d *snapshot.Comparison, err error,
) {
	here := ctx
	var stop func()
	if a.Server == "" {
		here, stop = a.ShowLocalProgress(ctx, "comparing")
	} else {
		stop = a.ShowProgress(ctx, c, ws.ID(), "comparing")
	}
	if base, theirs, err = history.Trees(here, ws, opts.from, opts.To); err == nil {
		d, err = FetchDiff(here, c, ws.ID(), client.DiffOptions{From: opts.from, To: opts.To, Paths: opts.Apply.Only, Ignored: opts.Apply.Ignored})
	}
	stop()
	if err != nil {
		return nil, nil, nil, err
	}
	if len(d.Changes) == 0 && (len(opts.Apply.Only) > 0 || len(opts.Apply.Hunks) > 0) {
		return nil, nil, nil, fmt.Errorf("apply %s: %w: nothing changed at these paths", strings.Join(slices.Concat(opts.Apply.Only, opts.Apply.Hunks.Paths()), ", "), fault.NotFound)
	}
	if len(d.Changes) == 0 {
		a.Note("nothing changed in %s", opts.Name)
		res := &snapshot.Applied{Merged: &snapshot.Merged{Applied: []string{}}, Done: true}
		res.AddScope(d)
		return base, theirs, d, printMerge(a, res, res.Merged, false, *opts)
	}
	return base, theirs, d, nil
}

func applyBranch(ctx context.Context, a *console.Console, d *snapshot.Comparison, base, theirs snapshot.Tree, dir string,
	opts ApplyOptions) error {
	repo, err := snapshot.OpenRepository(ctx, dir)
	if err != nil {
		return fmt.Errorf("--branch: %w", err)
	}
	if opts.Message == "" {
		opts.Message = "Apply the changes of workspace " + opts.Name
	}
	opts.Apply.Ours, opts.Apply.Theirs = "branch "+opts.Branch, "workspace "+opts.Name
	opts.Apply.Choose(d)
	d.Changes = nil // some hundred bytes each
	res, err := repo.ApplyBranch(ctx, base, theirs, opts.Branch, &snapshot.BranchOptions{MergeOptions: opts.Apply.MergeOptions, DryRun: opts.Apply.DryRun, Message: opts.Message})
	if err != nil {
		return err
	}
	res.AddScope(d)
	if res.Done {
		a.Note("branch %s is at %s", res.Branch, res.Commit)
	}
	return printMerge(a, res, &res.Merged, res.Done || len(res.Conflicts) == 0, opts)
}

// printMerge prints the outcome of a merge. Conflicts, and autorun files that were left
// out, are errors.
func printMerge(a *console.Console, v any, m *snapshot.Merged, done bool, opts ApplyOptions) error {
	if done && len(m.Applied) == 0 && len(m.Conflicts) == 0 && len(m.LeftOut) == 0 {
		a.Note("nothing to apply: these changes are there already")
	}
	errs := []error{a.PrintAnswer(v, func(w io.Writer) error {
		if !done && !opts.Apply.DryRun {
			return nil
		}
		return console.WriteLines(w, m.Applied)
	})}
	NoteGit(a, m.Git, "; not applied: --commits brings commits")
	NoteScope(a, m.LeftOut)
	marked := 0
	for _, c := range m.Conflicts {
		if c.Marked {
			marked++
		}
		a.Note("conflict: %s: %s%s", console.Printable(c.Path), c.Reason, conflictAdvice(&c, opts))
	}
	switch n := len(m.Conflicts); {
	case n == 0:
	case opts.Apply.Markers && done:
		errs = append(errs, fmt.Errorf("apply: %w: %s: %d with markers in the file, %d left as before; the rest was applied",
			fault.Conflict, console.CountText(n, "conflict"), marked, n-marked))
	case opts.Apply.Markers:
		errs = append(errs, fmt.Errorf("apply: %w: %s; nothing was changed", fault.Conflict, console.CountText(n, "conflict")))
	default:
		errs = append(errs, fmt.Errorf("apply: %w: %s; nothing was changed; --markers writes conflicts of lines into the files", fault.Conflict, console.CountText(n, "conflict")))
	}
	others := ""
	if n := len(m.Applied); done && n > 0 {
		others = fmt.Sprintf(" (the other %s applied)", console.CountText(n, "path"))
	}
	for _, l := range m.LeftOut {
		if l.Reason == snapshot.LeftOutAutorun && len(m.Conflicts) == 0 {
			errs = append(errs, fmt.Errorf("apply: %w: %s left out%s: tools run them without being asked; review them with croft %s diff %s, then add --allow-autorun",
				fault.PermissionDenied, console.CountText(l.Total, "autorun file"), others, opts.noun(), opts.Name))
		}
	}
	return errors.Join(errs...)
}

// conflictAdvice says how to resolve a conflict.
func conflictAdvice(c *snapshot.Conflict, opts ApplyOptions) string {
	switch c.Kind {
	case snapshot.ConflictLines:
		if c.Marked {
			return "; edit the lines between the markers"
		}
		return ""
	case snapshot.ConflictTheirs:
		return "; it stays: remove it, or keep it"
	case snapshot.ConflictMode, snapshot.ConflictType:
		return "; it stays as it is"
	case snapshot.ConflictOurs:
		return "; it stays removed: to take it, use " + takeCommand(c, opts)
	}
	return "; it stays as it is: to take the other one, use " + takeCommand(c, opts)
}

// takeCommand returns the command that takes the file of the workspace in a conflict.
func takeCommand(c *snapshot.Conflict, opts ApplyOptions) string {
	name, from := console.ShellQuote(opts.Name), console.Printable(console.ShellQuote(c.Path))
	if !isDirectory(opts.Dir) {
		return fmt.Sprintf("croft ws get %s %s - | croft ws put %s - %[2]s", name, from, console.ShellQuote(opts.Dir))
	}
	return fmt.Sprintf("croft ws get %s %s %s", name, from, console.Printable(console.ShellQuote(filepath.Join(opts.Dir, c.Path))))
}
