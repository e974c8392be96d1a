package profile

import (
	"io/fs"
	"path"
	"strings"
	"sync"
	"time"
)

// A Cache keeps the profiles of workspaces and detects again when something that
// was looked at has changed, appeared or gone. It is safe for concurrent use;
// callers that ask for one workspace at once share one detection.
type Cache struct {
	opts *Options

	mu      sync.Mutex
	entries map[string]*cached // guarded by mu
}

type cached struct {
	mu      sync.Mutex
	known   bool    // guarded by mu
	profile Profile // guarded by mu
	stamps  []stamp // guarded by mu
}

// NewCache returns an empty cache that detects with the default options.
func NewCache() *Cache { return NewCacheWith(nil) }

// NewCacheWith returns an empty cache that detects with opts.
func NewCacheWith(opts *Options) *Cache { return &Cache{opts: opts, entries: map[string]*cached{}} }

// Get returns the profile of the workspace key, whose files are fsys. While
// nothing changes it returns the same profile each time, for one stat per file
// and directory in its evidence. An error is not kept.
func (c *Cache) Get(key string, fsys fs.FS) (Profile, error) {
	return c.get(key, fsys, func(stamp) bool { return true })
}

// GetFor is Get for who asks about one file alone: what is known stays as long as
// nothing has changed in the directories above the file, however many others
// there are.
func (c *Cache) GetFor(key string, fsys fs.FS, file string) (Profile, error) {
	return c.get(key, fsys, func(s stamp) bool {
		dir := s.name
		if !s.dir {
			dir = path.Dir(s.name)
		}
		return dir == "." || strings.HasPrefix(file, dir+"/")
	})
}

// get returns the profile that is known while the stamps that matter are the same.
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

// Forget drops what is known about the workspace key.
func (c *Cache) Forget(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.entries, key)
}
