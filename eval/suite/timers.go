package suite

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/dop251/goja"
)

// A pendingTimer is a timer of an execution that has not fired.
type pendingTimer struct {
	due time.Time
	fn  goja.Callable
}

// lateTimers is how long a case waits for its timers after its assertion has ended: what
// they throw fails the case. Timers that are due later do not run.
const lateTimers = 100 * time.Millisecond

// awaitsTimer reports whether an execution whose promise is settled waits for a timer.
func (ex *execution) awaitsTimer() bool {
	if !ex.late || len(ex.timers) == 0 {
		return false
	}
	if ex.ended.IsZero() {
		ex.ended = time.Now()
	}
	return ex.timers[0].due.Before(ex.ended.Add(lateTimers))
}

// startTimer calls fn after ms, unless the returned function is called before. A timer
// does not keep an execution alive after its promise is settled, but for lateTimers.
//
// Go timers may fire in any order on a busy machine. Each one that fires runs the pending
// timer that is due first, so that all run in order.
func (v *vm) startTimer(fn goja.Callable, ms float64) goja.Value {
	ex := v.current
	if ex == nil {
		return goja.Undefined()
	}
	if math.IsNaN(ms) || ms < 1 {
		ms = 1
	}
	wait := time.Duration(min(ms, 1<<31) * float64(time.Millisecond))
	a := &pendingTimer{time.Now().Add(wait), fn}
	at, _ := slices.BinarySearchFunc(ex.timers, a, func(b, a *pendingTimer) int {
		if b.due.After(a.due) {
			return 1
		}
		return -1 // timers with equal times fire in the order in which they were set
	})
	ex.timers = slices.Insert(ex.timers, at, a)
	ctx, cancel := context.WithCancel(ex.ctx)
	v.work.Go(func() {
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-ctx.Done():
		case <-t.C:
			v.submit(ex, func() error { return ex.fireTimer() })
		}
	})
	return v.rt.ToValue(func() {
		cancel()
		ex.timers = slices.DeleteFunc(ex.timers, func(b *pendingTimer) bool { return a == b })
	})
}

// fireTimer runs the pending timer that is due first.
func (ex *execution) fireTimer() error {
	if len(ex.timers) == 0 || ex.timers[0].due.After(time.Now()) {
		return nil // it was stopped after it fired
	}
	a := ex.timers[0]
	ex.timers = ex.timers[1:]
	_, err := a.fn(goja.Undefined())
	return err
}
