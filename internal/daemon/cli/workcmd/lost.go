package workcmd

import (
	"context"
	"path"
	"path/filepath"
	"slices"

	"github.com/croft-run/croft/internal/daemon/cli/changecmd"
	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/internal/history"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace"
)

// lostWork is what a work has and its project does not.
type lostWork struct {
	changes int
	ignored []string // ignored files, without caches
	commits []snapshot.GitChange
}

// allApplied reports whether the project of a work has all of it. If not, it says what
// is missing.
func (a *command) allApplied(ctx context.Context, c console.Workspaces, w *of) bool {
	if w.Dir != "" { // in place: there is nothing to apply
		return true
	}
	lost := &lostWork{}
	dir, err := w.dir()
	if err == nil {
		err = a.WithOpened(ctx, c, w.ID, func(ws *workspace.Workspace) (err error) {
			lost, err = findLost(ctx, ws, dir)
			return err
		})
	}
	if err != nil {
		a.Note("croft: the changes of %s may be missing in the project: %v", w.Name, err)
		return false
	}
	if lost.changes > 0 {
		a.Note("croft: the project does not have %s of %s", console.CountText(lost.changes, "change"), w.Name)
	}
	if len(lost.ignored) > 0 {
		a.Note("croft: the project does not have %s of %s (croft work apply --ignored): %s", console.CountText(len(lost.ignored), "ignored file"), w.Name, changecmd.FirstPaths(lost.ignored, len(lost.ignored)))
	}
	for _, g := range lost.commits {
		a.Note("croft: the project does not have the history of %s in %s (croft work apply --commits): %s, %s",
			console.Printable(g.Path), w.Name, console.CountText(g.Commits, "commit"), console.CountText(g.Refs, "ref"))
	}
	return lost.changes+len(lost.ignored)+len(lost.commits) == 0
}

// findLost compares a work with the directory of its project.
func findLost(ctx context.Context, ws *workspace.Workspace, dir string) (*lostWork, error) {
	base, theirs, err := history.Trees(ctx, ws, "", "")
	if err != nil {
		return nil, err
	}
	ours := snapshot.HostDir(dir, nil)
	res, err := snapshot.Merge(ctx, base, ours, theirs, &snapshot.MergeOptions{Autorun: true})
	if err != nil {
		return nil, err
	}
	lost := &lostWork{changes: len(res.Applied) + len(res.Conflicts)}
	if slices.ContainsFunc(res.LeftOut, func(l snapshot.LeftOut) bool { return l.Reason == snapshot.LeftOutIgnored }) {
		all, err := snapshot.Merge(ctx, base, ours, theirs, &snapshot.MergeOptions{Autorun: true, Ignored: true})
		if err != nil {
			return nil, err
		}
		counted := map[string]bool{} // as changes, or by what is in a directory
		for _, name := range mergedPaths(&res.Merged) {
			counted[name] = true
		}
		for _, name := range mergedPaths(&all.Merged) {
			counted[path.Dir(name)] = true
		}
		lost.ignored = slices.DeleteFunc(mergedPaths(&all.Merged), func(name string) bool { return counted[name] || snapshot.IsCache(name) })
	}
	lost.commits, err = lostCommits(ctx, base, theirs, dir, res.Git)
	return lost, err
}

// mergedPaths returns the paths at which a merge changes something, or would but for a conflict.
func mergedPaths(m *snapshot.Merged) []string {
	paths := slices.Clone(m.Applied)
	for _, c := range m.Conflicts {
		paths = append(paths, c.Path)
	}
	return paths
}

// lostCommits returns the changed repositories of a work in which a branch, tag, stash or HEAD is a
// commit that the repository of the project does not have.
func lostCommits(ctx context.Context, base, theirs snapshot.Tree, dir string, changed []snapshot.GitChange) ([]snapshot.GitChange, error) {
	var lost []snapshot.GitChange
	for _, g := range changed {
		tips, err := snapshot.NewTips(ctx, base, theirs, g.Path)
		if err != nil {
			return nil, err
		}
		repo, err := snapshot.OpenRepository(ctx, filepath.Join(dir, path.Dir(g.Path)))
		if slices.ContainsFunc(tips, func(id string) bool {
			if err == nil {
				_, err = repo.Commit(ctx, id)
			}
			return err != nil
		}) {
			lost = append(lost, g)
		}
	}
	return lost, ctx.Err()
}
