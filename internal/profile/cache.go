package profile

import (
	"io/fs"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A Cache keeps the profiles of workspaces and detects again when a file or directory of
// the evidence has changed. It is safe for concurrent use; concurrent callers for one
// workspace share one detection (singleflight).
type Cache struct {
	opts *Options

	mu      sync.Mutex
	entries map[string]*cached // guarded by mu
}

type cached struct {
	evidence atomic.Pointer[Evidence] // of the last detection; nil before the first one has ended

	mu      sync.Mutex
	known   bool    // guarded by mu
	profile Profile // guarded by mu
	stamps  []stamp // guarded by mu
}

// NewCache returns an empty cache that detects with the default options.
func NewCache() *Cache { return NewCacheWith(nil) }

// NewCacheWith returns an empty cache that detects with opts.
func NewCacheWith(opts *Options) *Cache { return &Cache{opts: opts, entries: map[string]*cached{}} }

// Get returns the profile of the workspace key, whose files are fsys. If nothing has
// changed, it costs one stat per file and directory of the evidence. An error is not
// cached.
func (c *Cache) Get(key string, fsys fs.FS) (Profile, error) {
	return c.get(key, fsys, func(stamp) bool { return true })
}

// GetFor is Get for callers that need one file only: it checks only the directories above
// the file.
func (c *Cache) GetFor(key string, fsys fs.FS, file string) (Profile, error) {
	return c.get(key, fsys, func(s stamp) bool {
		dir := s.name
		if !s.dir {
			dir = path.Dir(s.name)
		}
		return dir == "." || strings.HasPrefix(file, dir+"/")
	})
}

// get returns the cached profile if the stamps that matter are unchanged.
func (c *Cache) get(key string, fsys fs.FS, matters func(stamp) bool) (Profile, error) {
	c.mu.Lock()
	e := c.entries[key]
	if e == nil {
		e = new(cached)
		c.entries[key] = e
	}
	c.mu.Unlock()

	e.mu.Lock()
	defer e.mu.Unlock()
	if e.known && e.freshLocked(fsys, matters) {
		return e.profile, nil
	}
	p, err := Detect(fsys, c.opts)
	if e.known = err == nil; !e.known {
		return Profile{}, err
	}
	e.evidence.Store(&p.Evidence)
	e.profile, e.stamps = p, append([]stamp(nil), p.Evidence.stamps...)
	return p, nil
}

func (e *cached) freshLocked(fsys fs.FS, matters func(stamp) bool) bool {
	now := time.Now()
	for i := range e.stamps {
		if matters(e.stamps[i]) && !e.stamps[i].isUnchanged(fsys, now) {
			return false
		}
	}
	return true
}

// Affected reports whether a change of the file name may change the profile of the workspace
// key, as [Evidence.Affects] does; "" is any file. It is false for a workspace whose profile
// nothing asked for.
func (c *Cache) Affected(key, name string) bool {
	c.mu.Lock()
	e := c.entries[key]
	c.mu.Unlock()
	if e == nil {
		return false
	}
	evidence := e.evidence.Load()
	return evidence == nil || name == "" || evidence.Affects(name)
}

// Forget drops the profile of the workspace key.
func (c *Cache) Forget(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.entries, key)
}
