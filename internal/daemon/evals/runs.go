package evals

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/eval"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/config"
	"github.com/croft-run/croft/internal/lazyregexp"
)

// outputFile has the output of a run that the server started, in the directory with the run's.
const outputFile = "output.log"

// Runs are the runs of evaluations in evals.dir of the configuration. A run that the server starts is a process
// of its own: croft eval run, in a directory DIR/ID with its output, in which it makes its own
// directory. Others are directories of croft eval run --output-dir DIR.
type Runs struct {
	data     string
	settings func() *config.Config
	self     func(ctx context.Context, args ...string) (*exec.Cmd, error)
	log      *slog.Logger

	mu      sync.Mutex
	running map[string]*process  // guarded by mu; by id
	closed  bool                 // guarded by mu; no run starts any more
	cache   map[string]cachedRun // guarded by mu; by directory
}

// An process is a run that this process started.
type process struct {
	cmd     *exec.Cmd
	suite   string
	done    chan struct{} // closed when it has ended
	err     error         // after done
	stopped atomic.Bool   // Stop was called
}

// A cachedRun is a run as it was at a time and size of its journal.
type cachedRun struct {
	at   time.Time
	size int64
	view *runView
}

// An runView is what is shown of a run, without reports.
type runView struct {
	eval.RunView
	cells map[string]map[string]*eval.ExecutionResult // summaries, by case and runner
}

// NewRuns returns the runs of a server: data is its data directory, in which no run can be, and self
// returns croft with arguments; nil starts no run.
func NewRuns(data string, settings func() *config.Config, self func(context.Context, ...string) (*exec.Cmd, error), log *slog.Logger) *Runs {
	return &Runs{data: data, settings: settings, self: self, log: log, running: map[string]*process{}, cache: map[string]cachedRun{}}
}

// outputDir returns the directory of the runs; "" if the configuration names no directory.
func (e *Runs) outputDir() string { return e.settings().Evals.Dir }

