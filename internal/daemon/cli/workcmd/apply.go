package workcmd

import (
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

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/cli/changecmd"
	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/internal/daemon/work"
	"github.com/croft-run/croft/snapshot"
)

type applyOptions struct {
	changecmd.ApplyOptions
	into    string
	commit  bool
	discard bool
}

func applyCommand(a *command) *cobra.Command {
	var opts applyOptions
	cmd := &cobra.Command{
		Use:   "apply [NAME] [PATH...]",
		Short: "Merge the changes of a work into the project",
		Long: `Merge the changes of a work into the project: all, or those at PATHs or of --hunk. Files that changed in the
project meanwhile are merged line by line. On a conflict nothing is written, the conflicts are listed and the exit
status is 15. croft work undo takes an apply back.

With --commit the changes become a commit of the branch that is checked out, with --branch a commit of another branch, without
touching the work tree. Hooks of the repository do not run.

.git is never applied; autorun files are named and left out until --allow-autorun, and ignored files until --ignored.`,
		Example: "  croft work apply\n  croft work apply app-claude src\n  croft work apply --commit -m 'fix the parser'\n  croft work apply --branch agent/fix",
		Args:    cobra.ArbitraryArgs,
		RunE:    console.RunE(func(ctx context.Context, args []string) error { return a.apply(ctx, opts, args) }),
	}
	f := cmd.Flags()
	f.StringVar(&opts.into, "into", "", "apply to this directory instead of the project's")
	f.StringArrayVar(&opts.Hunks, "hunk", nil, "PATH:N, apply only the Nth hunk of a file, in the order of work diff; may be given several times")
	f.BoolVar(&opts.Apply.Markers, "markers", false, "write conflicts of lines into the files, with the markers of git")
	f.BoolVar(&opts.Apply.DryRun, "dry-run", false, "list the changes without writing them")
	f.BoolVar(&opts.commit, "commit", false, "commit the changes")
	f.StringVar(&opts.Branch, "branch", "", "commit to this branch instead, without touching the work tree")
	f.StringVarP(&opts.Message, "message", "m", "", "message of the commit")
	f.BoolVar(&opts.Commits, "commits", false, "bring the commits that were made inside, as refs/croft/NAME/*, or as the branch of --branch")
	f.BoolVar(&opts.Apply.Autorun, "allow-autorun", false, "apply autorun files, too: review them first")
	f.BoolVar(&opts.Apply.Ignored, "ignored", false, "apply files that .gitignore excludes and caches, too")
	f.BoolVar(&opts.discard, "discard", false, "remove the work when all was applied")
	return cmd
}

