package suite

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/croft-run/croft/fault"
)

// askEnv calls a method of the environment: arguments are its name and what it takes. A
// missing file is null.
func (ex *execution) askEnv(args []json.RawMessage) (any, error) {
	var op, name string
	if err := readArgs(args, &op); err != nil {
		return nil, err
	}
	args = args[1:]
	if ex.env == nil {
		return nil, errNoWorkspace
	}
	switch op {
	case "read":
		if err := readArgs(args, &name); err != nil {
			return nil, err
		}
		data, err := ex.env.ReadFile(ex.ctx, name)
		return ifFound(string(data), err)
	case "stat":
		if err := readArgs(args, &name); err != nil {
			return nil, err
		}
		return ifFound(ex.env.Stat(ex.ctx, name))
	case "changes":
		return ifFound(ex.env.Changes(ex.ctx))
	case "diff":
		var paths []string
		if err := readArgs(args, &paths); err != nil {
			return nil, err
		}
		return ifFound(ex.env.Diff(ex.ctx, paths))
	case "usage":
		return ex.info.Usage, nil
	case "run":
		var c struct {
			Command
			TimeoutMs float64
		}
		if err := readArgs(args, &c); err != nil {
			return nil, err
		}
		c.Timeout = time.Duration(c.TimeoutMs * float64(time.Millisecond))
		return ex.env.Run(ex.ctx, c.Command)
	case "judge":
		var q Judge
		if err := readArgs(args, &q); err != nil {
			return nil, err
		}
		return ex.askJudge(q)
	}
	return nil, fmt.Errorf("suite: %s: %w: there is no such question to a workspace", op, fault.Internal)
}

// ifFound makes what does not exist nil.
func ifFound[T any](value T, err error) (any, error) {
	if err == nil {
		return value, nil
	}
	if fault.Of(err) == fault.NotFound {
		return nil, nil
	}
	return nil, err
}

// askJudge asks a judge, and keeps the answer for the outcome.
func (ex *execution) askJudge(q Judge) (Judgement, error) {
	q.Report = ex.report
	j, err := ex.env.Judge(ex.ctx, q)
	if j.Rubric == "" {
		j.Rubric = q.Rubric
	}
	if err == nil {
		ex.mu.Lock()
		ex.judged = append(ex.judged, j)
		ex.mu.Unlock()
	}
	return j, err
}
