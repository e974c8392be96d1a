package eval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/croft-run/croft/eval/session"
	"github.com/croft-run/croft/eval/suite"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/eval/agent"
	"github.com/croft-run/croft/internal/host/files"
)

// A sessionRunner runs the sessions of a run.
type sessionRunner struct {
	plan     *plan
	envs     *environments
	prefetch *prefetch
	tapes    *tapes
	notify   *notifier
}

// run runs one session: it prepares a workspace, runs the agent in it, compares the
// workspace, judges the session, and removes or keeps the workspace. It returns nil if
// ctx ended first.
func (r *sessionRunner) run(ctx context.Context, e *execution, dir string) *ExecutionResult {
	res := &ExecutionResult{Runner: e.runner.info, ExecutionDir: dir, ArtifactDir: dir, Report: session.Empty(e.runner.info, e.c.Prompt)}
	if err := makeArtifacts(r.plan.runDir, e, dir); err != nil {
		setFailure(res, OriginWorkspace, err)
		return r.classify(ctx, e, res, nil)
	}
	if e.runner.rejected.Load() {
		r.failRejectedModel(e, res)
		return r.classify(ctx, e, r.writeArtifacts(res, nil), nil)
	}
	outcome, d := r.runInWorkspace(ctx, e, res)
	if ctx.Err() != nil {
		return nil
	}
	if res.FailureOrigin == OriginModelRejected {
		e.runner.rejected.Store(true)
	}
	if err := removeAllForged(dir); err != nil {
		r.notify.note("eval: %s: %v", e.name(), err)
	}
	if err := res.scrub(); err != nil {
		r.notify.note("eval: %s: %v", e.name(), err)
	}
	r.writeArtifacts(res, outcome)
	if outcome != nil {
		r.notify.printConsole(e.name(), outcome.Logs)
	}
	r.writeQuestions(e, res, outcome, d.file.Cwd)
	return r.classify(ctx, e, res, d)
}

// makeArtifacts makes the artifact directory of a session. That of a retry lies in the
// directory of the first session, where the agent could write.
func makeArtifacts(runDir string, e *execution, dir string) error {
	rel, err := filepath.Rel(runDir, dir)
	if err != nil {
		return fmt.Errorf("eval: make %s: %w: %w", dir, fault.Internal, err)
	}
	if filepath.Dir(dir) == e.dir { // a prefetched session has the directory already
		_, err = makeOwnDir(runDir, rel)
	} else {
		_, err = makeEmptyDir(runDir, rel)
	}
	return err
}

// failRejectedModel sets the failure of an execution whose runner's model was rejected
// before.
func (r *sessionRunner) failRejectedModel(e *execution, res *ExecutionResult) {
	setFailure(res, OriginModelRejected, &skillgymError{fault.Unsupported, fmt.Sprintf("Runner rejected configured model %q during initial execution.", e.runner.info.Agent.Model)})
}

// setFailure makes res a failure.
func setFailure(res *ExecutionResult, origin Origin, err error) {
	res.Passed, res.FailureOrigin, res.FailureClass = false, origin, defaultClass(origin, false)
	res.Error = &ErrorInfo{Name: "Error", Message: err.Error()}
}

// runInWorkspace prepares the workspace of a session, runs the agent, and finishes the
// workspace.
func (r *sessionRunner) runInWorkspace(ctx context.Context, e *execution, res *ExecutionResult) (outcome *suite.Outcome, d *preparedEnv) {
	start := time.Now()
	var err error
	d, err = r.prefetch.takeEnv(ctx, e, res.ArtifactDir)
	r.replaceKept(e)
	res.PreparationMs = millis(time.Since(start))
	started := time.Now()
	if err != nil {
		setup := new(setupError)
		if !errors.As(err, &setup) {
			setup = &setupError{OriginWorkspace, "", err}
		}
		setFailure(res, setup.origin, err)
		res.FailureLogPath, res.DurationMs = setup.log, millis(time.Since(start))
	} else {
		outcome = r.runAgent(ctx, e, d, res)
		res.DurationMs = millis(time.Since(started))
	}
	if d.env != nil {
		r.plan.Requests.dropWorkspace(d.env.Workspace.ID())
	}
	if removed, err := pruneArtifacts(res.ArtifactDir); err != nil || removed != "" {
		r.notify.note("eval: %s: %s", e.name(), errorOr(removed, err))
	}
	keep := !res.Passed && ctx.Err() == nil
	if keep && d.path != "" {
		res.WorkspacePath = d.path
	}
	if err := d.finish(ctx, keep, res.ArtifactDir, r.prefetch.closeEnv); err != nil {
		r.notify.note("eval: %s: the workspace: %v", e.name(), err)
	}
	if p := d.file.Preserved; p != nil && !*p {
		res.WorkspacePath = ""
	}
	if res.WorkspacePath != "" {
		e.kept = &keptWorkspace{d, res.ArtifactDir}
	}
	if keep && d.file.CleanupError != "" {
		res.WorkspaceError = d.file.CleanupError
		r.notify.note("eval: %s: the workspace of the failed session was not kept: %s", e.name(), res.WorkspaceError)
	}
	return outcome, d
}

