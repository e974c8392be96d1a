package snapshot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
)

// Kinds of objects in a backend.
const (
	kindPacks     = "packs"
	kindSnapshots = "snapshots"
	kindCondemned = "condemned"
	kindLeases    = "leases"
)

// ChunkSize is the size of the chunks of large files.
const ChunkSize = 1 << 20

// Options are the options of Open.
type Options struct {
	// CacheDir is a directory of this host for stat caches, with which a further
	// snapshot of a tree reads only changed files. "" disables the cache.
	CacheDir string

	// Grace is how long a pack stays condemned, on a backend without locks, before
	// gc removes it; taking a snapshot must not last longer. 0 is a day.
	Grace time.Duration

	// Needed reports whether a snapshot is in use because a workspace started from
	// it: Delete refuses it then. nil is never.
	Needed func(ctx context.Context, id string) (bool, error)

	// TenantOf returns the tenant of a workspace, and false for an unknown one. Nil knows
	// none: a snapshot then belongs to the tenant of the context's principal.
	TenantOf func(ctx context.Context, workspace string) (string, bool)

	// Node is the node of a cluster that this host is, if several hosts share the backend. A
	// snapshot over directories of the host can be read there alone.
	Node string

	// Now is the clock; nil is time.Now.
	Now func() time.Time

	Log *slog.Logger // nil discards
}

// A Configurable provider has snapshots, and is made before the program knows their store.
type Configurable interface {
	// SetSnapshots sets the store of snapshots. It is called before the first Open.
	SetSnapshots(store *Store)
}

// DefaultGrace is the default of Options.Grace.
const DefaultGrace = 24 * time.Hour

// A Store holds snapshots in a backend. Its methods may be called from many
// goroutines, and any number of stores may be open on one backend.
type Store struct {
	be       Backend
	cache    string
	grace    time.Duration
	node     string
	log      *slog.Logger
	isNeeded func(ctx context.Context, id string) (bool, error)
	now      func() time.Time

	workspaceTenant func(ctx context.Context, workspace string) (string, bool) // may be nil

	mu        sync.RWMutex
	index     map[ID]location
	packs     map[string]*packInfo // packs in index
	packNames []string
	condemned map[string]bool
	loaded    bool

	manifests sync.Map // manifestKey -> []byte, of a backend without locks, which is remote

	sequenceMu   sync.Mutex // held while a sequence number is assigned
	lastSequence int64      // guarded by sequenceMu; of the newest snapshot

	loading sync.Mutex // held while footers are read
	blocks  blockCache
}

// location is the position of an object.
type location struct {
	pack  uint32 // in packNames
	block uint32
	off   uint32
	size  uint32
}

type packInfo struct {
	number uint32
	size   int64
	blocks []packBlock
}

