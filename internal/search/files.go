package search

import (
	"context"
	"io"
	"slices"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// GlobFiles is driver.FS.Glob over any files.
func GlobFiles(ctx context.Context, files driver.Files, pattern string, o *driver.GlobOptions) (driver.GlobResult, error) {
	p, err := PlanGlob(pattern, o)
	if err != nil {
		return driver.GlobResult{}, err
	}
	if _, err := files.ReadDir(ctx, p.Path); err != nil {
		return driver.GlobResult{}, err
	}
	p.Stop = func() bool { return ctx.Err() != nil }
	var res driver.GlobResult
	w := treeWalk{files: files, plan: p, found: func(info driver.Info) error {
		if info.Type == driver.TypeDir && !o.Dirs {
			return nil
		}
		if !o.Stat {
			info = driver.Info{Path: info.Path, Type: info.Type}
		}
		res.Entries = append(res.Entries, info)
		return nil
	}}
	if err := w.walkFromStart(ctx); err != nil {
		return driver.GlobResult{}, err
	}
	SortInfos(res.Entries)
	if limit := GlobLimit(o); len(res.Entries) > limit {
		res.Entries, res.Truncated = res.Entries[:limit], true
	}
	return res, ctx.Err()
}

// GlobLimit is the maximum number of entries of a Glob.
func GlobLimit(o *driver.GlobOptions) int {
	if o.Limit == 0 {
		return driver.MaxGlobLimit
	}
	return o.Limit
}

// SortInfos sorts entries in the order of Glob: by path, bytewise.
func SortInfos(infos []driver.Info) {
	slices.SortFunc(infos, func(a, b driver.Info) int { return strings.Compare(a.Path, b.Path) })
}

// GrepFiles is driver.FS.Grep over any files.
func GrepFiles(ctx context.Context, files driver.Files, pattern string, o *driver.GrepOptions) (driver.GrepResult, error) {
	q, err := Compile(pattern, o)
	if err != nil {
		return driver.GrepResult{}, err
	}
	p, err := PlanGrep(o)
	if err != nil {
		return driver.GrepResult{}, err
	}
	info, err := files.Stat(ctx, p.Path, new(driver.StatOptions))
	if err != nil {
		return driver.GrepResult{}, err
	}
	h := NewHits(ctx, o)
	p.Stop = h.Stop
	w := treeWalk{files: files, plan: p, hits: h, found: func(info driver.Info) error {
		if info.Type != driver.TypeFile {
			return nil
		}
		return grepFile(ctx, files, q, h, info)
	}}
	if info.Type == driver.TypeDir {
		err = w.walkFromStart(ctx)
	} else {
		err = grepFile(ctx, files, q, h, info)
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return driver.GrepResult{}, err
	}
	return h.Result(), nil
}

func grepFile(ctx context.Context, files driver.Files, q *Query, h *Hits, info driver.Info) error {
	switch {
	case h.Late():
		h.Skip(info.Path, driver.SkipTime)
		return nil
	case h.Beyond(info.Path):
		return nil
	case h.TooBig(info.Size):
		h.Skip(info.Path, driver.SkipTooBig)
		return nil
	}
	data, err := readAll(ctx, files, info.Path, h.maxSize)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		h.Skip(info.Path, driver.SkipUnreadable)
	case h.TooBig(int64(len(data))):
		h.Skip(info.Path, driver.SkipTooBig)
	default:
		h.Search(q, info.Path, data)
	}
	return nil
}

// readAll reads a file, at most most+1 bytes.
func readAll(ctx context.Context, files driver.Files, name string, most int64) ([]byte, error) {
	body, _, err := files.Read(ctx, name, &driver.ReadOptions{Limit: most + 1})
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return io.ReadAll(body)
}

// A treeWalk walks a tree sequentially.
type treeWalk struct {
	files driver.Files
	plan  *Plan
	hits  *Hits // of a Grep
	found func(driver.Info) error
}

func (w *treeWalk) walkFromStart(ctx context.Context) error {
	ig, ok := w.plan.Above(func(dir string) []byte {
		data, err := readAll(ctx, w.files, Join(dir, IgnoreFile), maxIgnore)
		if err != nil {
			return nil // usually there is none
		}
		return data
	})
	if !ok {
		return ctx.Err()
	}
	return w.walkDir(ctx, w.plan.Start, ig)
}

func (w *treeWalk) walkDir(ctx context.Context, dir string, ig *Ignore) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if w.hits != nil && w.hits.Late() {
		w.hits.Skip(dir, driver.SkipTime)
		return nil
	}
	infos, err := w.files.ReadDir(ctx, dir)
	if err != nil {
		return w.handleUnreadable(ctx, dir, err)
	}
	for _, info := range infos {
		if w.plan.Reads(info.Name()) && info.Type == driver.TypeFile {
			if data, err := readAll(ctx, w.files, info.Path, maxIgnore); err == nil {
				ig = ig.With(dir, data)
			}
		}
	}
	for _, info := range infos {
		if err := ctx.Err(); err != nil {
			return err
		}
		isDir := info.Type == driver.TypeDir
		if w.plan.Takes(info.Path, info.Name(), isDir, ig) {
			if err := w.found(info); err != nil {
				return err
			}
		}
		if isDir && w.plan.Enters(info.Path, info.Name(), ig) && (w.hits == nil || !w.hits.Beyond(info.Path+"/")) {
			if err := w.walkDir(ctx, info.Path, ig); err != nil {
				return err
			}
		}
	}
	return nil
}

// handleUnreadable handles a directory that can't be listed. It is an error only
// for the directory that the caller named: others may vanish during the walk, or
// belong to another user.
func (w *treeWalk) handleUnreadable(ctx context.Context, dir string, err error) error {
	switch code := fault.Of(err); {
	case ctx.Err() != nil:
		return ctx.Err()
	case dir == w.plan.Path, code == fault.SandboxViolation, code == fault.Evicted:
		return err
	case w.hits != nil && code != fault.NotFound:
		w.hits.Skip(dir, driver.SkipUnreadable)
	}
	return nil
}
