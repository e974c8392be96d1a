package suite

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/dop251/goja"

	"github.com/croft-run/croft/fault"
)

// envOf returns the environment of the current execution.
func (v *vm) envOf(what string) (*execution, AssertEnv, error) {
	ex := v.current
	if ex == nil || ex.env == nil {
		return nil, nil, fmt.Errorf("suite: %s: %w: this execution has no workspace to look at", what, fault.Unsupported)
	}
	return ex, ex.env, nil
}

// envCall calls a method of the environment that answers at once. A missing file is null.
func (v *vm) envCall(op string, arg goja.Value) goja.Value {
	ex, env, err := v.envOf("look at the workspace")
	if err != nil {
		panic(v.toJSError(err))
	}
	var out any
	switch op {
	case "read":
		var data []byte
		if data, err = env.ReadFile(ex.ctx, arg.String()); err == nil {
			out = string(data)
		}
	case "stat":
		out, err = env.Stat(ex.ctx, arg.String())
	case "changes":
		out, err = env.Changes(ex.ctx)
	case "diff":
		var paths []string
		if err = v.decode(arg, &paths); err == nil {
			out, err = env.Diff(ex.ctx, paths)
		}
	case "usage":
		out = ex.info.Usage
	case "info":
		out = map[string]any{"caseId": ex.info.CaseID, "runnerId": ex.info.RunnerID, "workspace": ex.info.Workspace,
			"outputDir": ex.info.OutputDir, "artifactDir": ex.info.ArtifactDir}
	}
	if err != nil {
		if fault.Of(err) == fault.NotFound {
			return goja.Null()
		}
		panic(v.toJSError(err))
	}
	return v.fromJSON(out)
}

// fromJSON copies data into the engine, as JSON names its fields.
func (v *vm) fromJSON(data any) goja.Value {
	if s, ok := data.(string); ok {
		return v.rt.ToValue(s)
	}
	raw, err := json.Marshal(data)
	if err != nil {
		panic(v.toJSError(fmt.Errorf("suite: %w: %w", fault.Internal, err)))
	}
	out, err := v.parseJSON(raw)
	if err != nil {
		panic(v.toJSError(err))
	}
	return out
}

// envAsync calls a method of the environment that takes time, and returns a promise.
func (v *vm) envAsync(op string, arg goja.Value) goja.Value {
	ex, env, err := v.envOf("use the workspace")
	if err != nil {
		panic(v.toJSError(err))
	}
	switch op {
	case "run":
		var c struct {
			Argv      []string
			Script    string
			Dir       string
			Env       map[string]string
			Stdin     string
			TimeoutMs float64
		}
		if err := v.decode(arg, &c); err != nil {
			panic(v.toJSError(err))
		}
		cmd := Command{Argv: c.Argv, Script: c.Script, Dir: c.Dir, Env: c.Env, Stdin: c.Stdin, Timeout: time.Duration(c.TimeoutMs * float64(time.Millisecond))}
		return v.newPromise(func(ctx context.Context) (any, error) { return env.Run(ctx, cmd) }, v.fromJSON)
	case "judge":
		q := Judge{}
		if err := v.decode(arg, &q); err != nil {
			panic(v.toJSError(err))
		}
		q.Report = ex.report
		return v.newPromise(func(ctx context.Context) (any, error) {
			j, err := env.Judge(ctx, q)
			if j.Rubric == "" {
				j.Rubric = q.Rubric
			}
			return j, err
		}, func(out any) goja.Value {
			ex.judged = append(ex.judged, out.(Judgement))
			return v.fromJSON(out)
		})
	}
	panic(v.toJSError(fmt.Errorf("suite: %s: %w", op, fault.Internal)))
}
