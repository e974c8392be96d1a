package isolate

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/sys"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/outputs"
	"github.com/croft-run/croft/internal/sleep"
	"github.com/croft-run/croft/workspace/driver"
)

// Languages are the supported languages, the default first.
var Languages = []string{"javascript", "typescript"}

// MaxMemory is the maximum of [Options.Memory].
const MaxMemory = 512 << 20

// Defaults of Options.
const (
	DefaultMemory  = 64 << 20
	DefaultTimeout = 10 * time.Second
	DefaultOutput  = 1 << 20
)

// Options configure the scripts of a workspace.
type Options struct {
	Root    string        // path of the workspace as scripts see it, as Traits.Root; "" is /workspace
	Memory  int64         // bytes of an isolate, up to MaxMemory; 0 is 64 MiB
	Timeout time.Duration // default time-out of a run; 0 is 10 s
	Output  int64         // bytes of output in a result; 0 is 1 MiB
}

// Module returns the Script module of a workspace with these files.
func (e *Engine) Module(files *driver.FS, opts *Options) *driver.Interpreter {
	m := &scriptModule{engine: e, files: files}
	if opts != nil {
		m.opts = *opts
	}
	if m.opts.Root == "" {
		m.opts.Root = "/workspace"
	}
	if m.opts.Memory <= 0 {
		m.opts.Memory = DefaultMemory
	}
	m.opts.Memory = min(m.opts.Memory, MaxMemory)
	if m.opts.Timeout <= 0 {
		m.opts.Timeout = DefaultTimeout
	}
	if m.opts.Output <= 0 {
		m.opts.Output = DefaultOutput
	}
	return &driver.Interpreter{Coder: m, Languages: slices.Clone(Languages)}
}

type scriptModule struct {
	engine *Engine
	files  *driver.FS
	opts   Options
}

// A scriptRun is the run of one script.
type scriptRun struct {
	*scriptModule
	code driver.Code
	dir  string
	out  *outputs.Collector

	settled bool
	full    bool // it exceeded the memory bound
	fault   *driver.CodeError
	rejects int   // promises rejected without a handler
	touched bool  // it read or changed files, or wrote output
	evicted error // the error, if the first file operation returned Evicted
}

// RunCode runs a script to its end.
func (m *scriptModule) RunCode(ctx context.Context, code driver.Code) (driver.CodeResult, error) {
	language := code.Language
	if language == "" {
		language = Languages[0]
	}
	if !slices.Contains(Languages, language) {
		return driver.CodeResult{}, fmt.Errorf("isolate: language %.80q: %w: the languages are %v", language, fault.InvalidArgument, Languages)
	}
	if code.Context != "" {
		return driver.CodeResult{}, fmt.Errorf("isolate: context %.80q: %w: a script keeps no state", code.Context, fault.Unsupported)
	}
	release, err := m.engine.acquireSlot(ctx)
	if err != nil {
		return driver.CodeResult{}, fmt.Errorf("isolate: wait for a free isolate: %w", err)
	}
	defer release()
	img, runtime, err := m.engine.preparedImage(ctx)
	if err != nil {
		return driver.CodeResult{}, err
	}
	if language == "typescript" { // created at the first use, outside the time-out of the run
		if _, err := m.engine.typesImage(ctx); err != nil {
			return driver.CodeResult{}, err
		}
	}
	r := &scriptRun{scriptModule: m, code: code, dir: path.Clean(code.Dir), out: &outputs.Collector{Limit: m.opts.Output, OnOutput: code.OnOutput}}
	if code.Timeout <= 0 {
		code.Timeout = m.opts.Timeout
	}
	began := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, code.Timeout, errTime)
	defer cancel()

	memory := m.newMemory(img)
	iso, err := img.instantiate(experimental.WithMemoryAllocator(ctx, memory), runtime)
	if err != nil {
		return driver.CodeResult{}, fmt.Errorf("isolate: create an isolate: %w: %w", fault.Internal, err)
	}
	defer iso.close(context.WithoutCancel(ctx))
	iso.run = r
	err = r.evaluate(withIsolate(ctx, iso), iso, language)
	if r.evicted != nil {
		return driver.CodeResult{}, r.evicted
	}
	r.full = r.full || memory.refused
	return r.runResult(ctx, err, code.Timeout, time.Since(began)), nil
}

