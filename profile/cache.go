package profile

import (
	"io/fs"
	"sync"
	"time"
)

// A Cache keeps the profiles of workspaces and detects again when something that
// was looked at has changed, appeared or gone. It is safe for concurrent use;
// callers that ask for one workspace at once share one detection.
type Cache struct {
	opts *Options

	mu      sync.Mutex
	entries map[string]*cached // +checklocks:mu
}

type cached struct {
	mu      sync.Mutex
	known   bool    // +checklocks:mu
	profile Profile // +checklocks:mu
	stamps  []stamp // +checklocks:mu
}

// NewCache returns an empty cache that detects with the default options.
func NewCache() *Cache { return NewCacheWith(nil) }

// NewCacheWith returns an empty cache that detects with opts.
func NewCacheWith(opts *Options) *Cache { return &Cache{opts: opts, entries: map[string]*cached{}} }

// Get returns the profile of the workspace key, whose files are fsys. While
// nothing changes it returns the same profile each time, for one stat per file
// and directory in its evidence. An error is not kept.
func (c *Cache) Get(key string, fsys fs.FS) (Profile, error) {
	c.mu.Lock()
	e := c.entries[key]
	if e == nil {
		e = new(cached)
		c.entries[key] = e
	}
	c.mu.Unlock()

	e.mu.Lock()
	defer e.mu.Unlock()
	if e.known && e.freshLocked(fsys) {
		return e.profile, nil
	}
	p, err := Detect(fsys, c.opts)
	if e.known = err == nil; !e.known {
		return Profile{}, err
	}
	e.profile, e.stamps = p, append([]stamp(nil), p.Evidence.stamps...)
	return p, nil
}

func (e *cached) freshLocked(fsys fs.FS) bool {
	now := time.Now()
	for i := range e.stamps {
		if !e.stamps[i].same(fsys, now) {
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