// replaceKept records that the workspace of an earlier session of the execution is gone.
func (r *sessionRunner) replaceKept(e *execution) {
	k := e.kept
	if e.kept = nil; k == nil {
		return
	}
	k.env.file.Preserved = new(false)
	if err := k.env.writeFile(k.artifacts); err != nil {
		r.notify.note("eval: %s: the workspace of an earlier session: %v", e.name(), err)
	}
}

func errorOr(text string, err error) string {
	if err != nil {
		return err.Error()
	}
	return text
}

func millis(d time.Duration) float64 { return float64(d.Milliseconds()) }

// runAgent runs the agent, inspects the workspace, and judges the session.
func (r *sessionRunner) runAgent(ctx context.Context, e *execution, d *preparedEnv, res *ExecutionResult) *suite.Outcome {
	was, unknown := r.envs.snapshotBefore(ctx, d)
	defer was.removeStash() //nolint:errcheck // a directory of temporary files
	k, err := r.startSidecars(ctx, e, d, res.ArtifactDir)
	defer func() { r.stopSidecars(e, k, res) }()
	if err != nil {
		setFailure(res, OriginRunner, err)
		return nil
	}
	start := time.Now()
	out, err := agent.Run(ctx, d.env, k.agent, agent.Input{
		Runner: e.runner.info, Prompt: e.c.Prompt, Dir: d.env.Dir(), Artifacts: res.ArtifactDir, UserHome: r.plan.UserHome,
		Timeout: e.c.timeout, MaxSteps: r.plan.MaxSteps, Sandboxed: d.env.sandboxed, Tools: k.tools,
		MaxOutput: r.plan.config.Croft.OutputBytes,
	})
	took := time.Since(start)
	if out.Report != nil {
		res.Report = out.Report
		if raw := out.Report.RawArtifacts; raw.StdoutDropped+raw.StderrDropped > 0 {
			r.notify.note("eval: %s: the agent wrote more than a log keeps: the report and the logs lack %d bytes of stdout and %d of stderr",
				e.name(), raw.StdoutDropped, raw.StderrDropped)
		}
	}
	res.scrubber = out.Scrubber
	if err != nil {
		setFailure(res, OriginRunner, err)
		return nil
	}
	env := r.inspectWorkspace(ctx, e, d, res, was, unknown, took)
	env.judge = r.newJudge(env, k.judgeClient())
	if f := out.Failure; f != nil {
		res.Passed, res.FailureOrigin, res.FailureLogPath, res.FailureStdoutPath = false, Origin(f.Origin), f.Log, f.Stdout
		res.Error = &ErrorInfo{Name: f.Name, Message: f.Message}
		res.FailureClass = defaultClass(res.FailureOrigin, false)
		if f.Class != "" {
			res.FailureClass = &Class{ID: f.Class, Label: f.Label}
		}
		return nil
	}
	if err := d.writeFile(res.ArtifactDir); err != nil { // suites read there where the workspace is
		setFailure(res, OriginWorkspace, err)
		return nil
	}
	return r.assert(ctx, e, res, env)
}

// stopSidecars stops the sidecars of a session. An incomplete tape is a failure.
func (r *sessionRunner) stopSidecars(e *execution, k *sidecars, res *ExecutionResult) {
	if k.traffic != nil {
		if err := k.traffic.checkTape(); err != nil {
			r.notify.note("eval: %s: %v", e.name(), err)
		}
	}
	if err := k.stop(); err != nil {
		r.notify.note("eval: %s: %v", e.name(), err)
		if res.Passed && r.plan.Record != "" {
			setFailure(res, OriginCollection, err)
		}
	}
}

// inspectWorkspace adds the changes and requests of the workspace to the report, and
// returns the environment of assertions.
func (r *sessionRunner) inspectWorkspace(ctx context.Context, e *execution, d *preparedEnv, res *ExecutionResult, was *beforeState, unknown error, took time.Duration) *assertEnv {
	env := &assertEnv{preparedEnv: d, report: res.Report, changesErr: unknown}
	if unknown == nil {
		env.changes, env.changesErr = was.changesSince(ctx, d.env.Workspace)
	}
	if env.changes != nil {
		res.Report.Files.Changed, res.diff = append([]session.Change{}, env.changes.list...), env.changes.unifiedDiff(nil)
	}
	res.Report.Network = r.plan.networkRequests(ctx, d.env)
	env.info = suite.EnvInfo{CaseID: e.c.ID, RunnerID: e.runner.info.ID, OutputDir: r.plan.runDir, ArtifactDir: res.ArtifactDir,
		Workspace: d.file.Cwd, Root: d.env.Dir(), Files: d.env.Workspace,
		Usage: usageOf(res.Report, took, len(res.Report.Network), d.env.sandboxed)}
	return env
}

