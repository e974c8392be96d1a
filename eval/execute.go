package eval

import (
	"context"
	"fmt"
	"time"

	"github.com/croft-run/croft/eval/session"
)

// An execution is one case on one runner, with all its repetitions and retries.
type execution struct {
	index  int // in the matrix
	c      *plannedCase
	runner *plannedRunner
	dir    string // of its artifacts
	kept   *keptWorkspace
}

// A keptWorkspace is the workspace of a failed session, which the next session of the
// execution replaces.
type keptWorkspace struct {
	env       *preparedEnv
	artifacts string
}

// attempt runs one session. It returns nil if ctx ended first.
type attempt func(ctx context.Context, e *execution, dir string) *ExecutionResult

// execute repeats an execution until it has passed as often as configured, or failed. It
// returns nil if ctx ended first.
func (r *run) execute(ctx context.Context, e *execution) *ExecutionResult {
	return runRepetitions(ctx, e, r.Repeat, *r.RepeatFailure, r.sessions.run, func(reports []*session.Report) *ErrorInfo {
		return r.baselines.check(e.c.ID, e.runner.info, reports, session.Time(time.Now()))
	})
}

// runRepetitions is execute with its dependencies as parameters.
func runRepetitions(ctx context.Context, e *execution, repeat, repeatFailure int, try attempt, check func([]*session.Report) *ErrorInfo) *ExecutionResult {
	var repetitions, good []*ExecutionResult
	var failed *ExecutionResult
	for n := 1; n <= repeat && failed == nil; n++ {
		r := runRepetition(ctx, e, n, repeatFailure, try)
		if r == nil {
			return nil
		}
		repetitions = append(repetitions, r)
		if r.Passed {
			good = append(good, r)
		} else {
			failed = r
		}
	}
	out := aggregateResults(e, repeat, repetitions, good, failed)
	if check == nil || len(good) == 0 {
		return out
	}
	var reports []*session.Report
	for _, r := range good {
		reports = append(reports, r.Report)
	}
	why := check(reports)
	if why == nil {
		return out
	}
	failure := &ExecutionResult{Runner: e.runner.info, Error: why, FailureOrigin: OriginSnapshot, FailureClass: defaultClass(OriginSnapshot, false), ArtifactDir: e.dir}
	setStatus(failure, e.c.ExpectedFail)
	return aggregateResults(e, repeat, repetitions, good, failure)
}

// runRepetition runs one repetition: a session, and retries while it fails and retries
// are left.
func runRepetition(ctx context.Context, e *execution, n, repeatFailure int, try attempt) *ExecutionResult {
	var sessions []*ExecutionResult
	for s := 1; ; s++ {
		one := try(ctx, e, sessionDir(e.dir, n, s))
		if one == nil {
			return nil
		}
		one.Session = s
		sessions = append(sessions, one)
		if one.Passed || s > repeatFailure || one.FailureOrigin == OriginModelRejected {
			r := *one
			r.Repetition, r.Sessions = n, sessions
			return &r
		}
	}
}

// aggregateResults makes the result of an execution from its repetitions: numbers are
// means over those that passed, and all else comes from the last repetition, or from the
// failure that ended the execution.
func aggregateResults(e *execution, repeat int, repetitions, good []*ExecutionResult, failed *ExecutionResult) *ExecutionResult {
	last := repetitions[len(repetitions)-1]
	dropReplaced(repetitions)
	out := &ExecutionResult{
		Runner: e.runner.info, Passed: failed == nil, ExecutionDir: e.dir, ArtifactDir: last.ArtifactDir, Session: last.Session,
		RepeatTarget: repeat, CompletedRepetitions: len(repetitions), SuccessfulRepetitions: new(len(good)), Repetitions: repetitions,
		WorkspacePath: last.WorkspacePath, WorkspaceError: last.WorkspaceError, PreparationMs: last.PreparationMs,
	}
	if len(good) > 0 {
		out.DurationMs, out.Report = meanReport(good)
		out.Status = good[len(good)-1].Status
	} else {
		out.DurationMs, out.Report = failed.DurationMs, failed.Report
	}
	if repeat == 1 {
		out.Sessions = repetitions[0].Sessions
	}
	if failed != nil {
		out.Status, out.ArtifactDir, out.Error = failed.Status, failed.ArtifactDir, failed.Error
		out.FailureOrigin, out.FailureClass = failed.FailureOrigin, failed.FailureClass
		out.FailureLogPath, out.FailureStdoutPath = failed.FailureLogPath, failed.FailureStdoutPath
		out.StoppedAtRepetition = last.Repetition
	}
	return out
}

// dropReplaced removes the paths of workspaces that later sessions replaced.
func dropReplaced(repetitions []*ExecutionResult) {
	for i, rep := range repetitions {
		for j, s := range rep.Sessions {
			if i < len(repetitions)-1 || j < len(rep.Sessions)-1 {
				s.WorkspacePath = ""
			}
		}
		if i < len(repetitions)-1 {
			rep.WorkspacePath = ""
		}
	}
}

// meanReport is the last report with the means of all reports.
func meanReport(good []*ExecutionResult) (durationMs float64, report *session.Report) {
	var durations, took []float64
	var reports []*session.Report
	for _, g := range good {
		durations = append(durations, g.DurationMs)
		if g.Report.DurationMs != nil {
			took = append(took, *g.Report.DurationMs)
		}
		reports = append(reports, g.Report)
	}
	r := *good[len(good)-1].Report
	r.DurationMs = optionalMean(took)
	u, n := &r.Usage, meanCounts(reports)
	u.InputTokens, u.OutputTokens, u.ReasoningTokens, u.CacheTokens, u.TotalTokens = n[0], n[1], n[2], n[3], n[4]
	return mean(durations), &r
}

// name identifies an execution, for people.
func (e *execution) name() string { return fmt.Sprintf("%s > %s", e.c.ID, e.runner.info.ID) }
