package suite

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/dop251/goja"

	"github.com/croft-run/croft/fault"
)

// The modules that suites see are JavaScript, in js. Each is a function body of
// (exports, require, module, host).
//
//go:embed js/*.js
var scripts embed.FS

// internalPrefix starts the names of built-in modules in stack traces.
const internalPrefix = "croft:"

// programs caches compiled built-in modules, which all engines share.
var programs sync.Map // name -> func() (*goja.Program, error)

func compiledModule(name string) (*goja.Program, error) {
	compile, _ := programs.LoadOrStore(name, sync.OnceValues(func() (*goja.Program, error) {
		text, err := fs.ReadFile(scripts, "js/"+strings.ReplaceAll(name, "/", "-")+".js")
		if err != nil {
			return nil, fmt.Errorf("suite: find module %s: %w", name, fault.NotFound)
		}
		return goja.Compile(internalPrefix+name, "(function (exports, require, module, host) {"+string(text)+"\n})", true)
	}))
	return compile.(func() (*goja.Program, error))()
}

// require returns a built-in module, which an engine evaluates at its first use.
func (v *vm) require(name string) (goja.Value, error) {
	if m, ok := v.modules[name]; ok {
		return m.ToObject(v.rt).Get("exports"), nil
	}
	prog, err := compiledModule(name)
	if err != nil {
		return nil, err
	}
	made, err := v.rt.RunProgram(prog)
	if err != nil {
		return nil, fmt.Errorf("suite: load module %s: %w: %w", name, fault.Internal, err)
	}
	fn, _ := goja.AssertFunction(made)
	module := v.rt.NewObject()
	exports := v.rt.NewObject()
	if err := module.Set("exports", exports); err != nil {
		return nil, err
	}
	v.modules[name] = module
	if _, err := fn(goja.Undefined(), exports, v.rt.ToValue(v.requireJS), module, v.host); err != nil {
		return nil, fmt.Errorf("suite: load module %s: %w: %w", name, fault.Internal, err)
	}
	return module.Get("exports"), nil
}

func (v *vm) requireJS(call goja.FunctionCall) goja.Value {
	m, err := v.require(call.Argument(0).String())
	if err != nil {
		panic(v.toJSError(err))
	}
	return m
}

// handlers are the functions of run.js, by which Go calls a suite.
type handlers struct {
	begin    goja.Callable // (): the state of an execution
	run      goja.Callable // (case, report): a promise
	classify goja.Callable // (case, result): the promise of a class
	describe goja.Callable // (error): its data
	verdict  goja.Callable // (threw, error, state): how an assertion ended
}

// boot prepares an engine: the global object, and the functions that run cases.
func (v *vm) boot(l *Loader, dirs []string) error {
	v.files = newFiles(dirs)
	v.host = v.newHost(l)
	v.rt.SetMaxCallStackSize(4096)
	v.rt.SetAsyncContextTracker(v)
	v.rt.SetPromiseRejectionTracker(v.trackRejection)
	if _, err := v.require("globals"); err != nil {
		return err
	}
	m, err := v.require("run")
	if err != nil {
		return err
	}
	o, h := m.ToObject(v.rt), &handlers{}
	for name, fn := range map[string]*goja.Callable{"begin": &h.begin, "run": &h.run, "classify": &h.classify, "describe": &h.describe, "verdict": &h.verdict} {
		var ok bool
		if *fn, ok = goja.AssertFunction(o.Get(name)); !ok {
			return fmt.Errorf("suite: load module run: %w: it has no function %s", fault.Internal, name)
		}
	}
	v.handlers = h
	return nil
}

// trackRejection keeps rejected promises without a handler, until they get one.
func (v *vm) trackRejection(p *goja.Promise, op goja.PromiseRejectionOperation) {
	ex := v.current
	if ex == nil {
		return
	}
	if op == goja.PromiseRejectionReject {
		ex.unhandled = append(ex.unhandled, p)
		return
	}
	ex.unhandled = slices.DeleteFunc(ex.unhandled, func(other *goja.Promise) bool { return other == p })
}

// evaluateBundle runs a bundle, and calls exported with its namespace. The promise of the
// evaluation becomes that of ex.
func (v *vm) evaluateBundle(ex *execution, prog *goja.Program, exported func(*goja.Object) error) error {
	made, err := v.rt.RunProgram(prog)
	if err != nil {
		return err
	}
	fn, ok := goja.AssertFunction(made)
	if !ok {
		return fmt.Errorf("suite: evaluate: %w: the bundle is not a function", fault.Internal)
	}
	var failed error
	out, err := fn(goja.Undefined(), v.rt.ToValue(v.requireJS), v.rt.ToValue(func(call goja.FunctionCall) goja.Value {
		failed = exported(call.Argument(0).ToObject(v.rt))
		return goja.Undefined()
	}))
	if err != nil {
		return err
	}
	return v.awaitPromise(ex, out, func() error { return failed })
}

// awaitPromise makes the outcome of a promise that of ex. check is called when it is
// fulfilled.
func (v *vm) awaitPromise(ex *execution, promise goja.Value, check func() error) error {
	then, ok := goja.AssertFunction(promise.ToObject(v.rt).Get("then"))
	if !ok {
		return fmt.Errorf("suite: wait: %w: the value is not a promise", fault.Internal)
	}
	_, err := then(promise, v.rt.ToValue(func(call goja.FunctionCall) goja.Value {
		ex.settled, ex.value = true, call.Argument(0)
		if check != nil {
			if err := check(); err != nil {
				ex.fail(err)
			}
		}
		return goja.Undefined()
	}), v.rt.ToValue(func(call goja.FunctionCall) goja.Value {
		ex.settled = true
		ex.fail(&thrown{call.Argument(0)})
		return goja.Undefined()
	}))
	return err
}

// thrown wraps a value that JavaScript threw as an error.
type thrown struct{ value goja.Value }

func (t *thrown) Error() string { return t.value.String() }

// runExecution runs an execution to its end: begin is its first task, and end, also on
// the engine, its last.
func (v *vm) runExecution(ctx context.Context, ex *execution, begin func() error, end func() error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ex.ctx = ctx
	v.live.Add(1)
	defer v.live.Add(-1)
	result := make(chan error, 1)
	ex.finish = func(ex *execution) { result <- end() }
	if !v.submit(ex, begin) {
		return fmt.Errorf("suite: %w: the suite was closed", fault.WrongState)
	}
	select {
	case err := <-result:
		if ctx.Err() != nil { // a cancelled execution has no outcome
			return fmt.Errorf("suite: %w", fault.Of(ctx.Err()))
		}
		return err
	case <-ctx.Done():
		v.submit(ex, func() error { return ctx.Err() })
		return fmt.Errorf("suite: %w", fault.Of(ctx.Err()))
	case <-v.done:
		select {
		case err := <-result:
			return err
		default:
			return fmt.Errorf("suite: %w: the suite was closed", fault.WrongState)
		}
	}
}

// thrownValue returns the value that JavaScript threw, if err wraps one.
func (v *vm) thrownValue(err error) (goja.Value, bool) {
	var t *thrown
	if errors.As(err, &t) {
		return t.value, true
	}
	var ex *goja.Exception
	if errors.As(err, &ex) {
		return ex.Value(), true
	}
	return nil, false
}
