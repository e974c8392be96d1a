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

// Languages are what scripts may be written in, the default first.
var Languages = []string{"javascript", "typescript"}

// MaxMemory is the most that [Options.Memory] may be.
const MaxMemory = 512 << 20

// What zero Options mean.
const (
	DefaultMemory  = 64 << 20
	DefaultTimeout = 10 * time.Second
	DefaultOutput  = 1 << 20
)

// Options bound the scripts of a workspace.
type Options struct {
	Root    string        // where the workspace is for those inside, as Traits.Root: absolute paths begin with it; "" is /workspace
	Memory  int64         // bytes of an isolate; 0 is 64 MiB, and MaxMemory the most
	Timeout time.Duration // of a run that asks for none; 0 is 10 s
	Output  int64         // bytes that a result keeps; 0 is 1 MiB
}

// Module returns the Script module of a workspace with these files.
func (e *Engine) Module(files *driver.FS, opts *Options) *driver.Interpreter {
	m := &module{engine: e, files: files}
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

type module struct {
	engine *Engine
	files  *driver.FS
	opts   Options
}

// A run is one script's.
type run struct {
	*module
	code driver.Code
	dir  string
	out  *outputs.Collector

	settled bool
	full    bool // it wanted more memory than there is
	fault   *driver.CodeError
	rejects int   // promises that were rejected before anybody asked
	touched bool  // it read or changed files, or put something out
	evicted error // the first answer of the files, where that was it
}

// RunCode runs a script to its end.
func (m *module) RunCode(ctx context.Context, code driver.Code) (driver.CodeResult, error) {
	language := code.Language
	if language == "" {
		language = Languages[0]
	}
	if !slices.Contains(Languages, language) {
		return driver.CodeResult{}, fmt.Errorf("script: language %.80q: %w: the languages are %v", language, fault.InvalidArgument, Languages)
	}
	if code.Context != "" {
		return driver.CodeResult{}, fmt.Errorf("script: context %.80q: %w: a script keeps no state", code.Context, fault.Unsupported)
	}
	release, err := m.engine.acquire(ctx)
	if err != nil {
		return driver.CodeResult{}, fmt.Errorf("script: wait for a place: %w", err)
	}
	defer release()
	img, runtime, err := m.engine.prepared(ctx)
	if err != nil {
		return driver.CodeResult{}, err
	}
	if language == "typescript" { // made at the first use, as the image is, and not in the time of the run
		if _, err := m.engine.typesImage(ctx); err != nil {
			return driver.CodeResult{}, err
		}
	}
	r := &run{module: m, code: code, dir: path.Clean(code.Dir), out: &outputs.Collector{Limit: m.opts.Output, OnOutput: code.OnOutput}}
	if code.Timeout <= 0 {
		code.Timeout = m.opts.Timeout
	}
	began := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, code.Timeout, errTime)
	defer cancel()

	memory := m.memory(img)
	iso, err := img.instantiate(experimental.WithMemoryAllocator(ctx, memory), runtime)
	if err != nil {
		return driver.CodeResult{}, fmt.Errorf("script: make an isolate: %w: %w", fault.Internal, err)
	}
	defer iso.close(context.WithoutCancel(ctx))
	iso.run = r
	err = r.evaluate(withIsolate(ctx, iso), iso, language)
	if r.evicted != nil {
		return driver.CodeResult{}, r.evicted
	}
	r.full = r.full || memory.refused
	return r.result(ctx, err, code.Timeout, time.Since(began)), nil
}

// memory is that of an isolate of an image.
func (m *module) memory(img *image) *linear {
	size := uint64(len(img.memory))
	return &linear{limit: max(uint64(m.opts.Memory), size), first: size + size/4}
}

var errTime = errors.New("time is up")

// evaluate runs the source, then all that it left to be done.
func (r *run) evaluate(ctx context.Context, iso *isolate, language string) error {
	source, bad := r.code.Source, (*driver.CodeError)(nil)
	if language == "typescript" {
		var err error
		if source, bad, err = r.javascript(ctx, source, "script.ts"); err != nil || bad != nil {
			r.fault = bad
			return err
		}
	}
	flags, kind := evalAsync, "qjs_get_false"
	if isModule(source) {
		flags, kind = evalModule, "qjs_get_true"
	}
	value, err := iso.eval(ctx, source, path.Join(r.dir, "script."+extensions[language]), flags)
	if err != nil {
		return err
	}
	if exc, err := iso.exception(ctx, value); err != nil || exc != 0 {
		if err == nil {
			_, err = iso.apply(ctx, iso.image.fail, exc)
		}
		return err
	}
	module, err := iso.call(ctx, kind)
	if err != nil {
		return err
	}
	if _, err := iso.apply(ctx, iso.image.settle, value, module); err != nil {
		return err
	}
	return r.loop(ctx, iso)
}

var extensions = map[string]string{"javascript": "js", "typescript": "ts"}

// loop runs jobs and timers until there are none.
func (r *run) loop(ctx context.Context, iso *isolate) error {
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
		if reason := iso.unheard(); reason != 0 { // as in node, that is an exception
			_, err := iso.apply(ctx, iso.image.fail, reason)
			return err
		}
		v, err := iso.apply(ctx, iso.image.tick)
		if err != nil {
			return err
		}
		next, err := iso.number(ctx, v)
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

// result tells how a run ended: err is what stopped the interpreter, if anything.
func (r *run) result(ctx context.Context, err error, limit, took time.Duration) driver.CodeResult {
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
		res.Cause, r.fault = driver.CauseCanceled, &driver.CodeError{Name: "AbortError", Value: "whoever ran the script gave up"}
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

// outOfMemory reports whether the exception is the interpreter's for want of
// memory; where there is not even enough for one it is null.
func (r *run) outOfMemory() bool {
	return r.fault.Name == "InternalError" && r.fault.Value == "out of memory" || r.full && r.fault.Name == "Error" && r.fault.Value == "null"
}
