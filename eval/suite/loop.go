package suite

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dop251/goja"

	"github.com/croft-run/croft/fault"
)

// A vm is an engine and the goroutine that owns it. Everything that touches the
// engine is a turn, and turns run one after another.
type vm struct {
	rt     *goja.Runtime
	limits Limit
	done   chan struct{} // closed when the goroutine has ended

	mu     sync.Mutex
	queue  []task        // guarded by mu
	closed bool          // guarded by mu
	wake   chan struct{} // holds one token while turns wait

	live   atomic.Int32 // executions under way
	broken atomic.Bool  // it was interrupted

	work sync.WaitGroup // what runs outside for the engine: commands, judges, timers

	// The rest belongs to the goroutine.
	current  *execution
	watchdog *watchdog           // of the turn
	started  map[*execution]bool // and not yet over
	modules  map[string]goja.Value
	host     *goja.Object
	handlers *handlers
	files    *fileModule
	sources  *sources
}

// A Limit bounds the turns of an engine.
type Limit struct {
	Turn   time.Duration // without pause; 0 is 10 s
	Memory uint64        // growth of the heap in a turn; 0 is 1 GiB
}

func (l Limit) turnLimit() time.Duration {
	if l.Turn == 0 {
		return 10 * time.Second
	}
	return l.Turn
}

func (l Limit) memoryLimit() uint64 {
	if l.Memory == 0 {
		return 1 << 30
	}
	return l.Memory
}

// A task is a piece of work for the engine, on behalf of an execution.
type task struct {
	ex  *execution
	run func() error
}

// An execution is one call into a suite, with all that it leads to: what is pending
// for it, what it logged and what it collected.
type execution struct {
	ctx     context.Context
	env     AssertEnv
	info    EnvInfo
	report  []byte
	state   *goja.Object    // what the modules keep for it
	pending int             // operations outside that will come back
	settled bool            // its promise is
	value   goja.Value      // of the promise
	err     error           // why it can't go on: interrupted, exited
	timers  []*pendingTimer // timers, those that are due first before others
	logs    []Log
	written int // bytes of logs
	judged  []Judgement
	finish  func(*execution)

	unhandled []*goja.Promise // rejected, and nobody looks
}

func newVM(limits Limit) *vm {
	return &vm{rt: goja.New(), limits: limits, done: make(chan struct{}), wake: make(chan struct{}, 1), modules: map[string]goja.Value{}, sources: newSources(), started: map[*execution]bool{}}
}

// start begins to take turns.
func (v *vm) start() { go v.loop() }

func (v *vm) loop() {
	defer close(v.done)
	for range v.wake {
		for {
			v.mu.Lock()
			if v.closed {
				v.mu.Unlock()
				return
			}
			if len(v.queue) == 0 {
				v.mu.Unlock()
				break
			}
			next := v.queue[0]
			v.queue = v.queue[1:]
			v.mu.Unlock()
			v.runTask(next)
		}
	}
}

// submit adds a turn. It reports whether there will be one.
func (v *vm) submit(ex *execution, run func() error) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return false
	}
	v.queue = append(v.queue, task{ex, run})
	v.signalLocked()
	return true
}

// The caller holds v.mu.
func (v *vm) signalLocked() {
	select {
	case v.wake <- struct{}{}:
	default:
	}
}

// close ends the engine, also in the middle of a turn.
func (v *vm) close() {
	v.mu.Lock()
	first := !v.closed
	v.closed = true
	v.signalLocked()
	v.mu.Unlock()
	if first {
		v.rt.Interrupt(fmt.Errorf("suite: %w: the suite was closed", fault.Canceled))
	}
	<-v.done
	v.work.Wait()
}

// errEngineLost is why an execution ends on an engine that another one has broken. It may be
// run again on a new one.
var errEngineLost = errors.New("the engine was interrupted")

// runTask runs a turn under its limits. An engine that was interrupted in the middle is
// not fit for more: all that is under way on it ends.
func (v *vm) runTask(t task) {
	ex := t.ex
	if ex.finish == nil { // it is over; what comes back late is dropped
		return
	}
	if v.broken.Load() {
		ex.fail(errEngineLost)
		v.finishIfDone(ex)
		return
	}
	v.started[ex] = true
	v.watchdog = v.startWatchdog()
	v.current = ex
	err := t.run()
	v.current = nil
	cause := v.watchdog.stop()
	if cause == nil {
		cause = uncatchableError(err)
	}
	if cause != nil {
		v.broken.Store(true)
		err = cause
	}
	if err != nil {
		ex.fail(err)
	}
	v.finishIfDone(ex)
	if cause != nil {
		for other := range v.started {
			other.fail(errEngineLost)
			v.finishIfDone(other)
		}
	}
}

// uncatchableError is what ends a turn and no JavaScript can catch.
func uncatchableError(err error) error {
	var deep *goja.StackOverflowError
	var stopped *goja.InterruptedError
	switch {
	case errors.As(err, &deep):
		return fmt.Errorf("suite: %w: RangeError: Maximum call stack size exceeded", fault.ResourceExhausted)
	case errors.As(err, &stopped):
		return fmt.Errorf("suite: %w: it was interrupted", fault.Canceled)
	}
	return nil
}

func (ex *execution) fail(err error) {
	if ex.err == nil {
		ex.err = err
	}
}

// finishIfDone ends an execution that has nothing more to wait for: it is settled, or it
// waits for a promise that nothing is left to settle.
func (v *vm) finishIfDone(ex *execution) {
	if ex.finish == nil || ex.err == nil && ex.pending > 0 {
		return
	}
	if ex.err == nil && !ex.settled {
		if len(ex.timers) > 0 || v.live.Load() > 1 {
			return
		}
		ex.fail(fmt.Errorf("suite: %w: it waits for a promise that nothing will settle", fault.Failed))
	}
	finish := ex.finish
	ex.finish = nil
	delete(v.started, ex)
	v.current = ex
	finish(ex)
	v.current = nil
}

// runOutside runs work that blocks beside the engine, and then back on it, as a turn of
// the execution that is current now. The execution waits for it.
func (v *vm) runOutside(work func(ctx context.Context) (any, error), back func(any, error) error) {
	ex := v.current
	ex.pending++
	v.work.Go(func() {
		value, err := work(ex.ctx)
		v.submit(ex, func() error {
			ex.pending--
			return back(value, err)
		})
	})
}

// newPromise is outside as a promise of the engine.
func (v *vm) newPromise(work func(ctx context.Context) (any, error), wrap func(any) goja.Value) goja.Value {
	p, resolve, reject := v.rt.NewPromise()
	v.runOutside(work, func(value any, err error) error {
		if err != nil {
			return reject(v.toJSError(err))
		}
		return resolve(wrap(value))
	})
	return v.rt.ToValue(p)
}

// Grab, Resumed and Exited keep the execution current through promises.
func (v *vm) Grab() any { return v.current }

// Resumed is called before a reaction of a promise.
func (v *vm) Resumed(ex any) { v.current, _ = ex.(*execution) }

// Exited is called after it.
func (v *vm) Exited() {}
