package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/snapshot/history"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

type wsApplyOptions struct {
	name, dir string
	from      string
	hunks     []string
	branch    string
	message   string
	undo      string
	apply     snapshot.ApplyOptions
}

func (a *command) wsApplyCommand() *cobra.Command {
	var opts wsApplyOptions
	cmd := &cobra.Command{
		Use:   "apply NAME DIR [PATH...] | apply NAME --into DIR|WORKSPACE [PATH...]",
		Short: "Merge the changes of a workspace into a directory of this host, or into another workspace",
		Long: `Merge the changes of a workspace since its origin, or since --from, into a directory of this host or
another workspace: all changes, or those at PATHs or of --hunk. --into names a workspace, or a directory if it
contains a slash or exists as one. Files that changed on both sides are merged line by line. On a conflict nothing
is written and the conflicts are listed; --markers writes them into the files.

The merge is all or nothing: after a crash, the directory is unchanged, or the next apply completes the merge. The
previous state is saved, and --undo returns to it. With --branch the changes become a commit in the git repository
DIR, without touching its work tree, index and hooks.`,
		Example: "  croft ws apply demo .\n  croft ws apply try-2 --into demo\n  croft ws apply demo . src/main.go --hunk src/main.go:2\n  croft ws apply demo . --branch agent/fix -m 'fix the parser'",
		Args:    cobra.MinimumNArgs(1),
		RunE: run(func(ctx context.Context, args []string) error {
			opts.name, args = args[0], args[1:]
			if opts.dir == "" {
				if len(args) == 0 {
					return usagef("no target: give a directory, or --into DIR|WORKSPACE")
				}
				opts.dir, args = args[0], args[1:]
			} else if !isDirectory(opts.dir) {
				return a.wsApplyInto(ctx, opts, args)
			}
			if len(args) > 0 {
				opts.apply.Only = args
			}
			return a.wsApply(ctx, opts)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&opts.dir, "into", "", "directory or workspace to merge into")
	f.StringVar(&opts.from, "from", "", "merge the changes since this snapshot, by id or name")
	f.StringArrayVar(&opts.hunks, "hunk", nil, "PATH:N, apply only the Nth hunk of a file, in the order of ws diff; may be given several times")
	f.BoolVar(&opts.apply.Markers, "markers", false, "write conflicts into the files, with the markers of git")
	f.BoolVar(&opts.apply.DryRun, "dry-run", false, "list the changes without writing them")
	f.StringVar(&opts.branch, "branch", "", "commit to this branch of the git repository DIR instead")
	f.StringVarP(&opts.message, "message", "m", "", "message of the commit")
	f.StringVar(&opts.undo, "undo", "", "undo the apply that printed this id")
	return cmd
}

func (a *command) wsApply(ctx context.Context, opts wsApplyOptions) error {
	dir, err := filepath.Abs(opts.dir)
	if err != nil {
		return err
	}
	if info, err := os.Stat(dir); err != nil {
		return fmt.Errorf("apply: directory %s: %w", printable(opts.dir), fault.Of(err))
	} else if !info.IsDir() {
		return fmt.Errorf("apply: %s: %w: not a directory", printable(opts.dir), fault.InvalidArgument)
	}
	if opts.apply.Hunks, err = parseHunks(opts.hunks); err != nil {
		return err
	}
	settings, err := a.settings()
	if err != nil {
		return err
	}
	// The directory is of this host, so its journal and previous state are, too, even
	// if the workspace is on a server.
	opts.apply.Journals = filepath.Join(settings.Data, "ws", ".journals") // shared with workspaces in place
	store := snapshot.Open(snapshot.Dir(filepath.Join(settings.Data, "store")), nil)
	if opts.undo != "" {
		res, err := snapshot.Undo(ctx, store, opts.undo, dir, &snapshot.UndoOptions{Journals: opts.apply.Journals})
		if err != nil {
			return err
		}
		return a.printAnswer(res, func(w io.Writer) error { return writeLines(w, res.Paths) })
	}
	return a.withAttached(ctx, opts.name, func(c *client.Client, ws *workspace.Workspace) error {
		stop := a.showProgress(ctx, c, ws.ID(), "comparing")
		base, theirs, err := a.comparedTrees(ctx, c, ws, &opts)
		stop()
		if err != nil || base == nil {
			return err
		}
		if opts.branch != "" {
			return a.applyBranch(ctx, base, theirs, dir, opts)
		}
		opts.apply.Undo = store
		opts.apply.Info = driver.SnapshotInfo{Name: "before-apply", Workspace: ws.ID(), Labels: map[string]string{snapshot.CauseLabel: "apply", "croft.apply.dir": dir}}
		here, stop := a.showLocalProgress(ctx, "merging")
		res, err := snapshot.Apply(here, base, theirs, dir, &opts.apply)
		stop()
		if err != nil {
			return err
		}
		if res.Undo != "" {
			a.note("to undo: croft ws apply %s %s --undo %s", opts.name, opts.dir, res.Undo)
		}
		return a.printMerge(res, res.Merged, res.Done || opts.apply.DryRun)
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

// wsApplyInto merges into another workspace.
func (a *command) wsApplyInto(ctx context.Context, opts wsApplyOptions, paths []string) error {
	if opts.branch != "" || opts.undo != "" {
		return usagef("--branch and --undo are for directories; undo a merge into a workspace with croft ws undo")
	}
	hunks, err := parseHunks(opts.hunks)
	if err != nil {
		return err
	}
	return a.withClient(ctx, func(c *client.Client) error {
		stop := a.showProgress(ctx, c, opts.dir, "merging")
		res, err := decodeAnswer[history.Applied](c.Apply(ctx, opts.dir, client.ApplyOptions{
			Source: opts.name, From: opts.from, Paths: paths, Hunks: hunks, Markers: opts.apply.Markers, DryRun: opts.apply.DryRun,
		}))
		stop()
		if err != nil {
			return err
		}
		if res.Undo != "" {
			a.note("to undo: croft ws undo %s, or croft ws restore %s %s --in-place", opts.dir, opts.dir, res.Undo)
		}
		return a.printMerge(res, res.Merged, res.Done || opts.apply.DryRun)
	})
}

// comparedTrees returns the base and the present tree of a workspace, and restricts
// opts.apply to the changed paths. base is nil if nothing changed.
func (a *command) comparedTrees(ctx context.Context, c *client.Client, ws *workspace.Workspace, opts *wsApplyOptions) (base, theirs snapshot.Tree, err error) {
	from := opts.from
	if from == "" {
		from = "@origin"
	}
	d, err := fetchDiff(ctx, c, ws.ID(), client.DiffOptions{From: opts.from, Paths: opts.apply.Only})
	if err != nil {
		return nil, nil, err
	}
	if len(d.Changes) == 0 && (len(opts.apply.Only) > 0 || len(opts.apply.Hunks) > 0) {
		return nil, nil, fmt.Errorf("apply %s: %w: nothing changed at these paths", strings.Join(slices.Concat(opts.apply.Only, slices.Sorted(maps.Keys(opts.apply.Hunks))), ", "), fault.NotFound)
	}
	if len(d.Changes) == 0 {
		a.note("nothing changed")
		return nil, nil, a.printJSONOnly(&snapshot.Applied{Merged: &snapshot.Merged{Applied: []string{}}, Done: true})
	}
	if opts.apply.Only == nil && len(opts.apply.Hunks) == 0 {
		for _, ch := range d.Changes {
			opts.apply.Only = append(opts.apply.Only, ch.Path)
			if ch.From != "" {
				opts.apply.Only = append(opts.apply.Only, ch.From)
			}
		}
	}
	files, err := ws.SnapshotFiles(ctx, from, nil)
	if err != nil {
		return nil, nil, err
	}
	now, err := ws.SnapshotFiles(ctx, "", nil)
	if err != nil {
		return nil, nil, err
	}
	return snapshot.Files(files), snapshot.Files(now), nil
}

func (a *command) applyBranch(ctx context.Context, base, theirs snapshot.Tree, dir string, opts wsApplyOptions) error {
	repo, err := snapshot.OpenRepository(ctx, dir)
	if err != nil {
		return err
	}
	if opts.message == "" {
		opts.message = "Apply the changes of workspace " + opts.name
	}
	res, err := repo.ApplyBranch(ctx, base, theirs, opts.branch, &snapshot.BranchOptions{MergeOptions: opts.apply.MergeOptions, Message: opts.message})
	if err != nil {
		return err
	}
	if res.Done {
		a.note("branch %s is at %s", res.Branch, res.Commit)
	}
	return a.printMerge(res, res.Merged, res.Done || len(res.Conflicts) == 0)
}

// printMerge prints the outcome of a merge. Conflicts are an error unless they were
// written into the files.
func (a *command) printMerge(v any, m *snapshot.Merged, done bool) error {
	err := a.printAnswer(v, func(w io.Writer) error {
		if !done {
			return nil
		}
		return writeLines(w, m.Applied)
	})
	if len(m.Conflicts) == 0 {
		return err
	}
	for _, c := range m.Conflicts {
		a.note("conflict: %s: %s", printable(c.Path), c.Reason)
	}
	if done {
		return err
	}
	return errors.Join(err, fmt.Errorf("apply: %w: %d conflicts; nothing was changed; --markers writes them into the files", fault.Conflict, len(m.Conflicts)))
}

func writeLines(w io.Writer, paths []string) error {
	for _, p := range paths {
		if _, err := fmt.Fprintln(w, printable(p)); err != nil {
			return err
		}
	}
	return nil
}

// parseHunks reads PATH:N.
func parseHunks(list []string) (map[string][]int, error) {
	var hunks map[string][]int
	for _, h := range list {
		at := strings.LastIndexByte(h, ':')
		n, err := strconv.Atoi(h[at+1:])
		if at <= 0 || err != nil || n < 1 {
			return nil, usagef("--hunk %q is not PATH:N", h)
		}
		if hunks == nil {
			hunks = map[string][]int{}
		}
		if !slices.Contains(hunks[h[:at]], n) {
			hunks[h[:at]] = append(hunks[h[:at]], n)
		}
	}
	return hunks, nil
}
