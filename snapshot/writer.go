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

// blockRoom is what a block that is being filled has room for: one that is not full
// yet, a chunk, and a byte more to see that there is more.
const blockRoom = blockSize + ChunkSize + 1

// Room for blocks, plain and compressed, which is used again and again: to ask for
// it anew each time is a tenth of the work of a snapshot.
var (
	plainBlocks  = sync.Pool{New: func() any { return make([]byte, 0, blockRoom) }}
	packedBlocks = sync.Pool{New: func() any { return make([]byte, 0, blockSize) }}
)

// A objectWriter puts objects into a store: into blocks, which are compressed beside
// those who put, and blocks into packs. Nothing is to be relied on before flush.
type objectWriter struct {
	s       *Store
	unlock  func()
	started time.Time
	base    context.Context // of the whole
	ctx     context.Context // ends with the first error, too
	group   *errgroup.Group
	moving  bool // objects are written although the store has them

	mu    sync.Mutex
	fresh map[ID]bool  // put by this writer
	idle  []*openBlock // that nobody fills at the moment
	added int64        // bytes of packs

	packMu sync.Mutex
	pack   *openPack
}

// A openBlock is a block that is being filled. Each who puts has one, so that nobody
// waits for another and files are read to where they stay.
type openBlock struct {
	buf  []byte
	open []entry // what is in buf
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
func (s *Store) newWriter(ctx context.Context) (*objectWriter, error) {
	unlock, err := s.lockShared(ctx)
	if err != nil {
		return nil, err
	}
	// What gc removed since the index was read must not be built on.
	if err := s.refreshIndex(ctx); err != nil {
		unlock()
		return nil, err
	}
	w := &objectWriter{s: s, unlock: unlock, started: time.Now(), base: ctx, fresh: map[ID]bool{}}
	w.startGroup(ctx)
	return w, nil
}

func (w *objectWriter) startGroup(ctx context.Context) {
	w.group, w.ctx = errgroup.WithContext(ctx)
	w.group.SetLimit(runtime.GOMAXPROCS(0) + 1)
}

// hasObject reports whether an object need not be put.
func (w *objectWriter) hasObject(id ID) bool {
	if w.s.hasObject(id) {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fresh[id]
}

// putObject stores an object, unless it is there, and returns its name. data may be
// used again by the caller.
func (w *objectWriter) putObject(data []byte) (ID, error) {
	id := sum(data)
	return id, w.putAs(id, data)
}

func (w *objectWriter) putAs(id ID, data []byte) error {
	if len(data) > maxObject {
		return fmt.Errorf("snapshot: an object of %d bytes: %w: a directory has too many entries", len(data), fault.ResourceExhausted)
	}
	if !w.claimObject(id) {
		return nil
	}
	f := w.acquireBlock()
	f.buf = append(f.buf, data...)
	return w.endObject(f, id, len(data))
}

// claimObject reports whether an object is to be put by the caller: it is not there, and
// nobody else puts it.
func (w *objectWriter) claimObject(id ID) bool {
	if !w.moving && w.s.hasObject(id) {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fresh[id] {
		return false
	}
	w.fresh[id] = true
	return true
}

// acquireBlock returns a block to fill, which is the caller's until rest or fed.
func (w *objectWriter) acquireBlock() *openBlock {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.idle); n > 0 {
		f := w.idle[n-1]
		w.idle = w.idle[:n-1]
		return f
	}
	return &openBlock{buf: plainBlocks.Get().([]byte)}
}

// returnBlock leaves a block for the next who puts.
func (w *objectWriter) returnBlock(f *openBlock) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.idle = append(w.idle, f)
}

// endObject notes that the last size bytes of a block are an object, and begins to write
// the block if it is full.
func (w *objectWriter) endObject(f *openBlock, id ID, size int) error {
	f.open = append(f.open, entry{id: id, off: int64(len(f.buf) - size), size: int64(size)})
	if len(f.buf) < blockSize {
		w.returnBlock(f)
		return nil
	}
	w.group.Go(func() error { return w.writeBlock(f.buf, f.open) })
	return context.Cause(w.ctx) // why the group ended, rather than that it did
}

// writeBlock compresses a block and appends it to the pack.
func (w *objectWriter) writeBlock(plain []byte, objects []entry) error {
	packed := packedBlocks.Get().([]byte)
	data := compressor.EncodeAll(plain, packed[:0])
	b := packBlock{size: int64(len(data)), raw: int64(len(plain)), sum: blockSum(data)}
	if cap(plain) == blockRoom { // one that had to grow is not worth to be kept
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
	b.off = p.size
	p.foot.blocks = append(p.foot.blocks, b)
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
func (w *objectWriter) closePack(ctx context.Context) error {
	p := w.pack
	w.pack = nil
	err := p.writeFooter()
	if err == nil {
		err = p.out.Commit(ctx)
	}
	if err != nil {
		p.out.Abort()
		return err
	}
	w.registerPack(p)
	return nil
}

// writeFooter writes what follows the blocks.
func (p *openPack) writeFooter() error {
	foot := p.foot.encode()
	return p.write(append(foot, encodeTrailer(foot)...))
}

func (w *objectWriter) registerPack(p *openPack) {
	w.added += p.size
	w.s.addPack(p.id, p.size, &p.foot)
}

// flushPartialBlocks begins to write what is in no full block yet, in as few as can be. Nothing
// may be put after it.
func (w *objectWriter) flushPartialBlocks() {
	w.mu.Lock()
	idle := w.idle
	w.idle = nil
	w.mu.Unlock()
	var all *openBlock
	for _, f := range idle {
		switch {
		case all == nil:
			all = f
		case len(all.buf)+len(f.buf) <= blockRoom:
			for _, e := range f.open {
				e.off += int64(len(all.buf))
				all.open = append(all.open, e)
			}
			all.buf = append(all.buf, f.buf...)
			plainBlocks.Put(f.buf[:0]) //nolint:staticcheck // a header is nothing beside what it saves
		default:
			w.group.Go(func() error { return w.writeBlock(f.buf, f.open) })
		}
	}
	if all != nil && len(all.open) > 0 {
		w.group.Go(func() error { return w.writeBlock(all.buf, all.open) })
	}
}

// drain writes all that was put to packs.
func (w *objectWriter) drain() error {
	w.flushPartialBlocks()
	return w.group.Wait()
}

// flush commits all that was put.
func (w *objectWriter) flush(ctx context.Context) error {
	if err := w.drain(); err != nil || w.pack == nil {
		return err
	}
	return w.closePack(ctx)
}

// publish commits all that was put, and then a manifest.
func (w *objectWriter) publish(ctx context.Context, manifest Pending) error {
	if err := w.drain(); err != nil {
		return err
	}
	c, together := w.s.be.(Committer)
	if !together || w.pack == nil {
		err := w.flush(ctx)
		if err == nil {
			err = w.checkGrace()
		}
		if err == nil {
			err = manifest.Commit(ctx)
		}
		return err
	}
	if err := w.pack.writeFooter(); err != nil {
		return err
	}
	if err := c.CommitAll(ctx, []Pending{w.pack.out, manifest}); err != nil {
		return err
	}
	w.registerPack(w.pack)
	w.pack = nil
	return nil
}

// checkGrace answers why what was written may no longer be relied on: where there are
// no locks, gc may have removed what a snapshot that took too long builds on.
func (w *objectWriter) checkGrace() error {
	if _, ok := w.s.be.(Locker); ok || time.Since(w.started) < w.s.grace/2 {
		return nil
	}
	return fmt.Errorf("snapshot: it took longer than %v, after which gc may have removed what it builds on: %w", w.s.grace/2, fault.Conflict)
}

// close ends the writer. What was not flushed is dropped.
func (w *objectWriter) close() {
	w.group.Wait() //nolint:errcheck // flush has answered it, or nobody wants to know
	if w.pack != nil {
		w.pack.out.Abort()
		w.pack = nil
	}
	w.unlock()
}
