package eval

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/croft-run/croft/eval/session"
	"github.com/croft-run/croft/eval/suite"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/internal/locktmp"
	"github.com/croft-run/croft/internal/paths"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// Bounds of the comparison of a workspace before and after a session. Beyond them the
// diff lists names without text.
const (
	maxDiffFile     = 1 << 20  // bytes of a file whose text is compared
	maxDiffBytes    = 32 << 20 // of all files that are copied before the agent starts
	maxDiffFiles    = 4000     // files that are copied
	maxEntries      = 200_000  // entries of a workspace that is compared
	maxChangedPaths = 5000     // paths of ChangedPaths that are compared with stat; beyond, the whole tree is listed
)

// A templateListing is the list of a template's files, read once.
type templateListing struct {
	once  sync.Once
	infos map[string]driver.Info
	err   error
}

// load lists a directory of the host.
func (l *templateListing) load(ctx context.Context, dir string) (map[string]driver.Info, error) {
	l.once.Do(func() {
		d, end, err := hostWorkspace(dir)
		if err != nil {
			l.err = err
			return
		}
		ws, err := workspace.New(driver.NewID(), d, nil, nil)
		if err != nil {
			l.err = errors.Join(err, end(ctx))
			return
		}
		l.infos, l.err = listFiles(ctx, ws, isNotGitPath)
		l.err = errors.Join(l.err, ws.Close(ctx))
	})
	return l.infos, l.err
}

// listFiles lists the files of a workspace by path, without those that are not content.
func listFiles(ctx context.Context, ws *workspace.Workspace, isContent func(name string) bool) (map[string]driver.Info, error) {
	all, more, err := listEntries(ctx, ws, maxEntries, isContent)
	if err != nil {
		return nil, err
	}
	if more {
		return nil, fmt.Errorf("eval: what changed: %w: the workspace has more than %d entries, which is how many are looked at", fault.ResourceExhausted, maxEntries)
	}
	infos := make(map[string]driver.Info, len(all))
	for _, i := range all {
		if i.Type != driver.TypeDir {
			infos[i.Path] = i
		}
	}
	return infos, nil
}

// isNotGitPath reports whether a path is neither .git at the top of the workspace nor
// below it.
func isNotGitPath(name string) bool { return !paths.InsideName(".git", name) }

// A beforeState records a workspace as it was before the agent started.
type beforeState struct {
	pure     bool // the workspace is an unchanged copy of the template
	infos    map[string]driver.Info
	template string // host directory with the text of files that are as in the template
	original map[string]driver.Info
	stash    string   // host directory with the text of other files
	own      []string // paths in the workspace that the run itself writes: no content
}

// isContent reports whether a path is neither the run's own nor below .git.
func (b *beforeState) isContent(name string) bool {
	return isNotGitPath(name) && !slices.ContainsFunc(b.own, func(own string) bool { return paths.InsideName(own, name) })
}

// ownPaths lists what the run writes while agents work: results, with the homes of
// agents, tapes and reports. Of a directory of all runs that is itself root, it is only
// the directory of this run. Paths are relative to root; others are left out.
func (p *plan) ownPaths(root string) []string {
	var own []string
	runs := filepath.Dir(p.runDir)
	if runs == root {
		runs = p.runDir
	}
	for _, path := range slices.Concat([]string{runs, p.Record}, p.Reports) {
		if path == "" {
			continue
		}
		if rel, err := filepath.Rel(root, files.Resolve(path)); err == nil && filepath.IsLocal(rel) && rel != "." {
			own = append(own, filepath.ToSlash(rel))
		}
	}
	return own
}

// snapshotBefore records the state of a workspace before the agent starts. Small files
// that are not in the template (made by a bootstrap command, or present in place) are
// copied to a stash.
func (v *environments) snapshotBefore(ctx context.Context, d *preparedEnv) (b *beforeState, err error) {
	b = &beforeState{}
	if d.env.onHost {
		b.own = v.plan.ownPaths(d.env.Dir())
	}
	if d.path != "" && v.template != "" {
		b.template = v.template
		if b.original, err = v.templateFiles.load(ctx, v.template); err != nil {
			return nil, err
		}
		if d.file.Bootstrap == nil {
			b.infos, b.pure = b.original, true
			return b, nil
		}
	}
	if d.path != "" && d.file.Bootstrap == nil {
		return b, nil // it is empty
	}
	if b.infos, err = listFiles(ctx, d.env.Workspace, b.isContent); err != nil {
		return nil, err
	}
	return b, b.stashFiles(ctx, d.env.Workspace)
}

