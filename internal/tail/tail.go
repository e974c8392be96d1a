// Package tail keeps the last bytes of a program's output, which usually say why the
// program exited.
package tail

import (
	"strings"
	"sync"
)

// DefaultMost is the default size of a Buffer, in bytes.
const DefaultMost = 2 << 10

// A Buffer keeps the last bytes written to it. The zero value is ready to use, and is safe
// for concurrent use.
type Buffer struct {
	Most int // bytes that are kept; 0 is DefaultMost

	mu  sync.Mutex
	end []byte // guarded by mu
}

// Write appends p and drops the oldest bytes. It never fails.
func (b *Buffer) Write(p []byte) (int, error) {
	most := b.Most
	if most <= 0 {
		most = DefaultMost
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(p) >= most {
		b.end = append(b.end[:0], p[len(p)-most:]...)
		return len(p), nil
	}
	if extra := len(b.end) + len(p) - most; extra > 0 {
		b.end = append(b.end[:0], b.end[extra:]...)
	}
	b.end = append(b.end, p...)
	return len(p), nil
}

// String returns the kept bytes as text, trimmed.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.TrimSpace(strings.ToValidUTF8(string(b.end), "?"))
}
