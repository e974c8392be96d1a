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

// A vm is an engine and the goroutine that runs its event loop. Only tasks of the loop
// use the engine, one after another.
type vm struct {
	rt     *goja.Runtime
	limits Limit
	done   chan struct{} // closed when the loop has ended

	mu     sync.Mutex
	queue  []task        // guarded by mu
	closed bool          // guarded by mu
	wake   chan struct{} // holds one token while tasks are queued

	live   atomic.Int32 // executions under way
	broken atomic.Bool  // it was interrupted

	work sync.WaitGroup // work outside the engine: commands, judges, timers

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

// A Limit bounds the tasks of an engine.
type Limit struct {
	Turn   time.Duration // time of a task; 0 is 10 s
	Memory uint64        // growth of the heap in a task; 0 is 1 GiB
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

// A task is work on the engine for an execution: one turn of the event loop.
type task struct {
	ex  *execution
	run func() error
}

// An execution is one call into a suite, with its pending operations, logs and results.
type execution struct {
	ctx     context.Context
	env     AssertEnv
	info    EnvInfo
	report  []byte
	state   *goja.Object    // state of the built-in modules
	pending int             // operations outside the engine
	settled bool            // its promise is
	value   goja.Value      // of the promise
	err     error           // why it can't go on: interrupted, exited
	timers  []*pendingTimer // pending timers, sorted by due time
	late    bool            // it waits for timers that are due soon after its promise is settled
	ended   time.Time       // when it began to wait for them
	logs    []Log
	written int // bytes of logs
	judged  []Judgement
	finish  func(*execution)

	unhandled []*goja.Promise // rejected promises without a handler
}

func newVM(limits Limit) *vm {
	return &vm{rt: goja.New(), limits: limits, done: make(chan struct{}), wake: make(chan struct{}, 1), modules: map[string]goja.Value{}, sources: newSources(), started: map[*execution]bool{}}
}

// start starts the event loop.
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

// submit queues a task. It returns false after close.
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

// signalLocked wakes the loop. The caller holds v.mu.
func (v *vm) signalLocked() {
	select {
	case v.wake <- struct{}{}:
	default:
	}
}

// close ends the engine, also during a task.
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

// errEngineLost ends an execution on an engine that another execution broke. It may be
// repeated on a new engine.
var errEngineLost = errors.New("the engine was interrupted")

// runTask runs a task under its limits. An engine that was interrupted is not used again:
// all its executions end.
func (v *vm) runTask(t task) {
	ex := t.ex
	if ex.finish == nil { // the execution has ended; a late task is dropped
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

// uncatchableError is an error that JavaScript can't catch.
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

// finishIfDone ends an execution that waits for nothing: its promise is settled, or
// nothing is left that could settle it.
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
	if ex.err == nil && ex.awaitsTimer() {
		return
	}
	finish := ex.finish
	ex.finish = nil
	delete(v.started, ex)
	v.current = ex
	finish(ex)
	v.current = nil
}

// runOutside runs blocking work in a goroutine, and then back as a task of the current
// execution, which waits for it.
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

// newPromise is runOutside as a promise of the engine.
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

// Grab, Resumed and Exited implement goja.AsyncContextTracker: they keep the current
// execution through promises.
func (v *vm) Grab() any { return v.current }

// Resumed is called before a promise reaction.
func (v *vm) Resumed(ex any) { v.current, _ = ex.(*execution) }

// Exited is called after a promise reaction.
func (v *vm) Exited() {}
