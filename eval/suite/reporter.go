package suite

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"

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
	module    *module
}

// LoadReporter loads a module that exports, as default or under the name reporter, an
// object with at least one of the [Hooks]. Close it after use.
func (l *Loader) LoadReporter(ctx context.Context, path string) (*Reporter, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("suite: load reporter %s: %w: %w", path, fault.Of(err), err)
	}
	m, exports, err := l.openModule(ctx, "load reporter", path, Hooks...)
	if err != nil {
		return nil, err
	}
	r := &Reporter{path: path, module: m, Hooks: findHooks(exports)}
	if len(r.Hooks) == 0 {
		return nil, joinErrors(&Error{Verb: "load reporter", File: path, Code: fault.InvalidArgument,
			Message: "Reporter module must export an object with at least one hook, as default or as reporter"}, r.Close())
	}
	return r, nil
}

// findHooks returns the hooks of the object that engine.js calls, too: the first of default and
// reporter that has some.
func findHooks(exports *dataObject) []string {
	for _, name := range []string{"default", "reporter"} {
		o, ok := exports.get(name).(*dataObject)
		if !ok {
			continue
		}
		if found := slices.DeleteFunc(slices.Clone(Hooks), func(hook string) bool { return o.get(hook) != aFunction }); len(found) > 0 {
			return found
		}
	}
	return nil
}

// Call calls a hook with an event, which is JSON, and waits for its promise. A hook that
// the module lacks is not an error.
func (r *Reporter) Call(ctx context.Context, hook string, event json.RawMessage) error {
	if !slices.Contains(r.Hooks, hook) {
		return nil
	}
	ex := &execution{info: EnvInfo{OutputDir: r.OutputDir}}
	a, err := r.module.engine.request(ctx, ex, nodeRequest{Verb: "hook", Module: r.module.path, Name: hook, Data: event})
	return ex.failure("call "+hook+" of reporter", r.path, a, err)
}

// Close ends the module.
func (r *Reporter) Close() error { return r.module.close() }