// assert judges a report.
func (r *sessionRunner) assert(ctx context.Context, e *execution, res *ExecutionResult, env *assertEnv) *suite.Outcome {
	data, err := json.Marshal(res.Report)
	if err != nil {
		setFailure(res, OriginNormalization, fmt.Errorf("eval: encode the report: %w: %w", fault.Internal, err))
		return nil
	}
	outcome, err := r.plan.suite.Assert(ctx, e.c.ID, data, env)
	if err != nil {
		setFailure(res, OriginAssertHook, err)
		return nil
	}
	if res.Passed = outcome.Passed; res.Passed {
		return outcome
	}
	res.FailureOrigin = Origin(outcome.Origin)
	res.FailureClass = defaultClass(res.FailureOrigin, false)
	if outcome.Class != nil {
		res.FailureClass = &Class{ID: outcome.Class.ID, Label: outcome.Class.Label}
	}
	if x := outcome.Error; x != nil {
		res.Error = &ErrorInfo{Name: x.Name, Message: x.Message, Stack: x.Stack}
	}
	return outcome
}

// explainFile is explain.json: the questions that may be asked about a failure.
type explainFile struct {
	SuitePath string           `json:"suitePath"`
	CaseID    string           `json:"caseId"`
	RunnerID  string           `json:"runnerId"`
	Cwd       string           `json:"cwd"`
	SessionID string           `json:"sessionId,omitempty"`
	Questions []suite.Question `json:"questions"`
}

// writeQuestions writes explain.json.
func (r *sessionRunner) writeQuestions(e *execution, res *ExecutionResult, outcome *suite.Outcome, cwd string) {
	if outcome == nil || len(outcome.Questions) == 0 {
		return
	}
	f := explainFile{SuitePath: r.plan.suite.Path(), CaseID: e.c.ID, RunnerID: e.runner.info.ID, Cwd: cwd, SessionID: res.Report.SessionID, Questions: outcome.Questions}
	if err := writeJSON(filepath.Join(res.ArtifactDir, explainName), f); err != nil {
		r.notify.note("eval: %v", err)
	}
}

// writeArtifacts writes the artifacts of a session.
func (r *sessionRunner) writeArtifacts(res *ExecutionResult, outcome *suite.Outcome) *ExecutionResult {
	put := func(name string, v any) {
		data, err := encodeDocument(v)
		if err == nil {
			data, err = scrubJSON(res.scrubber, data)
		}
		if err == nil {
			err = writeAtomic(filepath.Join(res.ArtifactDir, name), data)
		}
		if err != nil {
			r.notify.note("eval: %v", err)
		}
	}
	if res.Error != nil {
		put("error.json", res.Error)
	}
	put("report.json", res.Report)
	if res.diff != "" {
		if err := writeAtomic(filepath.Join(res.ArtifactDir, diffName), []byte(res.diff)); err != nil {
			r.notify.note("eval: %v", err)
		}
	}
	if outcome == nil {
		return res
	}
	if len(outcome.Judged) > 0 {
		put("judgements.json", outcome.Judged)
	}
	if len(outcome.Logs) > 0 {
		put(consoleName, outcome.Logs)
	}
	return res
}

// classify sets the failure class that the case returns, and the status. The files of the
// workspace are those that were kept on the host; d is nil without a workspace.
func (r *sessionRunner) classify(ctx context.Context, e *execution, res *ExecutionResult, d *preparedEnv) *ExecutionResult {
	if !res.Passed && e.c.HasClassify {
		var class *suite.FailureClass
		info := suite.EnvInfo{CaseID: e.c.ID, RunnerID: e.runner.info.ID, OutputDir: r.plan.runDir, ArtifactDir: res.ArtifactDir}
		if d != nil {
			info.Workspace = d.file.Cwd
		}
		if d != nil && d.env != nil && d.env.Dir() != info.Workspace {
			if kept, err := files.Open(info.Workspace, nil); err == nil {
				defer kept.Close() //nolint:errcheck // only read
				info.Root, info.Files = d.env.Dir(), kept
			}
		}
		data, err := json.Marshal(res)
		if err == nil {
			class, err = r.plan.suite.Classify(ctx, e.c.ID, data, info)
		}
		if err != nil {
			r.notify.note("eval: %s: classifyFailure: %v", e.name(), err)
		} else if class != nil {
			res.FailureClass = &Class{ID: class.ID, Label: class.Label}
		}
	}
	setStatus(res, e.c.ExpectedFail)
	return res
}
