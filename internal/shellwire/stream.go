package shellwire

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/croft-run/croft/fault"
)

// A Window is the flow-control window of a sender. One goroutine calls Take, any number
// call Give.
type Window struct {
	mu   sync.Mutex
	free int
	wake chan struct{}
}

// NewWindow returns a window of WindowSize bytes.
func NewWindow() *Window { return &Window{free: WindowSize, wake: make(chan struct{}, 1)} }

// Take waits for free window and returns how many bytes may be sent, at most n.
func (w *Window) Take(ctx context.Context, n int) (int, error) {
	for {
		w.mu.Lock()
		got := min(n, w.free, ChunkSize)
		w.free -= got
		w.mu.Unlock()
		if got > 0 {
			return got, nil
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// Give adds n acknowledged bytes to the window.
func (w *Window) Give(n int) {
	w.mu.Lock()
	w.free = min(w.free+max(n, 0), WindowSize)
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// A Buffer holds received data of a stream that was not read yet.
type Buffer struct {
	mu   sync.Mutex
	cond *sync.Cond
	data []byte
	err  error // after data
}

// NewBuffer returns an empty buffer.
func NewBuffer() *Buffer {
	b := &Buffer{}
	b.cond = sync.NewCond(&b.mu)
	return b
}

// Put adds received data. More than a window is an error: the sender does not wait for
// acknowledgements.
func (b *Buffer) Put(data []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return nil // the reader has ended
	}
	if len(b.data)+len(data) > WindowSize {
		return fmt.Errorf("a stream: %w: more than %d unacknowledged bytes", fault.ResourceExhausted, WindowSize)
	}
	b.data = append(b.data, data...)
	b.cond.Signal()
	return nil
}

// End makes Read return err after the remaining data; nil is io.EOF. Only the first call
// counts.
func (b *Buffer) End(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil {
		err = io.EOF
	}
	if b.err == nil {
		b.err = err
	}
	b.cond.Broadcast()
}

// Read waits for data.
func (b *Buffer) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.data) == 0 && b.err == nil {
		b.cond.Wait()
	}
	if len(b.data) == 0 {
		return 0, b.err
	}
	n := copy(p, b.data)
	b.data = b.data[n:]
	return n, nil
}
