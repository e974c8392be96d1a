package workspace

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// RunCode runs code in a context that keeps state, or in a new one. An exception in
// the code is a result. Code is never run twice.
func (w *Workspace) RunCode(ctx context.Context, code driver.Code) (driver.CodeResult, error) {
	return w.runCode(ctx, verbCode, code, func(d *live) *driver.Interpreter { return d.Code })
}

// RunScript runs code in an isolate that is discarded afterwards. An exception in the
// code is a result. Code is never run twice.
func (w *Workspace) RunScript(ctx context.Context, code driver.Code) (driver.CodeResult, error) {
	return w.runCode(ctx, verbScript, code, func(d *live) *driver.Interpreter { return d.Script })
}

func (w *Workspace) runCode(ctx context.Context, v *verb, code driver.Code, module func(*live) *driver.Interpreter) (res driver.CodeResult, err error) {
	var ran atomic.Bool
	if call, left := code.OnOutput, w.inflight.closing(); call != nil {
		code.OnOutput = func(o driver.Output) error {
			ran.Store(true)
			return runAbandonable(left, func() error { return call(o) })
		}
	}
	ctx, release := w.inflight.withCloseCancel(ctx)
	defer release()
	err = w.call(ctx, v, subject{dir: code.Dir}, func(ctx context.Context, d *live) error {
		m := module(d)
		if m == nil {
			return w.unsupported("running code", d)
		}
		if ran.Load() {
			return fmt.Errorf("run code: %w: the workspace was evicted after the code had written output; the code is not run again", fault.Unavailable)
		}
		code, err := checkCode(code, m, d.Traits.Root)
		if err != nil {
			return err
		}
		res, err = m.RunCode(ctx, code)
		return err
	})
	if err == nil && res.Cause == driver.CauseCanceled {
		err = w.inflight.closeReason() // nil unless the handle was closed
	}
	return res, err
}

// checkCode validates code, for all providers.
func checkCode(code driver.Code, m *driver.Interpreter, root string) (driver.Code, error) {
	if err := checkLanguage(code.Language, m); err != nil {
		return code, err
	}
	if code.Context != "" && !m.Stateful() {
		return code, fmt.Errorf("run code: context %q: %w: this interpreter has no contexts", code.Context, fault.Unsupported)
	}
	if m.Stateful() && strings.ContainsRune(code.Source, 0) {
		// It kills a Jupyter kernel for Python, which takes seconds to restart.
		return code, fmt.Errorf("run code: %w: the code has a NUL character", fault.InvalidArgument)
	}
	if code.Timeout < 0 {
		return code, fmt.Errorf("run code: time-out %v: %w: must not be negative", code.Timeout, fault.InvalidArgument)
	}
	if code.Dir == "" {
		return code, nil
	}
	dir, err := cleanName(code.Dir, root)
	code.Dir = dir
	return code, err
}

func checkLanguage(language string, m *driver.Interpreter) error {
	known := language == "" || slices.Contains(m.Languages, language) && language != driver.OtherLanguages
	if !known && !slices.Contains(m.Languages, driver.OtherLanguages) {
		return fmt.Errorf("run code: language %q: %w: the languages are %v", language, fault.InvalidArgument, m.Languages)
	}
	return nil
}

// Languages lists the languages of RunCode, the default first; nil without the
// module.
func (w *Workspace) Languages() []string {
	if m := w.current.Load().Code; m != nil {
		return slices.Clone(m.Languages)
	}
	return nil
}

// ScriptLanguages lists the languages of RunScript, the default first; nil without
// the module.
func (w *Workspace) ScriptLanguages() []string {
	if m := w.current.Load().Script; m != nil {
		return slices.Clone(m.Languages)
	}
	return nil
}

// callContexts runs an operation on contexts of the Code module.
func (w *Workspace) callContexts(ctx context.Context, call func(ctx context.Context, d *live) error) error {
	return w.call(ctx, verbContext, subject{}, func(ctx context.Context, d *live) error {
		if !d.Code.Stateful() {
			return w.unsupported("code contexts", d)
		}
		return call(ctx, d)
	})
}

// CreateContext creates a context, which keeps state until it is deleted.
func (w *Workspace) CreateContext(ctx context.Context, language string, opts *driver.ContextOptions) (c driver.CodeContext, err error) {
	o := *orZero(opts)
	err = w.callContexts(ctx, func(ctx context.Context, d *live) error {
		if err := checkLanguage(language, d.Code); err != nil {
			return err
		}
		if o.Dir != "" {
			if o.Dir, err = cleanName(o.Dir, d.Traits.Root); err != nil {
				return err
			}
		}
		c, err = d.Code.CreateContext(ctx, language, &o)
		return err
	})
	return c, err
}

// Contexts lists the contexts.
func (w *Workspace) Contexts(ctx context.Context) (list []driver.CodeContext, err error) {
	err = w.callContexts(ctx, func(ctx context.Context, d *live) error {
		list, err = d.Code.Contexts(ctx)
		return err
	})
	return list, err
}

// RestartContext gives a context a fresh state.
func (w *Workspace) RestartContext(ctx context.Context, id string) error {
	return w.callContexts(ctx, func(ctx context.Context, d *live) error { return d.Code.Restart(ctx, id) })
}

// InterruptContext stops the code that a context runs, and keeps the state of the
// context.
func (w *Workspace) InterruptContext(ctx context.Context, id string) error {
	return w.callContexts(ctx, func(ctx context.Context, d *live) error { return d.Code.Interrupt(ctx, id) })
}

// DeleteContext removes a context.
func (w *Workspace) DeleteContext(ctx context.Context, id string) error {
	return w.callContexts(ctx, func(ctx context.Context, d *live) error { return d.Code.DeleteContext(ctx, id) })
}