// newMemory returns the memory of an isolate of an image.
func (m *scriptModule) newMemory(img *image) *linearMemory {
	size := uint64(len(img.memory))
	return &linearMemory{limit: max(uint64(m.opts.Memory), size), first: size + size/4}
}

var errTime = errors.New("time is up")

// evaluate runs the source, and then its pending jobs.
func (r *scriptRun) evaluate(ctx context.Context, iso *isolate, language string) error {
	source, bad := r.code.Source, (*driver.CodeError)(nil)
	if language == "typescript" {
		var err error
		if source, bad, err = r.stripTypes(ctx, source, "script.ts"); err != nil || bad != nil {
			r.fault = bad
			return err
		}
	}
	flags, kind := evalAsync, "qjs_get_false"
	if isModule(source) {
		flags, kind = evalModule, "qjs_get_true"
	}
	value, err := iso.evalSource(ctx, source, path.Join(r.dir, "script."+extensions[language]), flags)
	if err != nil {
		return err
	}
	if exc, err := iso.exceptionOf(ctx, value); err != nil || exc != 0 {
		if err == nil {
			_, err = iso.callFunction(ctx, iso.image.fail, exc)
		}
		return err
	}
	module, err := iso.call(ctx, kind)
	if err != nil {
		return err
	}
	if _, err := iso.callFunction(ctx, iso.image.settle, value, module); err != nil {
		return err
	}
	return r.runEventLoop(ctx, iso)
}

var extensions = map[string]string{"javascript": "js", "typescript": "ts"}

// runEventLoop runs jobs and timers until there are none (the event loop).
func (r *scriptRun) runEventLoop(ctx context.Context, iso *isolate) error {
	for {
		for {
			pending, err := iso.call(ctx, "qjs_is_job_pending")
			if err != nil {
				return err
			}
			if pending == 0 {
				break
			}
			if _, err := iso.call(ctx, "qjs_execute_pending_job"); err != nil {
				return err
			}
		}
		if r.fault != nil {
			return nil
		}
		if reason := iso.unhandledRejection(); reason != 0 { // an unhandled rejection is an exception, as in node
			_, err := iso.callFunction(ctx, iso.image.fail, reason)
			return err
		}
		v, err := iso.callFunction(ctx, iso.image.tick)
		if err != nil {
			return err
		}
		next, err := iso.numberOf(ctx, v)
		if err != nil {
			return err
		}
		if r.fault != nil || next < 0 {
			return nil
		}
		if err := sleep.For(ctx, time.Duration(min(next, float64(time.Hour/time.Millisecond))*float64(time.Millisecond))); err != nil {
			return err
		}
	}
}

// runResult returns the result of a run. err is what stopped the interpreter, or nil.
func (r *scriptRun) runResult(ctx context.Context, err error, limit, took time.Duration) driver.CodeResult {
	res := driver.CodeResult{Duration: took}
	r.out.AddTo(&res)
	var exit *sys.ExitError
	switch {
	case errors.As(err, &exit):
		res.ExitCode = int(exit.ExitCode())
		return res
	case errors.Is(context.Cause(ctx), errTime):
		res.Cause, r.fault = driver.CauseTimeout, &driver.CodeError{Name: "TimeoutError", Value: fmt.Sprintf("the script ran longer than %v", limit)}
	case ctx.Err() != nil:
		res.Cause, r.fault = driver.CauseCanceled, &driver.CodeError{Name: "AbortError", Value: "the call was canceled"}
	case r.full && err != nil, r.fault != nil && r.outOfMemory():
		res.Cause, r.fault = driver.CauseOOM, &driver.CodeError{Name: "MemoryError", Value: fmt.Sprintf("the script wants more than %d bytes of memory", r.opts.Memory)}
	case err != nil:
		first, _, _ := strings.Cut(err.Error(), "\n")
		r.fault = &driver.CodeError{Name: "InterpreterError", Value: "the script broke the interpreter: " + first}
	case r.fault == nil && !r.settled:
		r.fault = &driver.CodeError{Name: "Error", Value: "the script waits for a promise that nothing will settle"}
	}
	if res.Error = r.fault; r.fault != nil {
		res.ExitCode = 1
	}
	return res
}

// outOfMemory reports whether the exception is the out-of-memory error of the
// interpreter. Without memory for an error object it is null.
func (r *scriptRun) outOfMemory() bool {
	return r.fault.Name == "InternalError" && r.fault.Value == "out of memory" || r.full && r.fault.Name == "Error" && r.fault.Value == "null"
}
