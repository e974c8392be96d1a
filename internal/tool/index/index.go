package index

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// An Index has the declarations of one workspace. It is built by the first Search, and is
// safe for concurrent use.
type Index struct {
	ws *workspace.Workspace

	buildMu sync.Mutex // held while files are indexed
	watch   *follower  // nil before the first search, and if watching is not supported

	looks atomic.Int64 // sequence numbers of file reads

	mu      sync.RWMutex
	store   *store           // nil before the first search; guarded by mu
	files   map[string]entry // indexed files; guarded by mu
	partial string           // what was left out; guarded by mu
}

// A stamp identifies a version of a file.
type stamp struct {
	size  int64
	mtime time.Time
}

// An entry is an indexed file with the sequence number of its read. A read with a lower
// number must not replace the result of a later one.
type entry struct {
	stamp
	look int64
}

func stampOf(info workspace.Info) stamp { return stamp{info.Size, info.ModTime} }

// New returns the index of a workspace. Close ends it.
func New(ws *workspace.Workspace) *Index { return &Index{ws: ws} }

// Close stops the watch and frees the index.
func (x *Index) Close(context.Context) error {
	x.buildMu.Lock()
	watch := x.watch
	x.watch = nil
	x.mu.Lock()
	x.store, x.files = nil, nil
	x.mu.Unlock()
	x.buildMu.Unlock()
	if watch != nil {
		return watch.close()
	}
	return nil
}

// A Result is the result of Search.
type Result struct {
	Hits    []Hit
	Files   int           // number of indexed files
	Built   time.Duration // build time, at the first search
	Partial string        // what was left out, or ""
}

// Search returns the declarations that match a query best.
func (x *Index) Search(ctx context.Context, query string, limit int) (Result, error) {
	var res Result
	if err := x.ensureBuilt(ctx, &res); err != nil {
		return res, err
	}
	const tries = 3
	for range tries {
		x.mu.RLock()
		if x.store == nil {
			x.mu.RUnlock()
			return res, fmt.Errorf("index: search: %w: it was closed", fault.WrongState)
		}
		res.Hits, res.Files, res.Partial = x.store.search(query, limit), len(x.files), x.partial
		x.mu.RUnlock()
		stale, err := x.staleFiles(ctx, res.Hits)
		if err != nil || len(stale) == 0 {
			return res, err
		}
		if err := x.refreshPaths(ctx, stale); err != nil {
			return res, err
		}
	}
	return res, nil
}

// ensureBuilt builds the index or, if it is built and there is no watch, rescans.
func (x *Index) ensureBuilt(ctx context.Context, res *Result) error {
	x.buildMu.Lock()
	defer x.buildMu.Unlock()
	x.mu.RLock()
	built := x.store != nil
	x.mu.RUnlock()
	if built {
		if x.watch.isAlive() {
			return nil
		}
		return x.rescan(ctx) // no watch reports changes
	}
	start := time.Now()
	watch, err := newFollower(ctx, x) // before the scan, so that no change is missed
	if err != nil && fault.Of(err) != fault.Unsupported && fault.Of(err) != fault.ResourceExhausted {
		return fmt.Errorf("index: watch: %w", err)
	}
	x.mu.Lock()
	x.store, x.files, x.partial = newStore(), map[string]entry{}, ""
	x.mu.Unlock()
	if err := x.rescan(ctx); err != nil {
		x.mu.Lock()
		x.store = nil
		x.mu.Unlock()
		if watch != nil {
			err = errors.Join(err, watch.close())
		}
		return err
	}
	if watch != nil {
		x.watch = watch
		watch.start()
	}
	res.Built = time.Since(start)
	return nil
}

// rescan lists the whole tree and reads new and changed files.
func (x *Index) rescan(ctx context.Context) error {
	turn := x.looks.Add(1)
	infos, err := x.listSources(ctx, "**")
	if err != nil {
		return err
	}
	present := make(map[string]bool, len(infos))
	var changed []workspace.Info
	x.mu.Lock()
	if len(infos) > MaxFiles {
		x.partial = fmt.Sprintf("%d of %d files are searched", MaxFiles, len(infos))
		infos = infos[:MaxFiles]
	}
	for _, info := range infos {
		present[info.Path] = true
		if x.files[info.Path].stamp != stampOf(info) {
			changed = append(changed, info)
		}
	}
	for name, e := range x.files {
		if !present[name] && e.look < turn {
			x.removeLocked(name)
		}
	}
	x.mu.Unlock()
	return x.readFiles(ctx, changed)
}

