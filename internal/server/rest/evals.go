package rest

import (
	"context"
	"fmt"
	"net/http"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/fault"
)

// Evals are the runs of evaluations. They belong to the server, not to a tenant. A missing run is
// fault.NotFound.
type Evals interface {
	List(ctx context.Context) (client.EvalRuns, error)
	Show(ctx context.Context, run string) (client.EvalDetails, error)
	Execution(ctx context.Context, run, caseID, runner string, repetition, session int) (client.EvalExecution, error)
	Compare(ctx context.Context, a, b string) (client.EvalComparison, error)
	Start(ctx context.Context, r client.EvalRequest) (client.EvalRun, error)
	Stop(ctx context.Context, run string) (client.EvalRun, error)
}

func evalRoutes(s *Server) {
	const all, one = "/v1/evals", "/v1/evals/{run}"
	handle(s, s.op(http.MethodGet, all, "list-evals", "Runs of evaluations, newest first, and the suites that can be started; a key of a tenant sees none"), s.listEvals)
	handle(s, operatorOnly(s.op(http.MethodPost, all, "start-eval", "Start a run of a configured suite, as on the command line")),
		with(s.evalsOf, startEval))
	handle(s, s.op(http.MethodGet, all+"/compare", "compare-evals", "Two runs side by side: pass rates, tokens, time and cost with confidence intervals"),
		with(s.evalsOf, compareEvals))
	handle(s, s.op(http.MethodGet, one, "show-eval", "One run as a matrix of cases x runners"), with(s.evalsOf, showEval))
	handle(s, s.op(http.MethodGet, one+"/execution", "show-eval-execution", "One session of one case on one runner: transcript, tool calls, commands, changes, and why it failed"),
		with(s.evalsOf, showEvalExecution))
	handle(s, operatorOnly(s.op(http.MethodPost, one+"/stop", "stop-eval", "Stop a run that this server started; what has ended stays, and the run can be resumed")),
		with(s.evalsOf, stopEval))
}

// evalsOf returns the runs for the context's principal.
func (s *Server) evalsOf(ctx context.Context) (Evals, error) {
	if s.cfg.Evals == nil {
		return nil, fmt.Errorf("evaluations: %w: this server has none", fault.Unsupported)
	}
	if tenant := auth.Tenant(ctx); tenant != "" {
		return nil, fmt.Errorf("evaluation: %w: a tenant has none", fault.NotFound)
	}
	return s.cfg.Evals, nil
}

func (s *Server) listEvals(ctx context.Context, _ *none) (*body[client.EvalRuns], error) {
	none := client.EvalRuns{Runs: []client.EvalRun{}, Suites: []client.EvalSuite{}}
	if s.cfg.Evals == nil || auth.Tenant(ctx) != "" {
		return &body[client.EvalRuns]{none}, nil
	}
	return reply(s.cfg.Evals.List(ctx))
}

// EvalTarget addresses a run of an evaluation.
type EvalTarget struct {
	Run string `path:"run" doc:"id of the run"`
}

func showEval(ctx context.Context, evals Evals, in *EvalTarget) (*body[client.EvalDetails], error) {
	return reply(evals.Show(ctx, in.Run))
}

type evalExecutionInput struct {
	EvalTarget
	Case       string `query:"case" required:"true" doc:"its id"`
	Runner     string `query:"runner" required:"true" doc:"its id"`
	Repetition int    `query:"repetition" doc:"from 1; 0 is the last"`
	Session    int    `query:"session" doc:"of the repetition, from 1; 0 is the last"`
}

func showEvalExecution(ctx context.Context, evals Evals, in *evalExecutionInput) (*body[client.EvalExecution], error) {
	return reply(evals.Execution(ctx, in.Run, in.Case, in.Runner, in.Repetition, in.Session))
}

type compareEvalsInput struct {
	A string `query:"a" required:"true" doc:"id of a run"`
	B string `query:"b" required:"true" doc:"id of another run"`
}

func compareEvals(ctx context.Context, evals Evals, in *compareEvalsInput) (*body[client.EvalComparison], error) {
	return reply(evals.Compare(ctx, in.A, in.B))
}

func startEval(ctx context.Context, evals Evals, in *struct{ Body client.EvalRequest }) (*body[client.EvalRun], error) {
	out, err := evals.Start(ctx, in.Body)
	setTarget(ctx, out.ID)
	return &body[client.EvalRun]{out}, err
}

func stopEval(ctx context.Context, evals Evals, in *EvalTarget) (*body[client.EvalRun], error) {
	return reply(evals.Stop(ctx, in.Run))
}
