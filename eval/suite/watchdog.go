package suite

import (
	"fmt"
	"runtime/metrics"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
)

// sampleInterval is how often a running task is checked.
const sampleInterval = 50 * time.Millisecond

// A watchdog interrupts the engine when a task exceeds its time or memory limit. Memory
// is sampled, so that a single allocation can exceed the limit; checkMemory is for those.
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

// startWatchdog starts the watchdog of a task.
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
	// Time in which the whole process was stopped, or got no CPU, does not count: between
	// two samples at most two intervals are added.
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

// heapGrowthLocked is the growth of the heap since its first call.
func (w *watchdog) heapGrowthLocked() uint64 { // the caller holds w.mu
	now := heapBytes()
	if w.heap == 0 {
		w.heap = now
	}
	return max(now, w.heap) - w.heap
}

// checkMemory refuses an operation that would exceed the memory limit of the task. Such
// an operation is a single one of the engine, which can't be interrupted.
func (w *watchdog) checkMemory(bytes float64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	limit := w.v.limits.memoryLimit()
	if bytes <= float64(limit) && uint64(bytes)+w.heapGrowthLocked() <= limit {
		return nil
	}
	return fmt.Errorf("suite: %w: %.0f bytes at once would make it more than the %d MiB of memory that a suite may take", fault.ResourceExhausted, bytes, limit>>20)
}

// stop stops the watchdog, and returns why it interrupted the engine, if it did.
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
