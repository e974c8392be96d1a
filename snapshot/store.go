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
)

// ChunkSize is the size of the pieces in which large files are kept.
const ChunkSize = 1 << 20

// Options are the options of Open.
type Options struct {
	// CacheDir is a directory of this host for what files looked like when they
	// were last read, which makes further snapshots of a tree cost what changed.
	// "" is none.
	CacheDir string

	// Grace is how long a pack stays condemned, in a backend without locks,
	// before gc removes it; a snapshot must not take longer. 0 is a day.
	Grace time.Duration

	// Needed reports whether a snapshot, by its id, has to stay, since a workspace
	// started from it: Delete refuses it then. nil is never.
	Needed func(ctx context.Context, id string) (bool, error)

	// Now is the clock; nil is time.Now.
	Now func() time.Time

	Log *slog.Logger // nil is silent
}

// DefaultGrace is the default of Options.Grace.
const DefaultGrace = 24 * time.Hour

// A Store holds snapshots in a backend. Its methods may be called from many
// goroutines, and any number of stores may be open on one backend.
type Store struct {
	be       Backend
	cache    string
	grace    time.Duration
	log      *slog.Logger
	isNeeded func(ctx context.Context, id string) (bool, error)
	now      func() time.Time

	mu        sync.RWMutex
	index     map[ID]location
	packs     map[string]*packInfo // whose footers are in index
	packNames []string
	condemned map[string]bool
	loaded    bool

	sequenceMu   sync.Mutex // one at a time gets its place
	lastSequence int64      // guarded by placing; order of the newest snapshot

	loading sync.Mutex // one at a time reads footers
	blocks  blockCache
}

// location says where an object is.
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

// Open returns the store in a backend. Nothing is read or made before it is used.
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
	return &Store{be: be, cache: o.CacheDir, grace: o.Grace, log: o.Log, isNeeded: o.Needed, now: o.Now, index: map[ID]location{}, packs: map[string]*packInfo{}}
}

// lockShared keeps gc from removing anything until the returned function is called.
func (s *Store) lockShared(ctx context.Context) (func(), error) {
	if l, ok := s.be.(Locker); ok {
		return l.Lock(ctx, true)
	}
	return func() {}, nil
}

// refreshIndex brings the index up to what is in the backend. A pack that can't be
// read is left out and logged: what is in it is missed only where it is needed,
// and Check names it.
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

// dropMissing forgets all packs where one of them is gone or was condemned:
// another that is there may have the same objects.
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

// loadPack reads the footer of a pack that is not known yet.
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
		s.log.Warn("snapshot: a pack is damaged", "pack", e.ID, "error", err)
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

// ensureIndex reads the index where that was never done.
func (s *Store) ensureIndex(ctx context.Context) error {
	s.mu.RLock()
	loaded := s.loaded
	s.mu.RUnlock()
	if loaded {
		return nil
	}
	return s.refreshIndex(ctx)
}

// hasObject reports whether an object is in a pack on which one may build.
func (s *Store) hasObject(id ID) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	at, ok := s.index[id]
	return ok && !s.condemned[s.packNames[at.pack]]
}

// readObject reads an object and verifies it. Where the index knows no such object, or
// its pack is gone, another process may have written or moved it since.
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
		return nil, corruptError("object %s: it is in no pack", id)
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

// readTree reads the object of a directory.
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

// readChunkList reads the list of the chunks of a file of the given size. The zero id
// stands for a chunk of zeros.
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

// A blockCache keeps the blocks that were read last.
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

// get returns a block, which load reads where it is not there. Those who want the
// same block at the same time wait for one to read it.
func (c *blockCache) get(key blockKey, load func() ([]byte, error)) ([]byte, error) {
	c.mu.Lock()
	if item, ok := c.items[key]; ok {
		c.mu.Unlock()
		<-item.ready
		if item.err != nil && (errors.Is(item.err, context.Canceled) || errors.Is(item.err, context.DeadlineExceeded)) {
			return load() // it was the other's context that ended
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

// dropAll drops what is kept of packs that gc removed.
func (c *blockCache) dropAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range c.order {
		delete(c.items, key)
	}
	c.order, c.bytes = nil, 0
}
