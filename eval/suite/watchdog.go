package suite

import (
	"fmt"
	"runtime/metrics"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
)

// sampleInterval is how often a turn is looked at.
const sampleInterval = 50 * time.Millisecond

// A watchdog interrupts the engine when a turn takes too long, or too much.
type watchdog struct {
	v *vm

	mu      sync.Mutex
	timer   *time.Timer   // guarded by mu
	seen    time.Time     // guarded by mu; when it was looked at last
	ran     time.Duration // guarded by mu; until then
	heap    uint64        // guarded by mu; in use when it was first asked for, 0 before
	stopped bool          // guarded by mu
	cause   error         // guarded by mu; why it interrupted
}

// startWatchdog begins to watch a turn.
func (v *vm) startWatchdog() *watchdog {
	w := &watchdog{v: v}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = time.Now()
	w.timer = time.AfterFunc(sampleInterval, w.checkLimits)
	return w
}

func (w *watchdog) checkLimits() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped || w.cause != nil {
		return
	}
	// A process that was stopped, or had to wait for the machine, could neither run nor
	// look: that is not held against the turn.
	now := time.Now()
	w.ran, w.seen = w.ran+min(now.Sub(w.seen), 2*sampleInterval), now
	limits := w.v.limits
	switch {
	case w.ran >= limits.turnLimit():
		w.cause = fmt.Errorf("suite: %w: it ran for %v without a pause", fault.DeadlineExceeded, limits.turnLimit())
	case w.heapGrowthLocked() > limits.memoryLimit():
		w.cause = fmt.Errorf("suite: %w: it took more than %d MiB of memory", fault.ResourceExhausted, limits.memoryLimit()>>20)
	default:
		w.timer.Reset(min(sampleInterval, max(time.Millisecond, limits.turnLimit()-w.ran)))
		return
	}
	w.v.rt.Interrupt(w.cause)
}

// heapGrowthLocked is by how much the heap has grown since it was first asked for.
func (w *watchdog) heapGrowthLocked() uint64 { // the caller holds w.mu
	now := heapBytes()
	if w.heap == 0 {
		w.heap = now
	}
	return max(now, w.heap) - w.heap
}

// checkMemory refuses what would take more memory than the turn may have. What asks is
// a single operation of the engine, which nothing can interrupt.
func (w *watchdog) checkMemory(bytes float64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	limit := w.v.limits.memoryLimit()
	if bytes <= float64(limit) && uint64(bytes)+w.heapGrowthLocked() <= limit {
		return nil
	}
	return fmt.Errorf("suite: %w: %.0f bytes at once would make it more than the %d MiB of memory that a suite may take", fault.ResourceExhausted, bytes, limit>>20)
}

// stop ends the watch, and says why it interrupted the engine if it did.
func (w *watchdog) stop() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Stop()
	w.stopped = true
	return w.cause
}

func heapBytes() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
