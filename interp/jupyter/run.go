package jupyter

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"github.com/croft-run/croft/internal/outputs"
	"github.com/croft-run/croft/workspace/driver"
)

// interruptGrace is how long code that was interrupted may take to stop before
// its kernel is started anew.
const interruptGrace = 10 * time.Second

// running is code that runs.
type running struct {
	*kernel
	id    int
	out   *outputs.Collector
	began time.Time

	cause driver.Cause
	why   string
}

// follow collects what comes until the code has ended: by itself, by an
// interrupt when its time is up, or with its kernel.
func (r *running) follow(ctx context.Context, limit time.Duration) driver.CodeResult {
	wait, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	end, err := r.drain(wait)
	if err == nil {
		return r.result(end)
	}
	if wait.Err() == nil { // the bridge is gone
		return r.lost(err.Error())
	}
	r.cause, r.why = driver.CauseTimeout, fmt.Sprintf("the code ran longer than %v and was interrupted", limit)
	if ctx.Err() != nil {
		r.cause, r.why = driver.CauseCanceled, "whoever ran the code gave up, and it was interrupted"
	}
	for _, op := range []string{"interrupt", "restart"} {
		grace, cancel := context.WithTimeout(r.life, interruptGrace)
		err := r.order(grace, request{Op: op})
		if err == nil {
			end, err = r.drain(grace)
		}
		cancel()
		if err == nil {
			return r.result(end)
		}
		r.why += ", which it did not heed: the kernel was started anew, without its state"
	}
	_ = r.session.Kill(r.life, 0) // it answers nobody; the context is gone with it
	return r.lost("the kernel answers no more, and was ended")
}

// drain takes messages until the end of this run.
func (r *running) drain(ctx context.Context) (message, error) {
	for {
		m, err := r.next(ctx)
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

func (r *running) result(end message) driver.CodeResult {
	res := driver.CodeResult{Count: end.Count, Cause: r.cause, Duration: time.Since(r.began)}
	r.out.Drop(max(end.Dropped, 0))
	switch end.Status {
	case "ok":
	case "died":
		if res.Cause == "" {
			res.Cause = driver.CauseLost
		}
		res.Error = &driver.CodeError{Name: "DeadKernel", Value: "the kernel died while it ran the code, and was started anew, without its state"}
	case "restarted":
		if res.Cause == "" {
			res.Cause = driver.CauseKilled
		}
		res.Error = &driver.CodeError{Name: "DeadKernel", Value: "the kernel was restarted while it ran the code"}
	default:
		res.Error = r.out.Error(end.Name, end.Value, plain(end.Traceback))
	}
	if r.cause != "" {
		name := "TimeoutError"
		if r.cause == driver.CauseCanceled {
			name = "AbortError"
		}
		res.Error = r.out.Error(name, r.why, plain(end.Traceback))
	}
	if res.Error != nil {
		res.ExitCode = 1
	}
	r.out.AddTo(&res)
	return res
}

// colours are how a terminal is told of them.
var colours = regexp.MustCompile("\x1b\\[[0-9;]*m")

// plain returns lines without colours, which are not for those who read a result.
func plain(lines []string) []string {
	out := make([]string, 0, len(lines))
	for _, l := range lines {
		out = append(out, colours.ReplaceAllString(l, ""))
	}
	return out
}

// lost is the result of code whose bridge is gone.
func (r *running) lost(why string) driver.CodeResult {
	res := driver.CodeResult{ExitCode: -1, Cause: r.cause, Duration: time.Since(r.began)}
	if res.Cause == "" {
		res.Cause = driver.CauseLost
	}
	r.out.AddTo(&res)
	res.Error = &driver.CodeError{Name: "DeadKernel", Value: why}
	return res
}
