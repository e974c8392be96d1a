package snapshot

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// blockRoom is the capacity of an open block: a block that is almost full, a chunk,
// and one more byte to detect a larger file.
const blockRoom = blockSize + ChunkSize + 1

// Pools of plain and compressed blocks: allocating new ones took a tenth of the
// time of a snapshot.
var (
	plainBlocks  = sync.Pool{New: func() any { return make([]byte, 0, blockRoom) }}
	packedBlocks = sync.Pool{New: func() any { return make([]byte, 0, blockSize) }}
)

// An objectWriter writes objects to a store: into blocks, which are compressed in
// the background, and blocks into packs. Objects are durable after flush.
type objectWriter struct {
	s       *Store
	unlock  func()
	started time.Time
	base    context.Context // of the whole
	ctx     context.Context // canceled by the first error, too
	group   *errgroup.Group
	moving  bool         // write objects although the store has them (gc)
	content atomic.Int64 // bytes of objects that were added

	mu    sync.Mutex
	fresh map[ID]bool  // written by this writer
	idle  []*openBlock // blocks that no goroutine fills at the moment
	added int64        // bytes of packs

	packMu sync.Mutex
	pack   *openPack
}

// An openBlock is a block that is being filled. Each goroutine has its own, so that
// goroutines do not wait for each other and a file is read directly into its block.
type openBlock struct {
	buf  []byte
	open []entry // objects in buf
}

type openPack struct {
	id   string
	out  Pending
	size int64
	foot footer
}

// newWriter starts a writer. Until it is closed, gc removes no object that the
// writer may reference.
func (s *Store) newWriter(ctx context.Context) (*objectWriter, error) {
	unlock, err := s.lockShared(ctx)
	if err != nil {
		return nil, err
	}
	// Objects that gc removed since the index was read must not be referenced.
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

// hasObject reports whether an object is in the store, or was written by this
// writer.
func (w *objectWriter) hasObject(id ID) bool {
	if w.s.hasObject(id) {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fresh[id]
}

// putObject stores an object, unless it exists, and returns its id. The caller may
// reuse data.
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

// claimObject reports whether the caller has to write an object: it is not in the
// store, and no other goroutine writes it.
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

// acquireBlock returns a block to fill, which the caller owns until returnBlock or
// endObject.
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

// returnBlock returns a block for further objects.
func (w *objectWriter) returnBlock(f *openBlock) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.idle = append(w.idle, f)
}

// endObject records the last size bytes of a block as an object, and writes the
// block if it is full.
func (w *objectWriter) endObject(f *openBlock, id ID, size int) error {
	w.content.Add(int64(size))
	f.open = append(f.open, entry{id: id, off: int64(len(f.buf) - size), size: int64(size)})
	if len(f.buf) < blockSize {
		w.returnBlock(f)
		return nil
	}
	w.group.Go(func() error { return w.writeBlock(f.buf, f.open) })
	return context.Cause(w.ctx) // the cause, rather than context.Canceled
}

// writeBlock compresses a block and appends it to the pack.
func (w *objectWriter) writeBlock(plain []byte, objects []entry) error {
	packed := packedBlocks.Get().([]byte)
	data := compressor.EncodeAll(plain, packed[:0])
	b := packBlock{size: int64(len(data)), raw: int64(len(plain)), sum: blockSum(data)}
	if cap(plain) == blockRoom { // blocks that grew are not pooled
		plainBlocks.Put(plain[:0]) //nolint:staticcheck // copying a slice header is cheap
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

// closePack commits the pack and adds it to the index.
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

// writeFooter writes footer and trailer.
func (p *openPack) writeFooter() error {
	foot := p.foot.encode()
	return p.write(append(foot, encodeTrailer(foot)...))
}

func (w *objectWriter) registerPack(p *openPack) {
	w.added += p.size
	w.s.addPack(p.id, p.size, &p.foot)
}

// flushPartialBlocks starts writing the blocks that are not full, merged into as
// few as possible. No object may be written after it.
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
			plainBlocks.Put(f.buf[:0]) //nolint:staticcheck // copying a slice header is cheap
		default:
			w.group.Go(func() error { return w.writeBlock(f.buf, f.open) })
		}
	}
	if all != nil && len(all.open) > 0 {
		w.group.Go(func() error { return w.writeBlock(all.buf, all.open) })
	}
}

// drain waits until all objects are in packs.
func (w *objectWriter) drain() error {
	w.flushPartialBlocks()
	return w.group.Wait()
}

// flush commits all objects.
func (w *objectWriter) flush(ctx context.Context) error {
	if err := w.drain(); err != nil || w.pack == nil {
		return err
	}
	return w.closePack(ctx)
}

// publish commits all objects, then the manifest.
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

// checkGrace returns an error if the snapshot took too long: without locks, gc may
// have removed objects that it references.
func (w *objectWriter) checkGrace() error {
	if _, ok := w.s.be.(Locker); ok || time.Since(w.started) < w.s.grace/2 {
		return nil
	}
	return fmt.Errorf("snapshot: taking the snapshot took longer than %v, so gc may have removed objects that it references: %w", w.s.grace/2, fault.Conflict)
}

// close ends the writer. Objects that were not flushed are dropped.
func (w *objectWriter) close() {
	w.group.Wait() //nolint:errcheck // flush reported it, or the caller failed before
	if w.pack != nil {
		w.pack.out.Abort()
		w.pack = nil
	}
	w.unlock()
}