var runID = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$`)

// runDir returns the directory with the journal of a run; "" if the run has no journal yet.
func (e *Runs) runDir(id string) (string, error) {
	dir := filepath.Join(e.outputDir(), id)
	missing := fmt.Errorf("evaluation %.100q: %w: no run has this id", id, fault.NotFound)
	if !runID.MatchString(id) || e.outputDir() == "" {
		return "", missing
	}
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
		return "", missing
	}
	if hasRun(dir) {
		return dir, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", fmt.Errorf("evaluation %s: %w", id, fault.Of(err))
	}
	for _, d := range entries {
		if below := filepath.Join(dir, d.Name()); d.IsDir() && hasRun(below) {
			return below, nil
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, outputFile)); err != nil {
		return "", missing
	}
	return "", nil
}

// journal is the file that makes a directory that of a run.
const journal = "journal.jsonl"

// hasRun reports whether a directory has a journal with a plan, which is written first.
func hasRun(dir string) bool {
	info, err := os.Lstat(filepath.Join(dir, journal))
	return err == nil && info.Mode().IsRegular() && info.Size() > 0
}

// List lists the runs, newest first. Ids begin with the time.
func (e *Runs) List(ctx context.Context) (client.EvalRuns, error) {
	out := client.EvalRuns{Runs: []client.EvalRun{}, Suites: []client.EvalSuite{}, Dir: e.outputDir()}
	for _, path := range e.settings().Evals.Suites {
		out.Suites = append(out.Suites, client.EvalSuite{Path: path})
	}
	if e.outputDir() == "" {
		return out, nil
	}
	entries, err := os.ReadDir(e.outputDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return out, fmt.Errorf("evaluations: %w: %w", fault.Of(err), err)
	}
	for _, d := range slices.Backward(entries) {
		run, _, err := e.view(d.Name())
		if fault.Of(err) == fault.NotFound {
			continue
		}
		if err != nil {
			run = client.EvalRun{ID: d.Name(), State: client.EvalFailed, Runners: []string{}, Error: err.Error()}
		}
		out.Runs = append(out.Runs, run)
		if ctx.Err() != nil {
			return out, ctx.Err()
		}
	}
	return out, nil
}

// view returns a run; the view is nil if it has no journal yet, or never had.
func (e *Runs) view(id string) (client.EvalRun, *runView, error) {
	dir, err := e.runDir(id)
	if err != nil {
		return client.EvalRun{}, nil, err
	}
	out := client.EvalRun{ID: id, State: client.EvalStopped, Runners: []string{}}
	process := e.process(id)
	if process != nil {
		out.Suite = process.suite
		if process.isRunning() {
			out.State = client.EvalRunning
		}
	}
	if dir == "" {
		if out.State != client.EvalRunning && (process == nil || !process.stopped.Load()) {
			out.State, out.Error = client.EvalFailed, e.outputTail(id)
		}
		return out, nil, nil
	}
	v, err := e.readRun(dir)
	if err != nil {
		return out, nil, err
	}
	out.Suite, out.Cases, out.Runners, out.Executions = v.Suite, len(v.Cases), append(out.Runners, v.Runners...), len(v.Cases)*len(v.Runners)
	started, _ := time.Parse(time.RFC3339Nano, v.StartedAt) // zero if it is not known
	out.StartedAt = started.UTC()
	var cost, tokens []float64
	for _, row := range v.cells {
		for _, r := range row {
			out.Done++
			if r.Passed {
				out.Passed++
			}
			c, t := cellCost(r)
			cost, tokens = appendKnown(cost, c), appendKnown(tokens, t)
		}
	}
	out.CostUSD, out.Tokens = sumKnown(cost), sumKnown(tokens)
	info, err := os.Stat(filepath.Join(dir, eval.ResultsName))
	switch {
	case v.Running:
		out.State = client.EvalRunning
	case err == nil:
		out.EndedAt = info.ModTime().UTC()
		if out.Done == out.Executions {
			out.State = client.EvalEnded
		}
	}
	return out, v, nil
}

func appendKnown(list []float64, x *float64) []float64 {
	if x != nil {
		list = append(list, *x)
	}
	return list
}

func sumKnown(list []float64) *float64 {
	if len(list) == 0 {
		return nil
	}
	sum := 0.0
	for _, x := range list {
		sum += x
	}
	return &sum
}

// readRun reads the journal of a run, unless it has not changed since.
func (e *Runs) readRun(dir string) (*runView, error) {
	info, err := os.Stat(filepath.Join(dir, journal))
	if err != nil {
		return nil, fmt.Errorf("evaluation: %w: %w", fault.Of(err), err)
	}
	e.mu.Lock()
	found, ok := e.cache[dir]
	e.mu.Unlock()
	if ok && found.size == info.Size() && found.at.Equal(info.ModTime()) && !found.view.Running {
		return found.view, nil
	}
	v := &runView{cells: map[string]map[string]*eval.ExecutionResult{}}
	v.RunView, err = eval.ViewRun(dir, func(caseID, runner string, r *eval.ExecutionResult) {
		if v.cells[caseID] == nil {
			v.cells[caseID] = map[string]*eval.ExecutionResult{}
		}
		v.cells[caseID][runner] = eval.Summary(r)
	})
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	const most = 1000
	if len(e.cache) >= most {
		clear(e.cache)
	}
	e.cache[dir] = cachedRun{info.ModTime(), info.Size(), v}
	return v, nil
}

// cellCost returns the cost and the tokens of all sessions of an execution, where they are known.
func cellCost(r *eval.ExecutionResult) (cost, tokens *float64) {
	var costs, counts []float64
	for _, one := range sessionsOf(r) {
		if one.Report == nil {
			continue
		}
		if one.Report.Cost != nil {
			costs = append(costs, one.Report.Cost.USD)
		}
		counts = appendKnown(counts, one.Report.Usage.TotalTokens)
	}
	return sumKnown(costs), sumKnown(counts)
}

// sessionsOf returns the sessions of an execution: its repetitions and retries.
func sessionsOf(r *eval.ExecutionResult) []*eval.ExecutionResult {
	var all []*eval.ExecutionResult
	for _, rep := range r.Repetitions {
		all = append(all, rep.Sessions...)
	}
	if len(all) == 0 {
		all = append(all, r)
	}
	return all
}

// Show returns a run as a matrix.
func (e *Runs) Show(_ context.Context, id string) (client.EvalDetails, error) {
	run, v, err := e.view(id)
	if err != nil {
		return client.EvalDetails{}, err
	}
	out := client.EvalDetails{EvalRun: run, Matrix: client.EvalMatrix{Runners: []client.EvalRunner{}, Cases: []client.EvalCase{}}, Log: e.outputTail(id)}
	if v == nil {
		return out, nil
	}
	for _, c := range v.Cases {
		row := client.EvalCase{ID: c, Tags: v.Tags[c], Executions: []client.EvalCell{}}
		for _, runner := range v.Runners {
			if r := v.cells[c][runner]; r != nil {
				row.Executions = append(row.Executions, cellView(runner, r))
			}
		}
		out.Matrix.Cases = append(out.Matrix.Cases, row)
	}
	for _, runner := range v.Runners {
		out.Matrix.Runners = append(out.Matrix.Runners, v.runnerView(runner))
	}
	return out, nil
}

func cellView(runner string, r *eval.ExecutionResult) client.EvalCell {
	out := client.EvalCell{Runner: runner, Status: string(r.Status), Passed: r.Passed, DurationMs: r.DurationMs, Repetitions: max(1, r.CompletedRepetitions)}
	out.CostUSD, out.Tokens = cellCost(r)
	switch {
	case r.SuccessfulRepetitions != nil:
		out.PassedRepetitions = *r.SuccessfulRepetitions
	case r.Passed:
		out.PassedRepetitions = out.Repetitions
	}
	if r.Error != nil {
		out.Error = eval.PlainText(r.Error.Message)
	}
	return out
}

func (v *runView) runnerView(id string) client.EvalRunner {
	out := client.EvalRunner{ID: id}
	var cost, tokens []float64
	total := 0.0
	for _, row := range v.cells {
		r := row[id]
		if r == nil {
			continue
		}
		out.Agent, out.Model = r.Runner.Agent.Type, r.Runner.Agent.Model
		out.Done++
		if r.Passed {
			out.Passed++
		}
		total += r.DurationMs
		c, t := cellCost(r)
		cost, tokens = appendKnown(cost, c), appendKnown(tokens, t)
	}
	if out.Done > 0 {
		out.PassRate, out.DurationMs = float64(out.Passed)/float64(out.Done), total/float64(out.Done)
	}
	out.CostUSD = sumKnown(cost)
	if sum := sumKnown(tokens); sum != nil {
		out.Tokens = new(*sum / float64(len(tokens)))
	}
	return out
}

// Execution returns a session of an execution, with its whole report.
func (e *Runs) Execution(_ context.Context, id, caseID, runner string, repetition, number int) (client.EvalExecution, error) {
	missing := fmt.Errorf("evaluation %s: case %.100q on runner %.100q: %w: it has not ended, or is not of this run", id, caseID, runner, fault.NotFound)
	dir, err := e.runDir(id)
	if err != nil {
		return client.EvalExecution{}, err
	}
	if dir == "" {
		return client.EvalExecution{}, missing
	}
	var found *eval.ExecutionResult
	if _, err := eval.ViewRun(dir, func(c, r string, result *eval.ExecutionResult) {
		if c == caseID && r == runner {
			found = result
		}
	}); err != nil {
		return client.EvalExecution{}, err
	}
	if found == nil {
		return client.EvalExecution{}, missing
	}
	out := client.EvalExecution{Case: caseID, Runner: runner, Sessions: []client.EvalSession{}}
	var shown *eval.ExecutionResult
	for _, one := range sessionsOf(found) {
		rep, at := max(1, one.Repetition), max(1, one.Session)
		out.Sessions = append(out.Sessions, client.EvalSession{Repetition: rep, Session: at, Status: string(one.Status), Passed: one.Passed})
		if (repetition == 0 || rep == repetition) && (number == 0 || at == number) {
			shown, out.Repetition, out.Session = one, rep, at
		}
	}
	if shown == nil {
		return client.EvalExecution{}, missing
	}
	return out, fillExecution(&out, shown)
}

// fillExecution adds what a session did, and why it failed.
func fillExecution(out *client.EvalExecution, r *eval.ExecutionResult) error {
	out.Status, out.Passed, out.DurationMs, out.FailureOrigin = string(r.Status), r.Passed, r.DurationMs, string(r.FailureOrigin)
	if r.Error != nil {
		out.Error = &client.EvalError{Name: r.Error.Name, Message: eval.PlainText(r.Error.Message), Stack: eval.PlainText(r.Error.Stack)}
	}
	if r.FailureClass != nil {
		out.FailureClass = cmp.Or(r.FailureClass.Label, r.FailureClass.ID)
	}
	if r.Report != nil {
		data, err := json.Marshal(r.Report)
		if err != nil {
			return fmt.Errorf("evaluation: report: %w: %w", fault.Internal, err)
		}
		out.Report = data
	}
	var err error
	out.Diff, err = eval.SessionDiff(r)
	return err
}

// Compare compares two runs that have results.
func (e *Runs) Compare(_ context.Context, a, b string) (out client.EvalComparison, err error) {
	var results [2]*eval.Result
	for i, id := range []string{a, b} {
		dir, err := e.runDir(id)
		if err == nil && dir == "" {
			err = fmt.Errorf("evaluation %s: %w: it has no results", id, fault.WrongState)
		}
		if err != nil {
			return out, err
		}
		if results[i], err = eval.ReadResult(dir); err != nil {
			return out, fmt.Errorf("evaluation %s: %w: it has no results yet: %w", id, fault.WrongState, err)
		}
	}
	return eval.Compare(results[0], results[1]).EvalComparison, nil
}

// Start starts croft eval run.
func (e *Runs) Start(ctx context.Context, r client.EvalRequest) (client.EvalRun, error) {
	if e.self == nil {
		return client.EvalRun{}, fmt.Errorf("start an evaluation: %w: this program can't start croft", fault.Unsupported)
	}
	if !slices.Contains(e.settings().Evals.Suites, r.Suite) {
		return client.EvalRun{}, fmt.Errorf("suite %.200q: %w: croft.yaml does not list the suite under evals.suites, which are: %s", r.Suite, fault.PermissionDenied, strings.Join(e.settings().Evals.Suites, ", "))
	}
	if e.outputDir() == "" {
		return client.EvalRun{}, fmt.Errorf("start an evaluation: %w: name the directory of the runs as evals.dir in croft.yaml", fault.InvalidArgument)
	}
	if rel, err := filepath.Rel(e.data, e.outputDir()); err == nil && filepath.IsLocal(rel) {
		return client.EvalRun{}, fmt.Errorf("start an evaluation: %w: evals.dir (%s) is in the data directory, from which no agent gets files; name another one", fault.InvalidArgument, e.outputDir())
	}
	if r.Repeat < 0 || r.MaxParallel < 0 {
		return client.EvalRun{}, fmt.Errorf("repeat %d, maxParallel %d: %w: give positive numbers", r.Repeat, r.MaxParallel, fault.InvalidArgument)
	}
	id := strings.NewReplacer(":", "-", ".", "-").Replace(time.Now().UTC().Format("2006-01-02T15:04:05.000Z")) + "-run"
	dir := filepath.Join(e.outputDir(), id)
	if err := os.MkdirAll(e.outputDir(), 0o700); err != nil {
		return client.EvalRun{}, fmt.Errorf("evaluation: %w: %w", fault.Of(err), err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return client.EvalRun{}, fmt.Errorf("evaluation: %w: %w", fault.Of(err), err)
	}
	if err := e.startProcess(ctx, id, dir, r); err != nil {
		return client.EvalRun{}, errors.Join(err, os.RemoveAll(dir))
	}
	run, _, err := e.view(id)
	return run, err
}

// arguments returns the arguments of croft. Values that begin with a dash can't be flags.
func arguments(r client.EvalRequest, dir string) []string {
	args := []string{"eval", "run", "--output-dir=" + dir, "--reporter=standard"}
	for flag, values := range map[string][]string{"case": r.Cases, "runner": r.Runners, "tag": r.Tags} {
		for _, v := range values {
			args = append(args, "--"+flag+"="+v)
		}
	}
	if r.Repeat > 0 {
		args = append(args, "--repeat="+strconv.Itoa(r.Repeat))
	}
	if r.MaxParallel > 0 {
		args = append(args, "--max-parallel="+strconv.Itoa(r.MaxParallel))
	}
	return append(args, "--", r.Suite)
}

func (e *Runs) startProcess(ctx context.Context, id, dir string, r client.EvalRequest) error {
	output, err := os.OpenFile(filepath.Join(dir, outputFile), os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("evaluation: %w: %w", fault.Of(err), err)
	}
	defer output.Close() // the process has its own descriptor
	cmd, err := e.self(context.WithoutCancel(ctx), arguments(r, dir)...)
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C at the server's terminal is not for it
	p := &process{cmd: cmd, suite: r.Suite, done: make(chan struct{})}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return fmt.Errorf("start an evaluation: %w: the server shuts down", fault.Unavailable)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start an evaluation: %w: %w", fault.Failed, err)
	}
	e.running[id] = p
	go func() {
		defer close(p.done)
		p.err = cmd.Wait()
	}()
	return nil
}

func (e *Runs) process(id string) *process {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.running[id]
}

func (p *process) isRunning() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// stopGrace is how long a run may take to end after SIGINT: its agents and sandboxes end first.
const stopGrace = 30 * time.Second

// stop interrupts a run, and kills it if it does not end.
func (p *process) stop(ctx context.Context) error {
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop the evaluation: %w: %w", fault.Failed, err)
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(stopGrace):
	case <-ctx.Done():
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop the evaluation: %w: %w", fault.Failed, err)
	}
	<-p.done
	return nil
}

// Stop stops a run that this process started.
func (e *Runs) Stop(ctx context.Context, id string) (client.EvalRun, error) {
	run, _, err := e.view(id)
	if err != nil {
		return run, err
	}
	p := e.process(id)
	if p == nil || !p.isRunning() {
		return run, fmt.Errorf("evaluation %s: %w: this server does not run it (state %s)", id, fault.WrongState, run.State)
	}
	p.stopped.Store(true)
	if err := p.stop(context.WithoutCancel(ctx)); err != nil {
		return run, err
	}
	run, _, err = e.view(id)
	return run, err
}

// Close stops all runs.
func (e *Runs) Close(ctx context.Context) error {
	e.mu.Lock()
	e.closed = true
	var list []*process
	for _, p := range e.running {
		list = append(list, p)
	}
	e.mu.Unlock()
	var errs []error
	for _, p := range list {
		if p.isRunning() {
			errs = append(errs, p.stop(ctx))
		}
	}
	return errors.Join(errs...)
}

// shownOutput is how much of the output of a run is shown, from its end.
const shownOutput = 16 << 10

// outputTail returns the end of the output of a run that a server started.
func (e *Runs) outputTail(id string) string {
	f, err := os.Open(filepath.Join(e.outputDir(), id, outputFile))
	if err != nil {
		return ""
	}
	defer f.Close() // only read
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	data := make([]byte, min(info.Size(), shownOutput))
	n, err := f.ReadAt(data, max(0, info.Size()-shownOutput))
	if err != nil && n == 0 {
		return ""
	}
	return eval.PlainText(string(bytes.ToValidUTF8(data[:n], []byte("?"))))
}
