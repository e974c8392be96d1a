package suite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/croft-run/croft/fault"
)

// Assert judges a session by the assertion of a case. report is the session report as
// JSON; env may be nil. A failed assertion is an Outcome. An error means that the
// assertion did not run: the case does not exist, the report is not JSON, or ctx ended.
func (s *Suite) Assert(ctx context.Context, caseID string, report json.RawMessage, env AssertEnv) (*Outcome, error) {
	var info EnvInfo
	if env != nil {
		info = env.Info()
	}
	ex, a, err := s.ask(ctx, "assert", caseID, func() *execution { return &execution{env: env, info: info, report: report} })
	lost := new(lostError)
	switch {
	case ex == nil || err != nil && !errors.As(err, &lost):
		return nil, fmt.Errorf("suite: assert %s: %w", caseID, err)
	case ex.exit != nil:
		a = &nodeAnswer{Verdict: hookOutcome(ex.exitMessage())}
	case err != nil:
		a = &nodeAnswer{Verdict: hookOutcome(withoutCode(err))}
	}
	ex.mu.Lock()
	defer ex.mu.Unlock()
	a.Verdict.Logs, a.Verdict.Judged = ex.logs, ex.judged
	return a.Verdict, nil
}

// hookOutcome is that of an assertion which was ended.
func hookOutcome(why string) *Outcome {
	return &Outcome{Origin: OriginHook, Error: &ErrorInfo{Name: "Error", Message: why}}
}

// Classify asks the case for the class of a failed result, which is JSON in the shape of
// skillgym's RunnerResult. nil is no class. An exception of classifyFailure is an error.
// info says what node:fs finds; there is no [AssertEnv] any more.
func (s *Suite) Classify(ctx context.Context, caseID string, result json.RawMessage, info EnvInfo) (*FailureClass, error) {
	ex, a, err := s.ask(ctx, "classify", caseID, func() *execution { return &execution{info: info, report: result} })
	if ex == nil {
		return nil, fmt.Errorf("suite: classify %s: %w", caseID, err)
	}
	if err := ex.failure("classify a failure of case "+caseID+" of", s.Path, a, err); err != nil {
		return nil, err
	}
	return a.Class, nil
}

// ask calls a function of a case, in an execution that begin makes; a nil one was not begun. If its
// Node ends while other executions are in it, it is repeated alone in a new one: so the one that
// ended Node is found, and the others go on.
func (s *Suite) ask(ctx context.Context, verb, caseID string, begin func() *execution) (*execution, *nodeAnswer, error) {
	r, err := s.currentRealm(ctx)
	if err != nil {
		return nil, nil, err
	}
	ex, a, err := r.ask(ctx, verb, caseID, begin)
	if lost := new(lostError); !errors.As(err, &lost) || !lost.shared {
		return ex, a, err
	}
	alone, err := s.newRealmIfOpen(ctx)
	if err != nil {
		return nil, nil, err
	}
	ex, a, err = alone.ask(ctx, verb, caseID, begin)
	return ex, a, joinErrors(err, alone.close())
}

func (r *realm) ask(ctx context.Context, verb, caseID string, begin func() *execution) (*execution, *nodeAnswer, error) {
	if !r.cases[caseID] {
		return nil, nil, fmt.Errorf("%w: the suite has no case %q", fault.NotFound, caseID)
	}
	ex := begin()
	if !json.Valid(ex.report) {
		return nil, nil, fmt.Errorf("%w: the report is not JSON", fault.InvalidArgument)
	}
	if checks, ok := r.plan.plainChecks(verb, caseID); ok || r.module == nil {
		ex.ctx = ctx
		verdict, err := runChecks(ex, checks)
		return ex, &nodeAnswer{Verdict: verdict}, err
	}
	a, err := r.engine.request(ctx, ex, nodeRequest{Verb: verb, Module: r.path, Name: caseID, Data: ex.report})
	return ex, a, err
}