// stashFiles copies the text of files that the template does not have.
func (b *beforeState) stashFiles(ctx context.Context, ws *workspace.Workspace) (err error) {
	if b.stash, err = locktmp.Make(suite.ScratchPrefix); err != nil {
		return err
	}
	total, copied := int64(0), 0
	for name, info := range b.infos {
		if was, ok := b.original[name]; ok && sameInfo(was, info) || info.Type != driver.TypeFile || info.Size > maxDiffFile || strings.Contains(name, "node_modules/") {
			continue
		}
		if total, copied = total+info.Size, copied+1; total > maxDiffBytes || copied > maxDiffFiles {
			return nil
		}
		if err := exportText(ctx, ws, info, filepath.Join(b.stash, name)); err != nil && fault.Of(err) != fault.NotFound {
			return err
		}
	}
	return nil
}

func (b *beforeState) removeStash() error {
	if b == nil || b.stash == "" {
		return nil
	}
	return locktmp.Remove(b.stash)
}

func exportText(ctx context.Context, ws *workspace.Workspace, info driver.Info, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	body, _, err := ws.Read(ctx, info.Path, nil)
	if err != nil {
		return err
	}
	defer body.Close() // only read
	return writeFile(io.LimitReader(body, maxDiffFile), to, info.Mode.Perm()|0o600)
}

// sameInfo reports whether type, size, mode, target and modification time are equal.
func sameInfo(a, b driver.Info) bool {
	return a.Type == b.Type && a.Size == b.Size && a.Mode == b.Mode && a.Target == b.Target && a.ModTime.Equal(b.ModTime)
}

// originalText returns a host path with the text of a file before the agent started, if
// it is known.
func (b *beforeState) originalText(name string) (path string, known bool) {
	if was, ok := b.original[name]; ok && sameInfo(was, b.infos[name]) {
		return filepath.Join(b.template, name), was.Type == driver.TypeFile && was.Size <= maxDiffFile
	}
	if b.stash == "" {
		return "", false
	}
	path = filepath.Join(b.stash, name)
	_, err := os.Lstat(path)
	return path, err == nil
}

// changes lists what an agent changed.
type changes struct {
	list []session.Change
	diff []fileDiff // text of each file whose text is known
}

type fileDiff struct {
	path string
	text string
}

// changesSince compares a workspace with its state before.
func (b *beforeState) changesSince(ctx context.Context, ws *workspace.Workspace) (*changes, error) {
	now, names, err := b.changedNames(ctx, ws)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return &changes{}, nil
	}
	slices.Sort(names)
	return b.diffFiles(ctx, ws, now, names)
}

// changedNames returns the names of entries that differ, and the present entries. For an
// unchanged copy of a template only the provider's ChangedPaths are compared, if it
// reports them.
func (b *beforeState) changedNames(ctx context.Context, ws *workspace.Workspace) (now map[string]driver.Info, names []string, err error) {
	was := b.infos
	if b.pure {
		touched, terr := ws.ChangedPaths(ctx)
		if terr == nil && len(touched) <= maxChangedPaths {
			was = b.originalInfos(touched)
			now, err = b.statFiles(ctx, ws, was, touched)
		}
	}
	if now == nil && err == nil {
		now, err = listFiles(ctx, ws, b.isContent)
	}
	if err != nil {
		return nil, nil, err
	}
	for name, info := range now {
		if was, ok := b.infos[name]; !ok || !sameInfo(was, info) {
			names = append(names, name)
		}
	}
	for name := range was {
		if _, ok := now[name]; !ok {
			names = append(names, name)
		}
	}
	return now, names, nil
}

// originalInfos returns the entries before the session that are at a changed path, or
// below a replaced one.
func (b *beforeState) originalInfos(touched []driver.ChangedPath) map[string]driver.Info {
	some := map[string]driver.Info{}
	whole := map[string]bool{}
	for _, t := range touched {
		whole[t.Path] = whole[t.Path] || t.Replaced
		if info, ok := b.infos[t.Path]; ok {
			some[t.Path] = info
		}
	}
	if len(whole) == 0 {
		return some
	}
	for name, info := range b.infos {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if whole[dir] {
				some[name] = info
				break
			}
		}
	}
	return some
}

// statFiles stats the changed paths and the entries of was. Entries that no longer exist
// are left out.
func (b *beforeState) statFiles(ctx context.Context, ws *workspace.Workspace, was map[string]driver.Info, touched []driver.ChangedPath) (map[string]driver.Info, error) {
	now := map[string]driver.Info{}
	look := func(name string) error {
		if _, ok := now[name]; ok || !b.isContent(name) {
			return nil
		}
		info, err := ws.Stat(ctx, name, &driver.StatOptions{NoFollow: true})
		if err == nil && info.Type != driver.TypeDir {
			now[name] = info
		}
		if code := fault.Of(err); err == nil || code == fault.NotFound || code == fault.InvalidArgument { // a file may be where its directory was
			return nil
		}
		return err
	}
	for _, t := range touched {
		if err := look(t.Path); err != nil {
			return nil, err
		}
	}
	for name := range was {
		if err := look(name); err != nil {
			return nil, err
		}
	}
	return now, nil
}

