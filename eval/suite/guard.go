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

// guard interrupts the engine when a turn takes too long, or too much. What it
// returns ends the watch and says whether it did.
func (v *vm) guard() (stop func() error) {
	var (
		mu    sync.Mutex
		over  bool
		cause error
		timer *time.Timer
	)
	began, heap := time.Now(), uint64(0)
	mu.Lock()
	timer = time.AfterFunc(sample, func() {
		mu.Lock()
		defer mu.Unlock()
		if over || cause != nil {
			return
		}
		now := heapBytes()
		if heap == 0 {
			heap = now
		}
		switch {
		case time.Since(began) >= v.limits.turn():
			cause = fmt.Errorf("suite: %w: it ran for %v without a pause", fault.DeadlineExceeded, v.limits.turn())
		case now > heap && now-heap > v.limits.memory():
			cause = fmt.Errorf("suite: %w: it took more than %d MiB of memory", fault.ResourceExhausted, v.limits.memory()>>20)
		default:
			timer.Reset(min(sample, max(time.Millisecond, v.limits.turn()-time.Since(began))))
			return
		}
		v.rt.Interrupt(cause)
	})
	mu.Unlock()
	return func() error {
		timer.Stop()
		mu.Lock()
		defer mu.Unlock()
		over = true
		return cause
	}
}

func heapBytes() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
