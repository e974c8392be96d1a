package eval

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/eval/session"
	"github.com/croft-run/croft/eval/suite"
)

// outcomes plays the sessions of an execution: true passes, false fails an
// assertion.
func outcomes(e *execution, list ...bool) (attempt, *[]string) {
	var dirs []string
	return func(_ context.Context, _ *execution, dir string) *ExecutionResult {
		n := len(dirs)
		dirs = append(dirs, dir)
		r := &ExecutionResult{Passed: list[n], ArtifactDir: dir, DurationMs: float64(10 * (n + 1)), Report: session.Empty(e.runner.info, "")}
		r.Report.Usage.TotalTokens = new(float64(100 * (n + 1)))
		if !r.Passed {
			r.FailureOrigin, r.FailureClass, r.Error = OriginAssertion, defaultClass(OriginAssertion, false), &ErrorInfo{Name: "AssertionError", Message: "no"}
		}
		setStatus(r, e.c.ExpectedFail)
		return r
	}, &dirs
}

func oneExecution(expectedFail bool) *execution {
	return &execution{c: &plannedCase{Case: suite.Case{ID: "c", ExpectedFail: expectedFail}}, runner: &plannedRunner{info: session.NewRunner("r", session.Agent{})}, dir: "/d"}
}

func TestRepetitions(t *testing.T) {
	for _, c := range []struct {
		name                  string
		repeat, repeatFailure int
		sessions              []bool
		expectedFail          bool
		passed                bool
		status                Status
		dirs                  []string
		good, completed, stop int
		duration, tokens      float64
	}{
		{name: "one that passes", repeat: 1, sessions: []bool{true}, passed: true, status: StatusPassed, dirs: []string{"/d/repeat-1"}, good: 1, completed: 1, duration: 10, tokens: 100},
		{name: "means over those that passed", repeat: 3, sessions: []bool{true, true, true}, passed: true, status: StatusPassed,
			dirs: []string{"/d/repeat-1", "/d/repeat-2", "/d/repeat-3"}, good: 3, completed: 3, duration: 20, tokens: 200},
		{name: "it stops at the first that fails for good", repeat: 3, sessions: []bool{true, false}, status: StatusFailed,
			dirs: []string{"/d/repeat-1", "/d/repeat-2"}, good: 1, completed: 2, stop: 2, duration: 10, tokens: 100},
		{name: "a failure is tried again", repeat: 1, repeatFailure: 2, sessions: []bool{false, false, true}, passed: true, status: StatusPassed,
			dirs: []string{"/d/repeat-1", "/d/repeat-1/session-2", "/d/repeat-1/session-3"}, good: 1, completed: 1, duration: 30, tokens: 300},
		{name: "an expected failure is success, and not tried again", repeat: 1, repeatFailure: 2, sessions: []bool{false}, expectedFail: true, passed: true, status: StatusExpectedFailed,
			dirs: []string{"/d/repeat-1"}, good: 1, completed: 1, duration: 10, tokens: 100},
		{name: "an unexpected pass is tried again", repeat: 1, repeatFailure: 1, sessions: []bool{true, true}, expectedFail: true, status: StatusUnexpectedPassed,
			dirs: []string{"/d/repeat-1", "/d/repeat-1/session-2"}, completed: 1, stop: 1, duration: 20, tokens: 200},
	} {
		e := oneExecution(c.expectedFail)
		try, dirs := outcomes(e, c.sessions...)
		got := runRepetitions(t.Context(), e, c.repeat, c.repeatFailure, try, nil)
		if got.Passed != c.passed || got.Status != c.status || *got.SuccessfulRepetitions != c.good || got.CompletedRepetitions != c.completed || got.StoppedAtRepetition != c.stop {
			t.Errorf("%s: passed %v, %s, %d of %d good, stopped at %d", c.name, got.Passed, got.Status, *got.SuccessfulRepetitions, got.CompletedRepetitions, got.StoppedAtRepetition)
		}
		if diff := cmp.Diff(c.dirs, *dirs); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
		if got.DurationMs != c.duration || *got.Report.Usage.TotalTokens != c.tokens {
			t.Errorf("%s: %v ms and %v tokens, want %v and %v", c.name, got.DurationMs, *got.Report.Usage.TotalTokens, c.duration, c.tokens)
		}
		if c.status == StatusExpectedFailed && got.Error != nil {
			t.Errorf("%s: the whole has the error %v", c.name, got.Error)
		}
	}
}

func TestRejectedModelsAreNotTriedAgain(t *testing.T) {
	e := oneExecution(false)
	n := 0
	got := runRepetitions(t.Context(), e, 2, 5, func(context.Context, *execution, string) *ExecutionResult {
		n++
		r := &ExecutionResult{Report: session.Empty(e.runner.info, "")}
		setFailure(r, OriginModelRejected, context.Canceled)
		setStatus(r, false)
		return r
	}, nil)
	if n != 1 || got.FailureClass.ID != "model-rejected" {
		t.Errorf("%d sessions, class %v", n, got.FailureClass)
	}
}

func TestOnlyAssertionsAreExpectedToFail(t *testing.T) {
	r := &ExecutionResult{}
	setFailure(r, OriginRunner, context.Canceled)
	setStatus(r, true)
	if r.Passed || r.Status != StatusFailed {
		t.Errorf("an agent that crashes is %s where a failure is expected", r.Status)
	}
}