// diffFiles exports the differing files, as far as their text is known, to two
// directories and compares these.
func (b *beforeState) diffFiles(ctx context.Context, ws *workspace.Workspace, now map[string]driver.Info, names []string) (_ *changes, err error) {
	dir, err := locktmp.Make(suite.ScratchPrefix)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, locktmp.Remove(dir)) }()
	c := &changes{}
	oldDir, newDir := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	if err := errors.Join(os.Mkdir(oldDir, 0o700), os.Mkdir(newDir, 0o700)); err != nil {
		return nil, err
	}
	texts := 0
	for _, name := range names {
		was, had := b.infos[name]
		is, has := now[name]
		c.list = append(c.list, session.Change{Path: name, Kind: changeKind(had, has), Binary: true})
		if texts++; texts > maxDiffFiles {
			continue
		}
		if err := b.exportPair(ctx, ws, was, is, had, has, oldDir, newDir); err != nil {
			return nil, err
		}
	}
	cmp, err := snapshot.Diff(ctx, snapshot.HostDir(oldDir, nil), snapshot.HostDir(newDir, nil), &snapshot.DiffOptions{Text: true, NoRenames: true})
	if err != nil {
		return nil, err
	}
	return c, c.addDiffs(cmp, b.infos, now)
}

func changeKind(had, has bool) session.ChangeKind {
	switch {
	case !had:
		return session.Added
	case !has:
		return session.Removed
	}
	return session.Modified
}

// exportPair writes a file as it was and as it is, if both texts can be read.
func (b *beforeState) exportPair(ctx context.Context, ws *workspace.Workspace, was, is driver.Info, had, has bool, oldDir, newDir string) error {
	if had && was.Type != driver.TypeFile || has && (is.Type != driver.TypeFile || is.Size > maxDiffFile) {
		return nil
	}
	if had {
		from, known := b.originalText(was.Path)
		if !known {
			return nil
		}
		to := filepath.Join(oldDir, was.Path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), copyFile(from, to, was.Mode.Perm()|0o600)); err != nil {
			return err
		}
	}
	if !has {
		return nil
	}
	err := exportText(ctx, ws, is, filepath.Join(newDir, is.Path))
	if fault.Of(err) == fault.PermissionDenied || fault.Of(err) == fault.NotFound {
		return nil // it can't be read, or was removed meanwhile
	}
	return err
}

// addDiffs adds line counts and text from a comparison. An entry whose text is unchanged,
// and that differs in time only, is dropped.
func (c *changes) addDiffs(cmp *snapshot.Comparison, was, now map[string]driver.Info) error {
	found := map[string]*snapshot.FileChange{}
	for i := range cmp.Changes {
		found[cmp.Changes[i].Path] = &cmp.Changes[i]
	}
	kept := c.list[:0]
	for _, ch := range c.list {
		f := found[ch.Path]
		if f == nil {
			a, hadA := was[ch.Path]
			b, hadB := now[ch.Path]
			if hadA && hadB && a.Type == b.Type && a.Size == b.Size && a.Mode == b.Mode && a.Target == b.Target && a.Size <= maxDiffFile && a.Type == driver.TypeFile {
				continue
			}
			kept = append(kept, ch)
			continue
		}
		ch.Binary = f.Binary || f.TooBig
		ch.Added, ch.Removed = f.LinesAdded, f.LinesRemoved
		var text bytes.Buffer
		one := snapshot.Comparison{Changes: []snapshot.FileChange{*f}}
		if err := one.WriteUnified(&text); err != nil {
			return err
		}
		c.diff = append(c.diff, fileDiff{ch.Path, text.String()})
		kept = append(kept, ch)
	}
	c.list = kept
	return nil
}

// unifiedDiff returns the text of the changes at and below paths, of all changes without
// paths.
func (c *changes) unifiedDiff(paths []string) string {
	var b strings.Builder
	for _, d := range c.diff {
		if len(paths) == 0 || slices.ContainsFunc(paths, func(p string) bool {
			return p == "." || d.path == p || strings.HasPrefix(d.path, strings.TrimSuffix(p, "/")+"/")
		}) {
			b.WriteString(d.text)
		}
	}
	return b.String()
}
