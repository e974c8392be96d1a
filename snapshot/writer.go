package snapshot

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// Room for blocks, plain and compressed, which is used again and again: to ask for
// it anew each time is a tenth of the work of a snapshot.
var (
	plainBlocks  = sync.Pool{New: func() any { return make([]byte, 0, blockSize+ChunkSize) }}
	packedBlocks = sync.Pool{New: func() any { return make([]byte, 0, blockSize) }}
)

// A writer puts objects into a store: into blocks, which are compressed beside
// those who put, and blocks into packs. Nothing is to be relied on before flush.
type writer struct {
	s       *Store
	unlock  func()
	started time.Time
	base    context.Context // of the whole
	ctx     context.Context // ends with the first error, too
	group   *errgroup.Group
	moving  bool // objects are written although the store has them

	mu    sync.Mutex
	fresh map[ID]bool // put by this writer
	buf   []byte      // of the block that is being filled
	open  []entry     // what is in buf
	added int64       // bytes of packs

	packMu sync.Mutex
	pack   *openPack
}

// openPack is a pack that is being written.
type openPack struct {
	id   string
	out  Pending
	size int64
	foot footer
}

// newWriter begins to write. Until the writer is closed, gc does not remove what
// it may build on.
func (s *Store) newWriter(ctx context.Context) (*writer, error) {
	unlock, err := s.share(ctx)
	if err != nil {
		return nil, err
	}
	// What gc removed since the index was read must not be built on.
	if err := s.refresh(ctx); err != nil {
		unlock()
		return nil, err
	}
	w := &writer{s: s, unlock: unlock, started: time.Now(), base: ctx, fresh: map[ID]bool{}}
	w.begin(ctx)
	return w, nil
}

func (w *writer) begin(ctx context.Context) {
	w.group, w.ctx = errgroup.WithContext(ctx)
	w.group.SetLimit(runtime.GOMAXPROCS(0) + 1)
}

// has reports whether an object need not be put.
func (w *writer) has(id ID) bool {
	if w.s.has(id) {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fresh[id]
}

// put stores an object, unless it is there, and returns its name. data may be
// used again by the caller.
func (w *writer) put(data []byte) (ID, error) {
	id := sum(data)
	return id, w.putAs(id, data)
}

func (w *writer) putAs(id ID, data []byte) error {
	if len(data) > maxObject {
		return fmt.Errorf("snapshot: an object of %d bytes: %w: a directory has too many entries", len(data), fault.ResourceExhausted)
	}
	if !w.moving && w.s.has(id) {
		return nil
	}
	w.mu.Lock()
	if w.fresh[id] {
		w.mu.Unlock()
		return nil
	}
	w.fresh[id] = true
	if w.buf == nil {
		w.buf = plainBlocks.Get().([]byte)
	}
	w.open = append(w.open, entry{id: id, off: int64(len(w.buf)), size: int64(len(data))})
	w.buf = append(w.buf, data...)
	if len(w.buf) < blockSize {
		w.mu.Unlock()
		return nil
	}
	buf, objects := w.buf, w.open
	w.buf, w.open = nil, nil
	w.mu.Unlock()
	w.group.Go(func() error { return w.writeBlock(buf, objects) })
	return w.ctx.Err()
}

// writeBlock compresses a block and appends it to the pack.
func (w *writer) writeBlock(plain []byte, objects []entry) error {
	packed := packedBlocks.Get().([]byte)
	data := compressor.EncodeAll(plain, packed[:0])
	raw := int64(len(plain))
	if cap(plain) == blockSize+ChunkSize { // one that had to grow is not worth to be kept
		plainBlocks.Put(plain[:0]) //nolint:staticcheck // a header is nothing beside what it saves
	}
	defer packedBlocks.Put(data[:0]) //nolint:staticcheck // likewise
	w.packMu.Lock()
	defer w.packMu.Unlock()
	if w.pack == nil {
		id := driver.NewID()
		out, err := w.s.be.Create(w.base, kindPacks+"/"+id)
		if err != nil {
			return err
		}
		w.pack = &openPack{id: id, out: out}
		if err := w.pack.write([]byte(packMagic)); err != nil {
			return err
		}
	}
	p := w.pack
	for _, e := range objects {
		e.block = len(p.foot.blocks)
		p.foot.entries = append(p.foot.entries, e)
	}
	p.foot.blocks = append(p.foot.blocks, block{off: p.size, size: int64(len(data)), raw: raw, sum: blockSum(data)})
	if err := p.write(data); err != nil {
		return err
	}
	if p.size < packSize {
		return nil
	}
	return w.closePack(w.base)
}

func (p *openPack) write(data []byte) error {
	n, err := p.out.Write(data)
	p.size += int64(n)
	return err
}

// closePack commits the pack, and makes its objects known.
func (w *writer) closePack(ctx context.Context) error {
	p := w.pack
	w.pack = nil
	foot := p.foot.encode()
	err := p.write(append(foot, trailer(foot)...))
	if err == nil {
		err = p.out.Commit(ctx)
	}
	if err != nil {
		p.out.Abort()
		return err
	}
	w.added += p.size
	w.s.addPack(p.id, p.size, &p.foot)
	return nil
}

// flush commits all that was put. Nothing may be put after it.
func (w *writer) flush(ctx context.Context) error {
	w.mu.Lock()
	buf, objects := w.buf, w.open
	w.buf, w.open = nil, nil
	w.mu.Unlock()
	if len(objects) > 0 {
		w.group.Go(func() error { return w.writeBlock(buf, objects) })
	}
	if err := w.group.Wait(); err != nil {
		return err
	}
	if w.pack == nil {
		return nil
	}
	return w.closePack(ctx)
}

// late answers why what was written may no longer be relied on: where there are
// no locks, gc may have removed what a snapshot that took too long builds on.
func (w *writer) late() error {
	if _, ok := w.s.be.(Locker); ok || time.Since(w.started) < w.s.grace/2 {
		return nil
	}
	return fmt.Errorf("snapshot: it took longer than %v, after which gc may have removed what it builds on: %w", w.s.grace/2, fault.Conflict)
}

// close ends the writer. What was not flushed is dropped.
func (w *writer) close() {
	w.group.Wait() //nolint:errcheck // flush has answered it, or nobody wants to know
	if w.pack != nil {
		w.pack.out.Abort()
		w.pack = nil
	}
	w.unlock()
}
