package snapshot

import (
	"context"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/croft-run/croft/internal/autorun"
	"github.com/croft-run/croft/internal/search"
	"github.com/croft-run/croft/workspace/driver"
)

// addLeftOut adds a path to the list of its reason.
func addLeftOut(list []LeftOut, reason, name string) []LeftOut {
	at := slices.IndexFunc(list, func(l LeftOut) bool { return l.Reason == reason })
	if at < 0 {
		at, list = len(list), append(list, LeftOut{Reason: reason})
	}
	l := &list[at]
	if l.Total++; len(l.Paths) < MaxLeftOutListed {
		l.Paths = append(l.Paths, name)
	}
	return list
}

// caches are .gitignore patterns of files that tools make again. A .gitignore can
// include them.
var caches = (*search.Ignore)(nil).With(".", []byte(strings.Join([]string{
	"node_modules/", "__pycache__/", "*.pyc", ".venv/", ".pytest_cache/", ".mypy_cache/", ".ruff_cache/", ".tox/", ".nox/",
	".cache/", ".npm/", ".pnpm-store/", ".gradle/", ".DS_Store",
}, "\n")))

// IsCache reports whether a path is in the list of caches, which tools make again.
func IsCache(name string) bool {
	for dir := name; dir != "."; dir = path.Dir(dir) {
		if caches.Ignores(dir, true) {
			return true
		}
	}
	return false
}

// ignoreState is the rules of .gitignore files on the way to a directory, of both
// trees of a comparison.
type ignoreState struct {
	old, now *search.Ignore
	ignored  bool // the directory is ignored itself
	named    bool // it would be, but the caller named it
}

// enter adds the rules of a directory.
func (s *ignoreState) enter(ctx context.Context, a, b Directory, old, now []Node, at string) (err error) {
	if s.old, err = addRules(ctx, s.old, a, old, at); err == nil {
		s.now, err = addRules(ctx, s.now, b, now, at)
	}
	return err
}

func addRules(ctx context.Context, rules *search.Ignore, dir Directory, nodes []Node, at string) (*search.Ignore, error) {
	i := slices.IndexFunc(nodes, func(n Node) bool { return n.Name == search.IgnoreFile })
	if i < 0 || nodes[i].Type != driver.TypeFile {
		return rules, nil
	}
	r, err := dir.Open(ctx, &nodes[i])
	if err != nil {
		return nil, err
	}
	defer r.Close()
	text, err := io.ReadAll(io.LimitReader(r, 1<<20))
	return rules.With(path.Clean("./"+at), text), err
}

// ignores reports whether a path is ignored, of which either node may be nil. As
// with a tracked file of git, rules that the new tree adds do not hide a path of
// the old one.
func (s *ignoreState) ignores(name string, o, n *Node) bool {
	if n != nil && !s.now.Ignores(name, n.Type == driver.TypeDir) {
		return false
	}
	return o == nil || s.old.Ignores(name, o.Type == driver.TypeDir)
}

// dropAutorun removes the changes of autorun files, and lists them in m.out.
func (m *merger) dropAutorun(ctx context.Context, changes []FileChange) ([]FileChange, error) {
	kept, dropped, err := m.splitAutorun(ctx, changes)
	var names []string
	for _, c := range dropped {
		if repo := autorun.RepositoryIn(c.Path); repo != "" && !autorun.IsFile(c.Path) {
			if !slices.Contains(names, repo) {
				names = append(names, repo) // not each of its many files
			}
		} else if !c.IsDir() {
			names = append(names, c.Path)
		}
	}
	for _, name := range topFirst(names) {
		m.out.LeftOut = addLeftOut(m.out.LeftOut, LeftOutAutorun, name)
	}
	return kept, err
}

// splitAutorun splits changes into those of other files and those of autorun files.
func (m *merger) splitAutorun(ctx context.Context, changes []FileChange) (kept, dropped []FileChange, err error) {
	targets, err := m.autorunTargets(ctx, autorun.Links(), changes)
	if err != nil {
		return nil, nil, err
	}
	repos := map[string]bool{}
	isRepository := func(dir string) (is bool) {
		is, known := repos[dir]
		if !known && err == nil {
			is, err = m.isRepository(ctx, dir)
			repos[dir] = is
		}
		return is
	}
	for _, c := range changes {
		folded := strings.ToLower(c.Path)
		drop := c.IsAutorun() || targets.contains(folded) || isRepositoryPart(c.Path) && isRepository(".")
		if c.New != nil && c.New.Type == driver.TypeSymlink {
			drop = drop || targets.hasBelow(folded)
		}
		for dir := path.Dir(c.Path); !drop && dir != "."; dir = path.Dir(dir) {
			drop = isRepository(dir)
		}
		if drop {
			dropped = append(dropped, c)
		} else {
			kept = append(kept, c)
		}
	}
	return kept, dropped, err
}

// isRepository reports whether git would take a directory of the merge for a
// repository, and so use its configuration and hooks.
func (m *merger) isRepository(ctx context.Context, dir string) (bool, error) {
	has := func(name string) (bool, error) {
		name = path.Join(dir, name)
		if m.hasName != nil {
			return m.hasName(ctx, name)
		}
		for _, t := range []Tree{m.theirs, m.ours} {
			if n, err := statAt(ctx, t, name); n != nil || err != nil {
				return n != nil, err
			}
		}
		return false, nil
	}
	head, err := has("HEAD")
	if !head || err != nil {
		return false, err
	}
	common, err := has("commondir")
	if common || err != nil {
		return common, err
	}
	for _, name := range []string{"objects", "refs"} {
		if there, err := has(name); !there || err != nil {
			return false, err
		}
	}
	return true, nil
}

// isRepositoryPart reports whether a path lies in an entry of a bare repository at the
// top: without these changes, git does not take the top for a repository, or not for
// one of the workload.
func isRepositoryPart(name string) bool {
	first, _, _ := strings.Cut(name, "/")
	return slices.ContainsFunc([]string{
		"HEAD", "objects", "refs", "packed-refs", "commondir", "config", "config.worktree", "hooks", "info", "modules", "worktrees", "gitdir",
	}, func(part string) bool { return strings.EqualFold(part, first) })
}
