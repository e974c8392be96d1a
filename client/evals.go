package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/croft-run/croft/internal/answer"
)

// States of a run of an evaluation.
const (
	EvalRunning = "running"
	EvalEnded   = "ended"
	EvalStopped = "stopped" // before all executions had ended; croft eval run --resume continues it
	EvalFailed  = "failed"  // it could not be run
)

// EvalRun is a run of an evaluation.
type EvalRun struct {
	ID         string    `json:"id"`
	Suite      string    `json:"suite" doc:"path of the suite"`
	State      string    `json:"state" enum:"running,ended,stopped,failed"`
	StartedAt  time.Time `json:"startedAt,omitzero"`
	EndedAt    time.Time `json:"endedAt,omitzero"`
	Cases      int       `json:"cases"`
	Runners    []string  `json:"runners" doc:"ids"`
	Executions int       `json:"executions" doc:"cases x runners"`
	Done       int       `json:"done" doc:"executions that have ended"`
	Passed     int       `json:"passed" doc:"executions that have passed"`
	CostUSD    *float64  `json:"costUsd,omitempty" doc:"of the sessions with a known cost"`
	Tokens     *float64  `json:"tokens,omitempty" doc:"of the sessions with a known number"`
	Error      string    `json:"error,omitempty" doc:"why it could not be run"`
}

// EvalSuite is a suite that can be started.
type EvalSuite struct {
	Path string `json:"path"`
}

// EvalRuns is the answer of Evals.
type EvalRuns struct {
	Runs   []EvalRun   `json:"runs" doc:"newest first"`
	Suites []EvalSuite `json:"suites" doc:"those of evals.suites in croft.yaml"`
	Dir    string      `json:"dir,omitempty" doc:"directory of the server's host with the runs: evals.dir in croft.yaml"`
}

// EvalMatrix is the result of a run: cases x runners.
type EvalMatrix struct {
	Runners []EvalRunner `json:"runners"`
	Cases   []EvalCase   `json:"cases"`
}

// EvalRunner is one runner over all cases.
type EvalRunner struct {
	ID         string   `json:"id"`
	Agent      string   `json:"agent,omitempty"`
	Model      string   `json:"model,omitempty"`
	Done       int      `json:"done"`
	Passed     int      `json:"passed"`
	PassRate   float64  `json:"passRate" doc:"of the executions that have ended"`
	DurationMs float64  `json:"durationMs" doc:"mean"`
	Tokens     *float64 `json:"tokens,omitempty" doc:"mean of an execution"`
	CostUSD    *float64 `json:"costUsd,omitempty" doc:"in all"`
}

// EvalCase is one case on all runners.
type EvalCase struct {
	ID         string     `json:"id"`
	Tags       []string   `json:"tags,omitempty"`
	Executions []EvalCell `json:"executions" doc:"those that have ended"`
}

// EvalCell is one case on one runner.
type EvalCell struct {
	Runner            string   `json:"runner"`
	Status            string   `json:"status"`
	Passed            bool     `json:"passed"`
	DurationMs        float64  `json:"durationMs"`
	Tokens            *float64 `json:"tokens,omitempty"`
	CostUSD           *float64 `json:"costUsd,omitempty"`
	Repetitions       int      `json:"repetitions"`
	PassedRepetitions int      `json:"passedRepetitions"`
	Error             string   `json:"error,omitempty"`
}

// EvalDetails is a run with its results.
type EvalDetails struct {
	EvalRun
	Matrix EvalMatrix `json:"matrix"`
	Log    string     `json:"log,omitempty" doc:"end of the output of a run that a server started"`
}

// EvalExecution is one session of one case on one runner.
type EvalExecution struct {
	Case          string          `json:"case"`
	Runner        string          `json:"runner"`
	Repetition    int             `json:"repetition"`
	Session       int             `json:"session"`
	Status        string          `json:"status"`
	Passed        bool            `json:"passed"`
	DurationMs    float64         `json:"durationMs"`
	Error         *EvalError      `json:"error,omitempty"`
	FailureOrigin string          `json:"failureOrigin,omitempty"`
	FailureClass  string          `json:"failureClass,omitempty"`
	Sessions      []EvalSession   `json:"sessions" doc:"all of the execution: repetitions and retries"`
	Report        json.RawMessage `json:"report,omitempty" doc:"what the agent did, as report.json has it: prompt, events, commands, files, network, usage, cost, finalOutput"`
	Diff          string          `json:"diff,omitempty" doc:"what it changed in its workspace, as a patch"`
}

// EvalError is why a session failed.
type EvalError struct {
	Name    string `json:"name"`
	Message string `json:"message"`
	Stack   string `json:"stack,omitempty"`
}

// EvalSession names a session of an execution.
type EvalSession struct {
	Repetition int    `json:"repetition"`
	Session    int    `json:"session"`
	Status     string `json:"status"`
	Passed     bool   `json:"passed"`
}

// EvalRequest is the argument of StartEval.
type EvalRequest struct {
	Suite       string   `json:"suite" doc:"path of one of the suites that GET /v1/evals lists"`
	Cases       []string `json:"cases,omitempty" doc:"ids; absent is all"`
	Runners     []string `json:"runners,omitempty" doc:"ids; absent is all"`
	Tags        []string `json:"tags,omitempty" doc:"cases with one of them"`
	Repeat      int      `json:"repeat,omitempty" doc:"how often each execution must pass; absent is what the suite says"`
	MaxParallel int      `json:"maxParallel,omitempty" doc:"executions at the same time; absent is what the suite says"`
}

const evalsPath = "/v1/evals"

// Evals lists the runs of evaluations, and the suites that can be started.
func (c *Client) Evals(ctx context.Context) (EvalRuns, error) {
	return get[EvalRuns](ctx, c, request{method: http.MethodGet, path: evalsPath})
}

// Eval returns a run with its results.
func (c *Client) Eval(ctx context.Context, run string) (EvalDetails, error) {
	return get[EvalDetails](ctx, c, request{method: http.MethodGet, path: evalsPath + "/" + url.PathEscape(run)})
}

// EvalExecution returns a session of an execution. Zero repetition and session are the last one.
func (c *Client) EvalExecution(ctx context.Context, run, caseID, runner string, repetition, session int) (EvalExecution, error) {
	q := url.Values{"case": {caseID}, "runner": {runner}}
	if repetition > 0 {
		q.Set("repetition", strconv.Itoa(repetition))
	}
	if session > 0 {
		q.Set("session", strconv.Itoa(session))
	}
	return get[EvalExecution](ctx, c, request{method: http.MethodGet, path: evalsPath + "/" + url.PathEscape(run) + "/execution", query: q})
}

// EvalComparison is two runs side by side.
type EvalComparison = answer.EvalComparison

// CompareEvals compares two runs: b against a.
func (c *Client) CompareEvals(ctx context.Context, a, b string) (EvalComparison, error) {
	return get[EvalComparison](ctx, c, request{method: http.MethodGet, path: evalsPath + "/compare", query: url.Values{"a": {a}, "b": {b}}})
}

// StartEval starts a run on the server.
func (c *Client) StartEval(ctx context.Context, r EvalRequest) (EvalRun, error) {
	return get[EvalRun](ctx, c, request{method: http.MethodPost, path: evalsPath, json: r})
}

// StopEval stops a run that the server started, and waits for its end.
func (c *Client) StopEval(ctx context.Context, run string) (EvalRun, error) {
	return get[EvalRun](ctx, c, request{method: http.MethodPost, path: evalsPath + "/" + url.PathEscape(run) + "/stop"})
}
