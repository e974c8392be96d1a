package files

import (
	"cmp"
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/internal/search"
	"github.com/croft-run/croft/workspace/driver"
)

func (r *Root) glob(ctx context.Context, pattern string, o *driver.GlobOptions) (driver.GlobResult, error) {
	p, err := search.PlanGlob(pattern, o)
	if err != nil {
		return driver.GlobResult{}, err
	}
	p.Stop = func() bool { return ctx.Err() != nil }
	if _, err := parseName(p.Start); err != nil {
		return driver.GlobResult{}, err
	}
	if ok, err := r.sys.checkStart(p); !ok {
		return driver.GlobResult{}, err
	}
	ig, ok := r.sys.ignoreRulesAbove(p)
	if !ok {
		return driver.GlobResult{}, nil
	}
	top := &walkDir{path: p.Start, ig: ig}
	g := &globber{opts: o}
	w := &walk{ctx: ctx, plan: p, do: g}
	if err := w.run(r.sys, top); err != nil {
		return driver.GlobResult{}, err
	}
	res := driver.GlobResult{Entries: make([]driver.Info, 0, countItems(top))}
	collectInfos(top, &res.Entries)
	if limit := search.GlobLimit(o); len(res.Entries) > limit {
		res.Entries, res.Truncated = res.Entries[:limit], true
	}
	return res, ctx.Err()
}

// A globber is the visitor of Glob. It stores results in the tree of walkDirs, which yields
// all paths in order when the walk is complete.
type globber struct{ opts *driver.GlobOptions }

func (g *globber) shouldEnter(string) bool { return true }
func (g *globber) reportUnreadable(string) {}

func (g *globber) visitFiles(*worker, *walkDir, []walkItem) {}

func (g *globber) visitEntries(w *worker, d *walkDir) {
	w.queueSubdirs(d)
	kept := d.items[:0]
	for _, it := range d.items {
		if it.sub == nil && it.typ == unix.DT_DIR && !g.opts.Dirs {
			continue
		}
		if it.sub == nil && g.opts.Stat {
			info, err := lstat(d.fd, it.path[d.prefixLen():], it.path, false)
			if err != nil {
				continue // removed since it was listed
			}
			it.info = &info
		}
		kept = append(kept, it)
	}
	d.items = kept
}

func countItems(d *walkDir) int {
	n := 0
	for i := range d.items {
		if sub := d.items[i].sub; sub != nil {
			n += countItems(sub)
		} else {
			n++
		}
	}
	return n
}

func collectInfos(d *walkDir, infos *[]driver.Info) {
	for i := range d.items {
		switch it := &d.items[i]; {
		case it.sub != nil:
			collectInfos(it.sub, infos)
		case it.info != nil:
			*infos = append(*infos, *it.info)
		default:
			*infos = append(*infos, driver.Info{Path: it.path, Type: fileType(it.typ)})
		}
	}
}

func fileType(typ byte) driver.FileType {
	switch typ {
	case unix.DT_REG:
		return driver.TypeFile
	case unix.DT_DIR:
		return driver.TypeDir
	case unix.DT_LNK:
		return driver.TypeSymlink
	}
	return driver.TypeOther
}

func (r *Root) grep(ctx context.Context, pattern string, o *driver.GrepOptions) (driver.GrepResult, error) {
	q, err := search.Compile(pattern, o)
	if err != nil {
		return driver.GrepResult{}, err
	}
	p, err := search.PlanGrep(o)
	if err != nil {
		return driver.GrepResult{}, err
	}
	g := &grepper{query: q, hits: search.NewHits(ctx, o)}
	p.Stop = g.hits.Stop
	if err := cmp.Or(g.run(ctx, r.sys, p), ctx.Err()); err != nil {
		return driver.GrepResult{}, err
	}
	return g.hits.Result(), nil
}

// run searches the file or the directory of the plan.
func (g *grepper) run(ctx context.Context, s system, p *search.Plan) error {
	w := &walk{ctx: ctx, plan: p, do: g}
	fd, err := s.open(p.Path, openFlags)
	if err != nil {
		return nonRegularError(err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		defer closeFD(fd)
		if err == nil {
			err = checkRegular(&st)
		}
		if err != nil {
			return err
		}
		wk := &worker{walk: w}
		g.searchFile(wk, fd, p.Path)
		return ctx.Err()
	}
	closeFD(fd)
	ig, _ := s.ignoreRulesAbove(p)
	return w.run(s, &walkDir{path: p.Path, ig: ig})
}

// A grepper is the visitor of Grep.
type grepper struct {
	query *search.Query
	hits  *search.Hits
}

func (g *grepper) shouldEnter(path string) bool {
	if g.hits.Late() {
		g.hits.Skip(path, driver.SkipTime)
		return false
	}
	return !g.hits.Beyond(path + "/")
}

func (g *grepper) reportUnreadable(path string) { g.hits.Skip(path, driver.SkipUnreadable) }

// filesPerTask is the number of files of one directory that a worker searches itself; other
// workers take the rest.
const filesPerTask = 64

func (g *grepper) visitEntries(w *worker, d *walkDir) {
	w.queueSubdirs(d)
	files := make([]walkItem, 0, len(d.items))
	for _, it := range d.items {
		if it.typ == unix.DT_REG {
			files = append(files, it)
		}
	}
	d.items = nil
	for len(files) > filesPerTask {
		cut := len(files) - filesPerTask
		d.users.Add(1)
		w.add(task{dir: d, items: files[cut:]})
		files = files[:cut]
	}
	g.visitFiles(w, d, files)
}

func (g *grepper) visitFiles(w *worker, d *walkDir, items []walkItem) {
	prefix := d.prefixLen()
	for i := range items {
		path := items[i].path
		switch {
		case w.ctx.Err() != nil:
			return
		case g.hits.Late():
			g.hits.Skip(path, driver.SkipTime)
			continue
		case g.hits.Beyond(path):
			continue
		}
		fd, err := openFileAt(d.fd, path[prefix:])
		switch {
		case err == nil:
			g.searchFile(w, fd, path)
			closeFD(fd)
		case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENXIO): // no longer a file
		default:
			g.hits.Skip(path, driver.SkipUnreadable)
		}
	}
}

func (g *grepper) searchFile(w *worker, fd int, path string) {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || checkRegular(&st) != nil {
		g.hits.Skip(path, driver.SkipUnreadable)
		return
	}
	if g.hits.TooBig(st.Size) {
		g.hits.Skip(path, driver.SkipTooBig)
		return
	}
	n, err := w.loadFile(fd, st.Size, g.hits)
	switch {
	case err != nil:
		g.hits.Skip(path, driver.SkipUnreadable)
	case g.hits.TooBig(int64(n)):
		g.hits.Skip(path, driver.SkipTooBig)
	default:
		g.hits.Search(g.query, path, w.data[:n])
	}
	const keep = 4 << 20
	if len(w.data) > keep {
		w.data = nil
	}
}

// loadFile reads a file into w.data. It stops at the size that stat reported; a file that
// grows is read until its end or the limit.
func (w *worker) loadFile(fd int, size int64, h *search.Hits) (int, error) {
	if need := size + 1; int64(len(w.data)) < need {
		w.data = make([]byte, max(need, 64<<10))
	}
	for n := 0; ; {
		if n == len(w.data) {
			w.data = append(w.data, make([]byte, len(w.data))...)
		}
		m, err := pread(fd, w.data[n:], int64(n))
		if err != nil {
			return 0, err
		}
		n += m
		if m == 0 || int64(n) == size || h.TooBig(int64(n)) {
			return n, nil
		}
	}
}
