package isolate

import "github.com/tetratelabs/wazero/experimental"

// linear is the memory of one isolate. It is ours, not the runtime's, so that it
// ends where the options say.
type linear struct {
	limit   uint64
	first   uint64 // how much to have room for at once
	buf     []byte
	refused bool // more was wanted than there is
}

var _ experimental.LinearMemory = (*linear)(nil)

// Allocate is experimental.MemoryAllocator.
func (l *linear) Allocate(_, _ uint64) experimental.LinearMemory { return l }

// Reallocate returns the memory in a new size; nil refuses it.
func (l *linear) Reallocate(size uint64) []byte {
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

// Free lets go of it.
func (l *linear) Free() { l.buf = nil }
