package duplex

import (
	"bytes"
	"io"
	"os"
	"sync"
	"time"
)

// bufferSize is how many bytes of a direction may wait for the reader.
const bufferSize = 256 << 10

// A half is one direction of a connection.
type half struct {
	readBy, writeBy deadline

	mu     sync.Mutex
	buf    bytes.Buffer  // guarded by mu
	ended  bool          // guarded by mu; no more is written
	unread bool          // guarded by mu; no more is read
	wake   chan struct{} // guarded by mu; closed at the next change
}

func newHalf() *half { return &half{wake: make(chan struct{})} }

func (h *half) changedLocked() {
	close(h.wake)
	h.wake = make(chan struct{})
}

// read waits for data.
func (h *half) read(p []byte) (int, error) {
	for {
		if h.readBy.passed() {
			return 0, os.ErrDeadlineExceeded
		}
		h.mu.Lock()
		switch {
		case h.unread:
			h.mu.Unlock()
			return 0, io.ErrClosedPipe
		case h.buf.Len() > 0:
			n, err := h.buf.Read(p)
			h.changedLocked()
			h.mu.Unlock()
			return n, err
		case h.ended:
			h.mu.Unlock()
			return 0, io.EOF
		}
		wake := h.wake
		h.mu.Unlock()
		select {
		case <-wake:
		case <-h.readBy.wait():
		}
	}
}

// write waits until all of p is in the buffer.
func (h *half) write(p []byte) (n int, err error) {
	for {
		if h.writeBy.passed() {
			return n, os.ErrDeadlineExceeded
		}
		h.mu.Lock()
		if h.ended || h.unread {
			h.mu.Unlock()
			return n, io.ErrClosedPipe
		}
		if space := min(len(p)-n, bufferSize-h.buf.Len()); space > 0 {
			h.buf.Write(p[n : n+space])
			n += space
			h.changedLocked()
		}
		wake := h.wake
		h.mu.Unlock()
		if n == len(p) {
			return n, nil
		}
		select {
		case <-wake:
		case <-h.writeBy.wait():
		}
	}
}

// end makes read return io.EOF after the data that waits.
func (h *half) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.ended {
		h.ended = true
		h.changedLocked()
	}
}

// drop makes write fail, and drops the data that waits.
func (h *half) drop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.unread {
		h.unread, h.buf = true, bytes.Buffer{}
		h.changedLocked()
	}
}

// A deadline is a point of time that can be moved.
type deadline struct {
	mu    sync.Mutex
	timer *time.Timer
	over  chan struct{} // closed at the deadline
}

func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	// Calls that wait for the earlier deadline look again.
	if d.over != nil && !isClosed(d.over) {
		close(d.over)
	}
	over := make(chan struct{})
	d.over = over
	if t.IsZero() {
		return
	}
	if left := time.Until(t); left > 0 {
		d.timer = time.AfterFunc(left, func() { d.expire(over) })
		return
	}
	close(over)
}

func (d *deadline) expire(over chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !isClosed(over) {
		close(over)
	}
}

// wait returns a channel that is closed at the deadline, or when it is moved.
func (d *deadline) wait() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over == nil {
		d.over = make(chan struct{})
	}
	return d.over
}

func (d *deadline) passed() bool { return isClosed(d.wait()) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
