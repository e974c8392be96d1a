package script

import (
	"sync"

	"github.com/tetratelabs/wazero/experimental"
)

// linear is the memory of one isolate. It is ours, not the runtime's, so that it
// ends where the options say, and so that the word that stops the isolate can be
// written from outside while the memory may be moving.
type linear struct {
	limit uint64
	first uint64 // how much to have room for at once

	mu      sync.Mutex
	buf     []byte // +checklocks:mu
	stopped bool   // +checklocks:mu
	refused bool   // +checklocks:mu; more was wanted than there is
}

var _ experimental.LinearMemory = (*linear)(nil)

// Allocate is experimental.MemoryAllocator.
func (l *linear) Allocate(_, _ uint64) experimental.LinearMemory { return l }

// Reallocate returns the memory in a new size; nil refuses it.
func (l *linear) Reallocate(size uint64) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
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
	l.markLocked()
	return l.buf
}

// Free lets go of it.
func (l *linear) Free() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf = nil
}

// stop makes the isolate trap at the head of its next loop.
func (l *linear) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
	l.markLocked()
}

// full reports whether the isolate wanted more than it may have.
func (l *linear) full() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refused
}

func (l *linear) markLocked() {
	if stopsByWord && l.stopped && len(l.buf) > stopWord {
		l.buf[stopWord] = 1
	}
}
