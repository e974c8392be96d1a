package jupyter

import (
	"context"
	"fmt"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/lazyregexp"
	"github.com/croft-run/croft/internal/outputs"
	"github.com/croft-run/croft/workspace/driver"
)

// interruptGrace is how long interrupted code may take to stop before its kernel is
// restarted.
const interruptGrace = 10 * time.Second

// codeRun is one run of code.
type codeRun struct {
	*conn
	kernel *kernel
	id     int
	out    *outputs.Collector
	began  time.Time

	cause driver.Cause
	why   string
}

// collectOutput collects output until the code has ended: by itself, by an interrupt at the
// time-out, or with its kernel.
func (r *codeRun) collectOutput(ctx context.Context, limit time.Duration) driver.CodeResult {
	wait, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	end, err := r.readMessages(wait)
	if err == nil {
		return r.result(end)
	}
	if wait.Err() == nil { // the bridge has ended
		return r.lostResult(err.Error())
	}
	life := context.WithoutCancel(ctx)
	if cause := fault.CauseOf(context.Cause(ctx)); cause == fault.CauseClosed || cause == fault.CausePaused {
		// Nobody asked for the end of the code. What it puts out from now on is for nobody.
		r.cause = driver.CauseCanceled
		_ = r.kernel.disconnect(life) // it ends with the handle at the latest
		return r.lostResult("the connection to the code was closed; the code continues, and its further output is not kept")
	}
	r.cause, r.why = driver.CauseTimeout, fmt.Sprintf("the code ran longer than %v and was interrupted", limit)
	if ctx.Err() != nil {
		r.cause, r.why = driver.CauseCanceled, "the call was canceled, and the code was interrupted"
	}
	for _, op := range []string{"interrupt", "restart"} {
		id := 0
		if op == "interrupt" {
			id = r.id // not the run of another client, for which this one waits
		}
		grace, cancel := context.WithTimeout(life, interruptGrace)
		err := r.sendRequest(grace, bridgeRequest{Op: op, ID: id})
		if err == nil {
			end, err = r.readMessages(grace)
		}
		cancel()
		if err == nil {
			return r.result(end)
		}
		r.why += ", but it did not stop: the kernel was restarted without its state"
	}
	_ = r.kernel.session.Kill(life, 0) // it does not respond; the context is removed
	return r.lostResult("the kernel did not answer, and was killed")
}

// readMessages reads messages until the end of this run.
func (r *codeRun) readMessages(ctx context.Context) (bridgeMessage, error) {
	for {
		m, err := r.nextMessage(ctx)
		if err != nil {
			return m, err
		}
		kind := driver.OutputKind(m.Kind)
		switch {
		case m.T == "text" && (kind == driver.OutputStdout || kind == driver.OutputStderr):
			r.out.Text(kind, m.Text)
		case m.T == "data" && (kind == driver.OutputDisplay || kind == driver.OutputResult):
			r.out.Data(kind, m.Data)
		case m.T == "end" && m.ID == r.id:
			return m, nil
		}
	}
}

func (r *codeRun) result(end bridgeMessage) driver.CodeResult {
	res := driver.CodeResult{Count: end.Count, Cause: r.cause, Duration: time.Since(r.began)}
	r.out.Drop(max(end.Dropped, 0))
	switch end.Status {
	case "ok":
	case "died":
		if res.Cause == "" {
			res.Cause = driver.CauseLost
		}
		res.Error = &driver.CodeError{Name: "DeadKernel", Value: "the kernel died while it ran the code, and was restarted without its state"}
	case "lost":
		if res.Cause == "" {
			res.Cause = driver.CauseLost
		}
		res.Error = &driver.CodeError{Name: "DeadKernel", Value: "the kernel had died since the run before, for example for lack of memory, and was restarted without its state; this code was not run"}
	case "dropped":
		res.Error = &driver.CodeError{Name: "DeadKernel", Value: "the code was not run: the run before it had not ended"}
	case "restarted":
		if res.Cause == "" {
			res.Cause = driver.CauseKilled
		}
		res.Error = &driver.CodeError{Name: "DeadKernel", Value: "the kernel was restarted while it ran the code"}
	default:
		res.Error = r.out.Error(end.Name, end.Value, stripColours(end.Traceback))
	}
	if r.cause != "" {
		name := "TimeoutError"
		if r.cause == driver.CauseCanceled {
			name = "AbortError"
		}
		res.Error = r.out.Error(name, r.why, stripColours(end.Traceback))
	}
	if res.Error != nil {
		res.ExitCode = 1
	}
	r.out.AddTo(&res)
	return res
}

// colours matches ANSI escape sequences for colours.
var colours = lazyregexp.New("\x1b\\[[0-9;]*m")

// stripColours removes colours from lines.
func stripColours(lines []string) []string {
	out := make([]string, 0, len(lines))
	for _, l := range lines {
		out = append(out, colours.ReplaceAllString(l, ""))
	}
	return out
}

// lostResult returns the result of code whose bridge has ended.
func (r *codeRun) lostResult(why string) driver.CodeResult {
	res := driver.CodeResult{ExitCode: -1, Cause: r.cause, Duration: time.Since(r.began)}
	if res.Cause == "" {
		res.Cause = driver.CauseLost
	}
	r.out.AddTo(&res)
	res.Error = &driver.CodeError{Name: "DeadKernel", Value: why}
	return res
}