// Open returns the store in a backend. It reads and creates nothing before first
// use.
func Open(be Backend, opts *Options) *Store {
	o := Options{}
	if opts != nil {
		o = *opts
	}
	if o.Grace == 0 {
		o.Grace = DefaultGrace
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Store{be: be, cache: o.CacheDir, grace: o.Grace, node: o.Node, log: o.Log, isNeeded: o.Needed, workspaceTenant: o.TenantOf, now: o.Now, index: map[ID]location{}, packs: map[string]*packInfo{}}
}

// lockShared takes the shared lock, which keeps gc out, if the backend has locks.
func (s *Store) lockShared(ctx context.Context) (func(), error) {
	if l, ok := s.be.(Locker); ok {
		return l.Lock(ctx, true)
	}
	return func() {}, nil
}

// refreshIndex updates the index from the backend. A damaged pack is skipped and
// logged: only reads of its objects fail, and Check reports it.
func (s *Store) refreshIndex(ctx context.Context) error {
	s.loading.Lock()
	defer s.loading.Unlock()
	gone, err := s.condemnedPacks(ctx)
	if err != nil {
		return err
	}
	entries, err := s.be.List(ctx, kindPacks)
	if err != nil {
		return err
	}
	s.dropMissing(entries, gone)
	for _, e := range entries {
		if err := s.loadPack(ctx, e); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loaded = true
	return nil
}

// dropMissing clears the index if a pack was removed or condemned: another pack may
// have the same objects.
func (s *Store) dropMissing(entries []Entry, condemned map[string]bool) {
	present := make(map[string]bool, len(entries))
	for _, e := range entries {
		present[e.ID] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := !maps.Equal(s.condemned, condemned)
	s.condemned = condemned
	for id := range s.packs {
		if !present[id] || changed {
			s.index, s.packs, s.packNames = map[ID]location{}, map[string]*packInfo{}, nil
			return
		}
	}
}

// loadPack adds a pack to the index, unless it is there.
func (s *Store) loadPack(ctx context.Context, e Entry) error {
	s.mu.RLock()
	_, known := s.packs[e.ID]
	s.mu.RUnlock()
	if known {
		return nil
	}
	f, err := readFooter(ctx, s.be, e.ID, e.Size)
	switch {
	case fault.Of(err) == fault.NotFound: // removed since it was listed
	case fault.CauseOf(err) == fault.CauseCorrupt:
		s.log.Warn("snapshot: damaged pack", "pack", e.ID, "error", err)
	case err != nil:
		return err
	default:
		s.addPack(e.ID, e.Size, f)
	}
	return nil
}

func (s *Store) condemnedPacks(ctx context.Context) (map[string]bool, error) {
	if _, ok := s.be.(Locker); ok {
		return nil, nil
	}
	entries, err := s.be.List(ctx, kindCondemned)
	gone := map[string]bool{}
	for _, e := range entries {
		gone[e.ID] = true
	}
	return gone, err
}

func (s *Store) addPack(id string, size int64, f *footer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.packs[id]; ok {
		return
	}
	p := &packInfo{number: uint32(len(s.packNames)), size: size, blocks: f.blocks}
	s.packNames = append(s.packNames, id)
	s.packs[id] = p
	for _, e := range f.entries {
		if old, ok := s.index[e.id]; ok && (!s.condemned[s.packNames[old.pack]] || s.condemned[id]) {
			continue
		}
		s.index[e.id] = location{p.number, uint32(e.block), uint32(e.off), uint32(e.size)}
	}
}

// ensureIndex loads the index on first use.
func (s *Store) ensureIndex(ctx context.Context) error {
	s.mu.RLock()
	loaded := s.loaded
	s.mu.RUnlock()
	if loaded {
		return nil
	}
	return s.refreshIndex(ctx)
}

// hasObject reports whether an object is in a pack that is not condemned.
func (s *Store) hasObject(id ID) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	at, ok := s.index[id]
	return ok && !s.condemned[s.packNames[at.pack]]
}

// readObject reads and verifies an object. If the object is not in the index, or
// its pack is gone, another process may have written or moved it: the index is
// refreshed once.
func (s *Store) readObject(ctx context.Context, id ID) ([]byte, error) {
	if err := s.ensureIndex(ctx); err != nil {
		return nil, err
	}
	data, err := s.readIndexed(ctx, id)
	if fault.Of(err) == fault.NotFound {
		if err := s.refreshIndex(ctx); err != nil {
			return nil, err
		}
		data, err = s.readIndexed(ctx, id)
	}
	if fault.Of(err) == fault.NotFound {
		return nil, corruptError("object %s: no pack has it", id)
	}
	return data, err
}

var errNoObject = fmt.Errorf("no such object: %w", fault.NotFound)

func (s *Store) readIndexed(ctx context.Context, id ID) ([]byte, error) {
	s.mu.RLock()
	at, ok := s.index[id]
	var name string
	var b packBlock
	if ok {
		name = s.packNames[at.pack]
		b = s.packs[name].blocks[at.block]
	}
	s.mu.RUnlock()
	if !ok {
		return nil, errNoObject
	}
	plain, err := s.blocks.get(blockKey{name, b.off}, func() ([]byte, error) { return readBlock(ctx, s.be, name, b) })
	if err != nil {
		return nil, withObjectID(id, err)
	}
	data := plain[at.off : at.off+at.size]
	if got := sum(data); got != id {
		return nil, corruptError("object %s in pack %s: its content has the digest %s", id, name, got)
	}
	return data, nil
}

func withObjectID(id ID, err error) error {
	if fault.CauseOf(err) == fault.CauseCorrupt {
		return fmt.Errorf("object %s: %w", id, err)
	}
	return err
}

func (s *Store) readTree(ctx context.Context, id ID) ([]Node, error) {
	data, err := s.readObject(ctx, id)
	if err != nil {
		return nil, err
	}
	nodes, err := decodeTree(data)
	if err != nil {
		return nil, corruptError("tree %s: %v", id, err)
	}
	return nodes, nil
}

// readChunkList reads the chunk list of a file of the given size. The zero id is a
// chunk of zeros.
func (s *Store) readChunkList(ctx context.Context, list ID, size int64) ([]ID, error) {
	data, err := s.readObject(ctx, list)
	if err != nil {
		return nil, err
	}
	want := (size + ChunkSize - 1) / ChunkSize
	if int64(len(data)) != want*int64(len(ID{})) {
		return nil, corruptError("list %s: it does not describe a file of %d bytes", list, size)
	}
	ids := make([]ID, want)
	for i := range ids {
		copy(ids[i][:], data[i*len(ID{}):])
	}
	return ids, nil
}

// A blockCache is a FIFO cache of decompressed blocks.
type blockCache struct {
	mu    sync.Mutex
	items map[blockKey]*cachedBlock
	order []blockKey // the oldest first
	bytes int
}

type blockKey struct {
	pack string
	off  int64
}

type cachedBlock struct {
	ready chan struct{}
	data  []byte
	err   error
}

const cacheBytes = 24 << 20

// get returns a block, and calls load on a miss. Concurrent callers for one block
// share one load (singleflight).
func (c *blockCache) get(key blockKey, load func() ([]byte, error)) ([]byte, error) {
	c.mu.Lock()
	if item, ok := c.items[key]; ok {
		c.mu.Unlock()
		<-item.ready
		if item.err != nil && (errors.Is(item.err, context.Canceled) || errors.Is(item.err, context.DeadlineExceeded)) {
			return load() // the context of the loading caller ended
		}
		return item.data, item.err
	}
	item := &cachedBlock{ready: make(chan struct{})}
	if c.items == nil {
		c.items = map[blockKey]*cachedBlock{}
	}
	c.items[key] = item
	c.mu.Unlock()
	item.data, item.err = load()
	close(item.ready)
	c.mu.Lock()
	defer c.mu.Unlock()
	if item.err != nil {
		delete(c.items, key)
		return nil, item.err
	}
	c.order = append(c.order, key)
	for c.bytes += len(item.data); c.bytes > cacheBytes && len(c.order) > 1; {
		old := c.order[0]
		c.order = slices.Delete(c.order, 0, 1)
		c.bytes -= len(c.items[old].data)
		delete(c.items, old)
	}
	return item.data, nil
}

// dropAll empties the cache after gc removed packs.
func (c *blockCache) dropAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range c.order {
		delete(c.items, key)
	}
	c.order, c.bytes = nil, 0
}
