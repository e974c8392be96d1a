package suite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/dop251/goja"

	"github.com/croft-run/croft/fault"
)

// Assert judges a session by the assertion of a case. report is the session report as
// JSON; env may be nil. A failed assertion is an Outcome. An error means that the
// assertion did not run: the case does not exist, the report is not JSON, or ctx ended.
func (s *Suite) Assert(ctx context.Context, caseID string, report json.RawMessage, env AssertEnv) (*Outcome, error) {
	var out *Outcome
	ex := &execution{env: env, report: report, late: true}
	if env != nil {
		ex.info = env.Info()
	}
	err := s.runHandler(ctx, handlerCall{"assert", func(h *handlers) goja.Callable { return h.run }}, caseID, ex, func(r *realm, ex *execution, a *nodeAnswer) (err error) {
		if a != nil {
			out = outcomeInNode(ex, *a)
			return nil
		}
		out, err = r.readOutcome(ex)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("suite: assert %s: %w", caseID, err)
	}
	return out, nil
}

// Classify asks the case for the class of a failed result, which is JSON in the shape of
// skillgym's RunnerResult. nil is no class. An exception of classifyFailure is an error.
// info says what node:fs finds; there is no [AssertEnv] any more.
func (s *Suite) Classify(ctx context.Context, caseID string, result json.RawMessage, info EnvInfo) (*FailureClass, error) {
	var class *FailureClass
	err := s.runHandler(ctx, handlerCall{"classify", func(h *handlers) goja.Callable { return h.classify }}, caseID, &execution{info: info, report: result}, func(r *realm, ex *execution, a *nodeAnswer) error {
		if a != nil {
			class = a.Class
			return a.thrownError("classify a failure of case "+caseID+" of", s.Path)
		}
		if err := r.vm.loadError("classify a failure of case "+caseID+" of", s.Path, ex); err != nil {
			return err
		}
		return r.vm.decode(ex.value, &class)
	})
	if err != nil {
		return nil, err
	}
	return class, nil
}

// A handlerCall names a handler of run.js.
type handlerCall struct {
	verb    string // its name in Node
	handler func(*handlers) goja.Callable
}

// runHandler calls a handler for a case, in an execution like of. If another execution breaks the engine
// meanwhile, it is repeated once on a new engine.
//
// end gets the answer of Node, nil in the built-in engine and where Node gave none.
func (s *Suite) runHandler(ctx context.Context, call handlerCall, caseID string, of *execution, end func(*realm, *execution, *nodeAnswer) error) error {
	for again := true; ; again = false {
		r, err := s.currentRealm(ctx)
		if err != nil {
			return err
		}
		ex := &execution{env: of.env, info: of.info, report: of.report, late: of.late && r.node == nil}
		var answer *nodeAnswer
		err = r.vm.runExecution(ctx, ex, func() error {
			c, value, err := r.callArguments(caseID, ex.report)
			if err != nil {
				return err
			}
			if r.node != nil {
				r.node.request(ex, nodeRequestLine{Verb: call.verb, Case: caseID, Data: ex.report}, func(a nodeAnswer) error { answer = &a; return nil })
				return nil
			}
			return r.callHandler(ex, call.handler(r.vm.handlers), c, value)
		}, func() error {
			if errors.Is(ex.err, errEngineLost) {
				return errEngineLost
			}
			return end(r, ex, answer)
		})
		switch {
		case !errors.Is(err, errEngineLost):
			return err
		case !again:
			return fmt.Errorf("suite: %w: %w twice by other executions", fault.Unavailable, errEngineLost)
		}
	}
}

func (r *realm) callArguments(caseID string, data json.RawMessage) (*goja.Object, goja.Value, error) {
	c, ok := r.cases[caseID]
	if !ok {
		return nil, nil, &failure{fmt.Errorf("%w: the suite has no case %q", fault.NotFound, caseID)}
	}
	if !json.Valid(data) {
		return nil, nil, &failure{fmt.Errorf("%w: the report is not JSON", fault.InvalidArgument)}
	}
	value, err := r.vm.parseJSON(data)
	if err != nil {
		return nil, nil, &failure{fmt.Errorf("%w: the report: %w", fault.InvalidArgument, err)}
	}
	return c, value, nil
}

// parseJSON copies JSON into the engine.
func (v *vm) parseJSON(data []byte) (goja.Value, error) {
	parse, _ := goja.AssertFunction(v.rt.Get("JSON").ToObject(v.rt).Get("parse"))
	return parse(goja.Undefined(), v.rt.ToValue(string(data)))
}

// failure is why an assertion could not run.
type failure struct{ error }

func (f *failure) Unwrap() error { return f.error }

// callHandler calls a handler as the work of ex.
func (r *realm) callHandler(ex *execution, fn goja.Callable, args ...goja.Value) error {
	state, err := r.vm.handlers.begin(goja.Undefined())
	if err != nil {
		return err
	}
	ex.state = state.ToObject(r.vm.rt)
	promise, err := fn(goja.Undefined(), args...)
	if err != nil {
		return err
	}
	return r.vm.awaitPromise(ex, promise, nil)
}

// readOutcome is the outcome of an execution.
func (r *realm) readOutcome(ex *execution) (*Outcome, error) {
	var f *failure
	if errors.As(ex.err, &f) {
		return nil, f.error
	}
	out := &Outcome{}
	value, thrown := r.vm.thrownValue(ex.err)
	if ex.err != nil && !thrown { // it was interrupted, or it called process.exit
		out.Origin = OriginHook
		out.Error = &ErrorInfo{Name: "Error", Message: withoutCode(ex.err)}
	} else {
		if !thrown && len(ex.unhandled) > 0 { // a rejected promise without await
			value, thrown = ex.unhandled[0].Result(), true
		}
		if !thrown {
			value = goja.Undefined()
		}
		verdict, err := r.vm.handlers.verdict(goja.Undefined(), r.vm.rt.ToValue(thrown), value, ex.state)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", fault.Internal, err)
		}
		if err := r.vm.decode(verdict, out); err != nil {
			return nil, err
		}
	}
	out.Logs, out.Judged = ex.logs, ex.judged
	return out, nil
}

// decode copies data of the built-in modules out of the engine.
func (v *vm) decode(value goja.Value, to any) error {
	if value == nil || goja.IsUndefined(value) || goja.IsNull(value) {
		return nil
	}
	raw, err := json.Marshal(toPlain(toData(v.rt, value)))
	if err == nil {
		err = json.Unmarshal(raw, to)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", fault.Internal, err)
	}
	return nil
}

// describeError returns name, message and stack of a thrown value.
func (v *vm) describeError(value goja.Value) ErrorInfo {
	info := ErrorInfo{Name: "Error", Message: value.String()}
	out, err := v.handlers.describe(goja.Undefined(), value)
	if err == nil {
		err = v.decode(out, &info)
	}
	if err != nil {
		info.Message = value.String()
	}
	return info
}

// codeOf is the fault code of a thrown value that came from Go.
func codeOf(value goja.Value) fault.Code {
	if o, ok := value.(*goja.Object); ok {
		if code, ok := fault.Parse(stringOf(o.Get("code"))); ok {
			return code
		}
	}
	return fault.InvalidArgument
}

func stringOf(v goja.Value) string {
	if v == nil || goja.IsUndefined(v) {
		return ""
	}
	return v.String()
}
