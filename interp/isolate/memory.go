package isolate

import "github.com/tetratelabs/wazero/experimental"

// linearMemory is the WebAssembly linear memory of one isolate. It is allocated here and
// not by the runtime, so that Options.Memory bounds it.
type linearMemory struct {
	limit   uint64
	first   uint64 // initial capacity
	buf     []byte
	refused bool // an allocation exceeded the bound
}

var _ experimental.LinearMemory = (*linearMemory)(nil)

// Allocate implements experimental.MemoryAllocator.
func (l *linearMemory) Allocate(_, _ uint64) experimental.LinearMemory { return l }

// Reallocate resizes the memory; nil refuses.
func (l *linearMemory) Reallocate(size uint64) []byte {
	if size > l.limit {
		l.refused = true
		return nil
	}
	if size > uint64(cap(l.buf)) {
		buf := make([]byte, size, max(size, min(max(2*uint64(cap(l.buf)), l.first), l.limit)))
		copy(buf, l.buf)
		l.buf = buf
	}
	l.buf = l.buf[:size]
	return l.buf
}

// Free releases the memory.
func (l *linearMemory) Free() { l.buf = nil }
