package suite

import (
	"fmt"
	"runtime/metrics"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
)

// sample is how often a turn is looked at.
const sample = 50 * time.Millisecond

// A watch interrupts the engine when a turn takes too long, or too much.
type watch struct {
	v *vm

	mu    sync.Mutex
	timer *time.Timer   // guarded by mu
	seen  time.Time     // guarded by mu; when it was looked at last
	ran   time.Duration // guarded by mu; until then
	heap  uint64        // guarded by mu; in use when it was first asked for, 0 before
	over  bool          // guarded by mu
	cause error         // guarded by mu; why it interrupted
}

// guard begins to watch a turn.
func (v *vm) guard() *watch {
	w := &watch{v: v}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = time.Now()
	w.timer = time.AfterFunc(sample, w.look)
	return w
}

func (w *watch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over || w.cause != nil {
		return
	}
	// A process that was stopped, or had to wait for the machine, could neither run nor
	// look: that is not held against the turn.
	now := time.Now()
	w.ran, w.seen = w.ran+min(now.Sub(w.seen), 2*sample), now
	limits := w.v.limits
	switch {
	case w.ran >= limits.turn():
		w.cause = fmt.Errorf("suite: %w: it ran for %v without a pause", fault.DeadlineExceeded, limits.turn())
	case w.tookLocked() > limits.memory():
		w.cause = fmt.Errorf("suite: %w: it took more than %d MiB of memory", fault.ResourceExhausted, limits.memory()>>20)
	default:
		w.timer.Reset(min(sample, max(time.Millisecond, limits.turn()-w.ran)))
		return
	}
	w.v.rt.Interrupt(w.cause)
}

// tookLocked is by how much the heap has grown since it was first asked for.
func (w *watch) tookLocked() uint64 { // the caller holds w.mu
	now := heapBytes()
	if w.heap == 0 {
		w.heap = now
	}
	return max(now, w.heap) - w.heap
}

// room refuses what would take more memory than the turn may have. What asks is
// a single operation of the engine, which nothing can interrupt.
func (w *watch) room(bytes float64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	limit := w.v.limits.memory()
	if bytes <= float64(limit) && uint64(bytes)+w.tookLocked() <= limit {
		return nil
	}
	return fmt.Errorf("suite: %w: %.0f bytes at once would make it more than the %d MiB of memory that a suite may take", fault.ResourceExhausted, bytes, limit>>20)
}

// stop ends the watch, and says why it interrupted the engine if it did.
func (w *watch) stop() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Stop()
	w.over = true
	return w.cause
}

func heapBytes() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
