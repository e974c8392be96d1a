// Package tail keeps the end of what a program says, for whoever tells why it ended:
// what a program says last is mostly that, and it may say anything before.
package tail

import (
	"strings"
	"sync"
)

// DefaultMost is how many bytes a Buffer keeps by default.
const DefaultMost = 2 << 10

// A Buffer keeps the end of what is written to it. Its zero value is ready to use, and
// it is safe for concurrent use.
type Buffer struct {
	Most int // bytes that are kept; 0 is DefaultMost

	mu  sync.Mutex
	end []byte // guarded by mu
}

// Write keeps the end of p, with what is left of what came before. It never fails.
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

// String returns what is kept, as text and without space around it.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.TrimSpace(strings.ToValidUTF8(string(b.end), "?"))
}
