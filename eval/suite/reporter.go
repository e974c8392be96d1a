package suite

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/dop251/goja"

	"github.com/croft-run/croft/fault"
)

// Hooks are the functions that a reporter module may export.
var Hooks = []string{"onSuiteStart", "onCaseStart", "onRunnerStart", "onRunnerFinish", "onCaseFinish", "onSuiteFinish", "onError"}

// A Reporter is a module of the user that gets the events of a run. Its console output
// goes to the Log of its Loader.
type Reporter struct {
	Hooks     []string // those that it exports
	OutputDir string   // of the run, whose files node:fs reaches; "" for none
	path      string
	module    *userModule
	hooks     *goja.Object // belongs to the goroutine of the engine
}

// LoadReporter loads a module that exports, as default or under the name reporter, an
// object with at least one of the [Hooks]. Close it after use.
func (l *Loader) LoadReporter(ctx context.Context, path string) (*Reporter, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("suite: load reporter %s: %w: %w", path, fault.Of(err), err)
	}
	r := &Reporter{path: path}
	r.module, err = l.openModule(ctx, "load reporter", path, func(_ *vm, ns *goja.Object) { r.findHooks(ns) })
	if err != nil {
		return nil, err
	}
	if len(r.Hooks) == 0 {
		return nil, joinErrors(&Error{Verb: "load reporter", File: path, Code: fault.InvalidArgument,
			Message: "Reporter module must export an object with at least one hook, as default or as reporter"}, r.Close())
	}
	return r, nil
}

func (r *Reporter) findHooks(ns *goja.Object) {
	for _, name := range []string{"default", "reporter"} {
		o, ok := ns.Get(name).(*goja.Object)
		if !ok {
			continue
		}
		var found []string
		for _, hook := range Hooks {
			if _, ok := goja.AssertFunction(o.Get(hook)); ok {
				found = append(found, hook)
			}
		}
		if len(found) > 0 {
			r.hooks, r.Hooks = o, found
			return
		}
	}
}

// Call calls a hook with an event, which is JSON, and waits for its promise. A hook that
// the module lacks is not an error.
func (r *Reporter) Call(ctx context.Context, hook string, event json.RawMessage) error {
	if !slices.Contains(r.Hooks, hook) {
		return nil
	}
	v, ex := r.module.vm, &execution{info: EnvInfo{OutputDir: r.OutputDir}}
	return v.runExecution(ctx, ex, func() error {
		fn, _ := goja.AssertFunction(r.hooks.Get(hook))
		value, err := v.parseJSON(event)
		if err != nil {
			return err
		}
		out, err := fn(r.hooks, value)
		if err != nil {
			return err
		}
		if o, ok := out.(*goja.Object); ok && o.Get("then") != nil {
			return v.awaitPromise(ex, out, nil)
		}
		ex.settled = true
		return nil
	}, func() error { return v.loadError("call "+hook+" of reporter", r.path, ex) })
}

// Close ends the module.
func (r *Reporter) Close() error { return r.module.Close() }