func (a *command) apply(ctx context.Context, opts applyOptions, args []string) error {
	if opts.commit && (opts.Branch != "" || opts.Commits || opts.Apply.Markers || opts.Apply.DryRun) {
		return console.Usagef("--commit excludes --branch, --commits, --markers and --dry-run")
	}
	if opts.discard && (len(opts.Hunks) > 0 || opts.Apply.DryRun) {
		return console.Usagef("--discard removes the work: leave it out to apply a part")
	}
	if err := opts.ParseHunks(); err != nil {
		return err
	}
	err := a.withWork(ctx, args, func(c console.Workspaces, w *of, rest []string) (err error) {
		opts.Name = w.Name
		if opts.Dir = opts.into; opts.Dir == "" {
			if opts.Dir, err = w.dir(); err != nil {
				return err
			}
		}
		if len(rest) > 0 {
			opts.Apply.Only, err = pathsIn(opts.Dir, rest)
		}
		if err == nil {
			err = a.oneWork(ctx, c, w, rest)
		}
		if err == nil && opts.discard && len(rest) > 0 {
			err = console.Usagef("--discard removes the work: leave it out to apply a part")
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := a.applyWork(ctx, opts); err != nil || !opts.discard {
		return err
	}
	return a.WithWorkspaces(ctx, func(c console.Workspaces) error {
		return errors.Join(console.Remove(ctx, a.Console, c, []string{opts.Name}), a.removeHomes(ctx, c))
	})
}

// oneWork refuses a path that names another work of the project, and no file.
func (a *command) oneWork(ctx context.Context, c console.Workspaces, w *of, paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	list, err := works(ctx, c, w.Labels[work.ProjectLabel])
	if err != nil {
		return err
	}
	for _, ws := range list {
		if _, err := os.Lstat(ws.Name); slices.Contains(paths, ws.Name) && errors.Is(err, fs.ErrNotExist) {
			return console.Usagef("%s is a work, not a path: apply one work after the other, %s and then %s", ws.Name, w.Name, ws.Name)
		}
	}
	return nil
}

// applyWork applies a work whose name, directory and selection are set.
func (a *command) applyWork(ctx context.Context, opts applyOptions) error {
	opts.ToUndo = "croft work undo " + opts.Name
	if opts.into != "" {
		opts.ToUndo += " --into " + console.Printable(opts.into)
	}
	if opts.Commits {
		return changecmd.ApplyCommits(ctx, a.Console, opts.ApplyOptions)
	}
	if opts.commit {
		if opts.Message == "" {
			opts.Message = "Apply the changes of " + opts.Name
		}
		opts.Check = func(d *snapshot.Comparison) error { return checkCommitted(ctx, opts.Dir, d, opts.Apply.Only) }
		opts.After = func(paths []string) error { return a.commitPaths(ctx, opts.Dir, paths, opts.Message) }
	}
	return changecmd.Apply(ctx, a.Console, opts.ApplyOptions)
}

// checkCommitted refuses a commit that would fail for lack of an author, or that would contain
// changes of the user: those of files that the work changed.
func checkCommitted(ctx context.Context, dir string, d *snapshot.Comparison, only []string) error {
	paths := only
	if len(paths) == 0 {
		for _, ch := range d.Changes {
			paths = append(paths, ch.Path)
		}
	}
	// dir has perhaps no repository, or git refuses one of another user.
	if _, err := console.UserGit(ctx, dir, nil, "rev-parse", "--git-dir"); err != nil {
		return fmt.Errorf("apply --commit: %w; nothing was applied", err)
	}
	if _, err := console.UserGit(ctx, dir, nil, "var", "GIT_COMMITTER_IDENT"); err != nil {
		return fmt.Errorf("apply --commit: %w: git does not know who you are, and nothing was applied: run git config user.name NAME and git config user.email ADDRESS", fault.WrongState)
	}
	if err := checkFilters(ctx, dir, paths); err != nil {
		return err
	}
	out, err := console.UserGit(ctx, dir, nil, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all")
	if err != nil {
		return err
	}
	prefix, err := console.UserGit(ctx, dir, nil, "rev-parse", "--show-prefix") // status has paths from the root of the repository
	if err != nil {
		return err
	}
	work := map[string]bool{} // what the work changed
	for _, p := range paths {
		work[path.Join(strings.TrimSuffix(prefix, "\n"), p)] = true
	}
	for entry := range strings.SplitSeq(out, "\x00") {
		const state = 3 // bytes before the path
		if len(entry) <= state {
			continue
		}
		// A path of the work may be a directory.
		for at := strings.TrimSuffix(entry[state:], "/"); ; at = path.Dir(at) {
			if work[at] {
				return fmt.Errorf("apply --commit: %w: files that the work changed have changes of yours that are not committed, such as %s: commit or stash them first",
					fault.WrongState, console.Printable(entry[state:]))
			}
			if at == "." {
				break
			}
		}
	}
	return nil
}

// checkFilters refuses a commit for which git would run a filter of the user's configuration
// that may run files of the project: the work may have changed these.
func checkFilters(ctx context.Context, dir string, paths []string) error {
	out, err := console.UserGit(ctx, dir, paths, "check-attr", "--stdin", "-z", "filter")
	if err != nil {
		return err
	}
	const fields = 3 // path, attribute and value
	seen := map[string]bool{"unspecified": true, "unset": true, "set": true}
	for all := strings.Split(out, "\x00"); len(all) > fields; all = all[fields:] {
		name := all[fields-1]
		if seen[name] {
			continue
		}
		seen[name] = true
		for _, key := range []string{"clean", "process"} {
			command, err := console.UserGit(ctx, dir, nil, "config", "--default", "", "--get", "filter."+name+"."+key)
			if err != nil {
				return err
			}
			if command = strings.TrimSpace(command); filterRunsFiles(dir, command) {
				return fmt.Errorf("apply --commit: %w: git would run the filter %s (%s), which may run files that the work changed; nothing was applied: "+
					"apply without --commit, look at the changes, and commit with git", fault.PermissionDenied, console.Printable(name),
					console.Printable(command))
			}
		}
	}
	return nil
}

// filterRunsFiles reports whether the command of a filter is more than a program in PATH, or
// elsewhere on the host, with arguments that are no files of the project.
func filterRunsFiles(dir, command string) bool {
	command = strings.ReplaceAll(command, `"`, "")
	if strings.ContainsAny(command, "$`;&|<>(){}[]*?!~'\\\n") {
		return true
	}
	for _, word := range strings.Fields(command) {
		at := word
		if !filepath.IsAbs(word) {
			at = filepath.Join(dir, word)
		}
		rel, err := filepath.Rel(dir, at)
		inside := err == nil && filepath.IsLocal(rel)
		if _, err := os.Lstat(at); inside && (err == nil || strings.Contains(word, "/")) {
			return true
		}
	}
	return false
}

// pathspecs are the arguments of git that read paths from standard input.
var pathspecs = []string{"--pathspec-from-file=-", "--pathspec-file-nul"}

// commitPaths commits files of the work tree. Directories, which git does not have, and
// removed files that it did not have are left out.
func (a *command) commitPaths(ctx context.Context, dir string, paths []string, message string) error {
	out, err := console.UserGit(ctx, dir, nil, "ls-files", "-z")
	if err != nil {
		return err
	}
	tracked := map[string]bool{}
	for name := range strings.SplitSeq(out, "\x00") {
		tracked[name] = true
	}
	paths = slices.DeleteFunc(slices.Clone(paths), func(name string) bool {
		info, err := os.Lstat(filepath.Join(dir, name))
		return err != nil && !tracked[name] || err == nil && info.IsDir() && !tracked[name]
	})
	if len(paths) == 0 {
		a.Note("nothing to commit: git has no empty directories")
		return nil
	}
	if _, err := console.UserGit(ctx, dir, paths, append([]string{"add", "--all"}, pathspecs...)...); err != nil {
		return err
	}
	if _, err := console.UserGit(ctx, dir, paths, append([]string{"commit", "--quiet", "--no-verify", "--message", message}, pathspecs...)...); err != nil {
		// The files had no changes that were staged: see checkCommitted.
		_, rerr := console.UserGit(context.WithoutCancel(ctx), dir, paths, append([]string{"reset", "--quiet"}, pathspecs...)...)
		return errors.Join(err, rerr)
	}
	commit, err := console.UserGit(ctx, dir, nil, "rev-parse", "--short", "HEAD")
	if err == nil {
		a.Note("committed %s", strings.TrimSpace(commit))
	}
	return err
}

func undoCommand(a *command) *cobra.Command {
	var force, dryRun bool
	var into string
	cmd := &cobra.Command{
		Use:   "undo [NAME]",
		Short: "Take back the last apply to the project, or the last one of a work",
		Long: `Take back the last apply to the project, or the last one of the work NAME, which may have been
discarded. A commit stays: revert it with git.`,
		Args: cobra.MaximumNArgs(1),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			e, err := a.env(into == "" && len(args) == 0)
			if err != nil {
				return err
			}
			dir := "" // that of the last apply of the work
			switch {
			case into == "" && len(args) == 0:
				dir = e.project.Dir
			case into != "":
				if dir, err = filepath.Abs(into); err != nil {
					return err
				}
			}
			name := ""
			if len(args) == 1 {
				name = args[0]
			}
			return a.undo(ctx, dir, name, snapshot.UndoOptions{Force: force, DryRun: dryRun})
		}),
	}
	f := cmd.Flags()
	f.StringVar(&into, "into", "", "the directory of apply --into")
	f.BoolVar(&force, "force", false, "also if the files were changed since, which are overwritten")
	f.BoolVar(&dryRun, "dry-run", false, "list the files without changing them")
	return cmd
}

func (a *command) undo(ctx context.Context, dir, name string, opts snapshot.UndoOptions) error {
	store, journals, err := changecmd.HostStore(ctx, a.Console)
	if err != nil {
		return err
	}
	real := ""
	if dir != "" {
		if real, err = filepath.EvalSymlinks(dir); err != nil {
			return fmt.Errorf("work: undo in %s: %w", console.Printable(dir), fault.Of(err))
		}
	}
	list, err := store.List(ctx)
	if err != nil && fault.CauseOf(err) != fault.CauseCorrupt {
		return err
	}
	var last *snapshot.Manifest
	for _, m := range list {
		to := m.Labels[snapshot.DirLabel]
		if to == "" || real != "" && to != real || name != "" && m.Workspace != name && m.Labels[snapshot.NameLabel] != name {
			continue
		}
		if last == nil || m.Created.After(last.Created) {
			last = m
		}
	}
	switch {
	case last == nil && name == "":
		err := fmt.Errorf("work: undo: %w: nothing was applied to %s", fault.NotFound, console.Printable(dir))
		return console.Say(err, "croft work list lists the works of the project, croft work apply applies one")
	case last == nil:
		return fmt.Errorf("work: undo: %w: no apply of %s is left to take back", fault.NotFound, name)
	}
	dir = last.Labels[snapshot.DirLabel]
	opts.Journals = journals
	res, err := snapshot.Undo(ctx, store, last.ID, dir, &opts)
	switch {
	case fault.Of(err) == fault.Conflict && name != "":
		return fault.Advise(fmt.Errorf("%w; --force does so; a later apply is undone first", err), "croft work undo without a name")
	case fault.Of(err) == fault.Conflict:
		return fmt.Errorf("%w; --force does so", err)
	}
	if err != nil {
		return err
	}
	what := fmt.Sprintf("the apply of %s of %s", console.OrDash(last.Labels[snapshot.NameLabel]), console.TimeText(last.Created))
	switch {
	case len(res.Paths) == 0: // an undo that was killed and then completed, or git, did it
		a.Note("%s was taken back already: its files are as before; the next croft work undo is about the apply before it", what)
	case !opts.DryRun:
		a.Note("took back %s", what)
	}
	if !opts.DryRun {
		// The next undo is about the apply before it.
		if err := store.Delete(ctx, last.ID); err != nil {
			return err
		}
	}
	return a.PrintAnswer(res, func(w io.Writer) error { return console.WriteLines(w, res.Paths) })
}