// globBelow returns the glob pattern for the files in a directory.
func globBelow(dir string, deep bool) string {
	pattern := "*"
	if deep {
		pattern = "**"
	}
	if dir == "." {
		return pattern
	}
	var b strings.Builder
	for i := range len(dir) {
		if strings.IndexByte(`*?[]{}\`, dir[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(dir[i])
	}
	return b.String() + "/" + pattern
}

// listSources returns the matching source files that .gitignore does not exclude.
func (x *Index) listSources(ctx context.Context, pattern string) ([]workspace.Info, error) {
	res, err := x.ws.Glob(ctx, pattern, &workspace.GlobOptions{GitIgnore: true, Stat: true})
	if err != nil {
		return nil, fmt.Errorf("index: list files: %w", err)
	}
	infos := res.Entries[:0]
	for _, info := range res.Entries {
		if info.Type == driver.TypeFile && isSource(info.Path) {
			infos = append(infos, info)
		}
	}
	return infos, nil
}

func isSource(name string) bool {
	return syntaxOf(name) != nil && !strings.HasPrefix(name, "node_modules/") && !strings.Contains(name, "/node_modules/")
}

// batch is the number of files that a worker takes at a time.
const batch = 32

// readFiles reads and indexes files.
func (x *Index) readFiles(ctx context.Context, infos []workspace.Info) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), (len(infos)+batch-1)/batch) {
		wg.Go(func() {
			c := newCounter()
			for {
				end := int(next.Add(batch))
				if end-batch >= len(infos) {
					return
				}
				for _, info := range infos[end-batch : min(end, len(infos))] {
					if err := x.readFile(ctx, c, info); err != nil {
						cancel(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// readFile reads and indexes one file. A file that can't be read has no declarations; only
// the end of ctx or of the workspace is an error.
func (x *Index) readFile(ctx context.Context, c *counter, info workspace.Info) error {
	var units []counted
	turn := x.looks.Add(1)
	c.reset()
	if info.Size <= MaxFileSize {
		data, is, err := x.readContent(ctx, info.Path)
		switch code := fault.Of(err); {
		case ctx.Err() != nil:
			return ctx.Err()
		case code == fault.WrongState || code == fault.Evicted || code == fault.Unavailable:
			return fmt.Errorf("index: read %s: %w", info.Path, err)
		case code == fault.NotFound:
			x.removeOlder(info.Path, turn)
			return nil
		case err == nil:
			info = is
			for _, u := range scanFile(info.Path, data) {
				units = append(units, c.countTerms(u))
			}
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.store == nil || x.files[info.Path].look > turn {
		return nil // the index was closed, or a later read of the file won
	}
	if len(x.store.units) >= MaxUnits {
		x.partial = fmt.Sprintf("only the first %d declarations are searched", MaxUnits)
	}
	x.store.add(info.Path, units, c)
	x.files[info.Path] = entry{stampOf(info), turn}
	return nil
}

func (x *Index) readContent(ctx context.Context, name string) (string, workspace.Info, error) {
	body, info, err := x.ws.Read(ctx, name, &workspace.ReadOptions{Limit: MaxFileSize})
	if err != nil {
		return "", info, err
	}
	defer body.Close()
	var b strings.Builder
	b.Grow(int(min(max(info.Size, 0), MaxFileSize)))
	_, err = io.Copy(&b, body)
	info.Path = path.Clean(name)
	return b.String(), info, err
}

// removeOlder removes a file or directory that was missing at the given sequence number.
func (x *Index) removeOlder(name string, turn int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.store == nil {
		return
	}
	for other, e := range x.files { // name may have been a directory
		if (other == name || strings.HasPrefix(other, name+"/")) && e.look < turn {
			x.removeLocked(other)
		}
	}
}

// removeLocked removes a file. The caller holds x.mu.
func (x *Index) removeLocked(name string) {
	x.store.remove(name)
	delete(x.files, name)
}

// staleFiles returns the files of hits that have changed since they were read.
func (x *Index) staleFiles(ctx context.Context, hits []Hit) ([]string, error) {
	var stale []string
	looked := map[string]bool{}
	for _, h := range hits {
		if looked[h.Path] {
			continue
		}
		looked[h.Path] = true
		info, err := x.ws.Stat(ctx, h.Path, nil)
		if err != nil && !errors.Is(err, fault.NotFound) {
			return nil, fmt.Errorf("index: stat %s: %w", h.Path, err)
		}
		x.mu.RLock()
		if err != nil || x.files[h.Path].stamp != stampOf(info) {
			stale = append(stale, h.Path)
		}
		x.mu.RUnlock()
	}
	return stale, nil
}

// Refresh reads changed files again, for callers that can't wait for the watch. It does
// nothing before the first search.
func (x *Index) Refresh(ctx context.Context, names ...string) error {
	x.mu.RLock()
	built := x.store != nil
	x.mu.RUnlock()
	if !built {
		return nil
	}
	return x.refreshPaths(ctx, names)
}

// refreshPaths updates the index for paths, which may be files, directories or missing.
func (x *Index) refreshPaths(ctx context.Context, names []string) error {
	dirs := map[string]bool{}
	var known []workspace.Info
	for _, name := range names {
		if path.Base(name) == ".gitignore" {
			x.buildMu.Lock()
			defer x.buildMu.Unlock()
			return x.rescan(ctx)
		}
		turn := x.looks.Add(1)
		info, err := x.ws.Stat(ctx, name, &workspace.StatOptions{NoFollow: true})
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			x.removeOlder(name, turn)
		case info.Type == driver.TypeDir:
			dirs[info.Path] = true
		case info.Type == driver.TypeFile && isSource(info.Path):
			if x.hasFile(info.Path) {
				known = append(known, info)
			} else {
				dirs[path.Dir(info.Path)] = false
			}
		}
	}
	for dir, deep := range dirs {
		infos, err := x.listSources(ctx, globBelow(dir, deep)) // from the root, so that .gitignore files apply
		if err != nil {
			return err
		}
		for _, info := range infos {
			if !x.isCurrent(info) {
				known = append(known, info)
			}
		}
	}
	return x.readFiles(ctx, known)
}

func (x *Index) hasFile(name string) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	_, ok := x.files[name]
	return ok
}

func (x *Index) isCurrent(info workspace.Info) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.files[info.Path].stamp == stampOf(info)
}
