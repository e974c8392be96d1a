package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/croft-run/croft/eval/session"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/secret"
	"github.com/croft-run/croft/workspace/driver"
)

// An Outcome is how a session ended.
type Outcome struct {
	// Report is never nil. With a Failure it has what could be read of the session, at
	// least the prompt.
	Report  *session.Report
	Failure *Failure // nil where the session ended well
	Exit    Exit
	Steps   int

	// Scrubber removes the credentials that the agent had, and tokens of known shapes, from
	// texts of the session. The logs have none of the former.
	Scrubber *secret.Scrubber
}

// An Origin says which part of an execution failed.
type Origin string

// Origins of failures of a session.
const (
	OriginRunner        Origin = "runner"
	OriginMaxSteps      Origin = "max-steps"
	OriginModelRejected Origin = "model-rejected"
	OriginCollection    Origin = "collection"
	OriginNormalization Origin = "normalization"
)

// A Failure is why a session gave no complete report. Its code, for fault.Of, is that of
// its cause.
type Failure struct {
	Origin  Origin
	Class   string // "timeout" or "out-of-memory"; "" is the origin's class
	Label   string // of Class, for people
	Name    string // of the error, as skillgym writes it: "Error", "CommandTimeoutError", ...
	Message string
	Log     string // path of a log with details, of standard error if it is the agent's; "" for none
	Stdout  string // path of the log of standard output beside it, where some agents write why they failed
	Err     error
}

func (f *Failure) Error() string { return f.Message }

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

// Run runs one session: it prepares the agent's home, runs the program with r and counts
// rounds with the model, writes stdout.log and stderr.log to in.Artifacts, collects the
// session and makes the report.
//
// A failure of the agent is a Failure in the Outcome. The error is Canceled after the end
// of ctx, or says why the artifacts could not be written.
func Run(ctx context.Context, r Runner, a Agent, in Input) (out Outcome, err error) {
	out = Outcome{Report: session.Empty(in.Runner, in.Prompt)}
	d, err := openDir(in.Artifacts)
	if err != nil {
		return out, err
	}
	defer d.Close() //nolint:errcheck // only read from
	inv, err := a.Prepare(ctx, in)
	if err != nil {
		out.Failure = newFailure(OriginRunner, err)
		return out, nil
	}
	defer func() { err = errors.Join(err, in.removeUserFiles(inv.user)) }()
	out.Scrubber = secret.NewScrubber(inv.secrets(), &secret.ScrubOptions{Finders: []secret.Finder{secret.Known()}})
	inv.Timeout = in.Timeout
	o, steps, err := runLogged(ctx, r, d, inv, in, a.Steps())
	out.Exit, out.Steps = o.Exit, steps
	if ctx.Err() != nil {
		return out, fmt.Errorf("agent: run %s: %w: %w", in.Runner.ID, fault.Canceled, context.Cause(ctx))
	}
	switch {
	case in.MaxSteps > 0 && steps > in.MaxSteps:
		out.Failure = tooManySteps(in, steps)
	case (err == nil || len(o.Stdout) > 0) && a.Rejected(ctx, r, in, o):
		out.Failure = modelRejected(in)
	case err != nil:
		out.Failure = startFailure(inv, err)
	case !o.Exit.OK():
		out.Failure = exitFailure(inv, in, o)
	}
	makeReport(ctx, r, a, in, o, &out)
	if f := out.Failure; f != nil && f.Log != "" {
		f.Stdout = o.StdoutPath
	}
	return out, ctx.Err()
}

// secrets returns the credentials that a program has: those in files of the user, and those
// in its environment.
func (inv Invocation) secrets() []secret.Value {
	values := slices.Clone(inv.user.secrets)
	env := slices.Clone(os.Environ())
	for name, text := range inv.Env {
		env = append(env, name+"="+text)
	}
	for _, pair := range env {
		if name, text, _ := strings.Cut(pair, "="); secret.IsSecretName(name) && len(text) >= minCredential {
			values = append(values, secret.NewValue("credential", text))
		}
	}
	return values
}

// minCredential is the length of the shortest value of a variable that is removed from logs:
// a shorter one may be a common word.
const minCredential = 12

// makeReport collects the session and makes the report. A session that has failed keeps
// its first failure.
func makeReport(ctx context.Context, r Runner, a Agent, in Input, o Output, out *Outcome) {
	first := out.Failure != nil
	if first && len(o.Stdout) == 0 {
		return
	}
	raw, err := a.Collect(ctx, r, in, o)
	if told := new(reportedError); errors.As(err, &told) { // the session until then is reported as well
		if err = nil; !first {
			out.Failure, first = newFailure(OriginRunner, told), true
			out.Failure.Log = o.StderrPath
		}
	}
	if err != nil && !first {
		out.Failure = newFailure(OriginCollection, err)
	}
	if err == nil {
		report, nerr := a.Normalize(in, raw)
		if nerr != nil && !first {
			out.Failure = newFailure(OriginNormalization, nerr)
		}
		if nerr == nil {
			out.Report = report
			out.Report.SessionID = raw.SessionID
		}
	}
	rep := out.Report
	rep.RawArtifacts = session.RawArtifacts{StdoutPath: o.StdoutPath, StderrPath: o.StderrPath,
		SessionPath: raw.SessionPath, ExportPath: raw.ExportPath, TelemetryPath: raw.TelemetryPath,
		StdoutDropped: o.StdoutDropped, StderrDropped: o.StderrDropped}
	rep.StartedAt, rep.EndedAt = session.Time(o.Started), session.Time(o.Ended)
	rep.DurationMs = session.Millis(o.Ended.Sub(o.Started))
	rep.Steps, rep.PeakMemoryBytes = out.Steps, o.Exit.PeakMemory
}

// runLogged runs an invocation and writes its logs. It stops the program after more steps
// than in allows.
func runLogged(ctx context.Context, r Runner, d *agentDir, inv Invocation, in Input, count func([]byte) int) (Output, int, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	limit := in.MaxOutput
	if limit <= 0 {
		limit = DefaultMaxOutput
	}
	o := Output{StdoutPath: d.path(stdoutName), StderrPath: d.path("stderr.log"), Started: time.Now()}
	outLog, err := d.createLog(stdoutName, limit)
	if err != nil {
		return o, 0, err
	}
	defer outLog.Close()
	errLog, err := d.createLog("stderr.log", limit)
	if err != nil {
		return o, 0, err
	}
	defer errLog.Close()
	scrub := secret.NewScrubber(inv.secrets(), nil)
	cleanOut, cleanErr := scrub.Writer(outLog), scrub.Writer(errLog)
	w := &stepCounter{count: count, limit: in.MaxSteps, stop: cancel}
	inv.Stdout, inv.Stderr = io.MultiWriter(cleanOut, w), cleanErr
	if inv.Converse != nil {
		o.Exit, err = converse(ctx, r, inv)
	} else {
		o.Exit, err = r.Run(ctx, inv)
	}
	w.endLine()
	err = errors.Join(err, cleanOut.Close(), cleanErr.Close())
	o.Ended = time.Now()
	o.Stdout, o.Stderr = outLog.text(), errLog.text()
	o.StdoutDropped, o.StderrDropped = outLog.dropped, errLog.dropped
	if info, serr := outLog.Stat(); serr == nil {
		o.log = info
	}
	return o, w.steps, err
}

// exitGrace is how long a program may run after its conversation has ended.
const exitGrace = 5 * time.Second

// converse runs a program and its conversation. Each is ended when the other ends; a
// successful conversation counts as a successful exit.
func converse(ctx context.Context, r Runner, inv Invocation) (Exit, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	inv.Stdin, inv.Stdout = inR, &teeWriter{first: inv.Stdout, pipe: outW}
	var talk error
	var parted bool // the program did not end by itself
	var wg sync.WaitGroup
	ended := make(chan struct{})
	wg.Go(func() {
		talk = inv.Converse(ctx, inW, outR)
		inW.Close()  //nolint:errcheck // never fails
		outR.Close() //nolint:errcheck // never fails
		select {
		case <-ended:
		case <-time.After(exitGrace):
			parted = true
			cancel()
		}
	})
	exit, err := r.Run(ctx, inv)
	close(ended)
	outW.Close() //nolint:errcheck // never fails
	inR.Close()  //nolint:errcheck // never fails
	wg.Wait()
	switch {
	case err == nil && talk == nil:
		exit.Code, exit.Signal, exit.Cause = 0, "", ""
	case err == nil && (exit.OK() || parted):
		err = talk
	}
	return exit, err
}

// A teeWriter writes to the log, and to the pipe while it is open.
type teeWriter struct {
	first io.Writer
	pipe  *io.PipeWriter
}

func (s *teeWriter) Write(p []byte) (int, error) {
	if n, err := s.first.Write(p); err != nil {
		return n, err
	}
	if _, err := s.pipe.Write(p); err != nil && !errors.Is(err, io.ErrClosedPipe) {
		return 0, err
	}
	return len(p), nil
}

// maxLine bounds the length of a line that is counted.
const maxLine = 16 << 20

// A stepCounter counts steps line by line, and stops the program when there are too many.
type stepCounter struct {
	count func([]byte) int
	limit int
	stop  func()
	steps int
	line  []byte
	skip  bool // the present line is too long
}

func (w *stepCounter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		part, rest, ended := bytes.Cut(p, []byte("\n"))
		p = rest
		if len(w.line)+len(part) > maxLine {
			w.line, w.skip = nil, true
		}
		if !w.skip {
			w.line = append(w.line, part...)
		}
		if ended {
			w.endLine()
		}
	}
	return n, nil
}

// endLine counts the current line.
func (w *stepCounter) endLine() {
	if len(w.line) > 0 && !w.skip {
		w.steps = w.count(w.line)
	}
	w.line, w.skip = w.line[:0], false
	if w.limit > 0 && w.steps > w.limit {
		w.stop()
	}
}

// A skillgymError has the wording of skillgym, which programs may search for.
type skillgymError string

func (t skillgymError) Error() string { return string(t) }

// Unwrap returns the code: an error that an agent reports is a failure.
func (skillgymError) Unwrap() error { return fault.Failed }

func newFailure(origin Origin, err error) *Failure {
	return &Failure{Origin: origin, Name: "Error", Message: err.Error(), Err: err}
}

func tooManySteps(in Input, steps int) *Failure {
	return &Failure{Origin: OriginMaxSteps, Name: "MaxStepsExceededError", Err: fault.ResourceExhausted, Log: in.Artifacts + "/stderr.log",
		Message: fmt.Sprintf("Exceeded maxSteps: observed %d steps with limit %d for runner %q (%s). Agent terminated by skillgym. Raw output preserved.",
			steps, in.MaxSteps, in.Runner.ID, in.Runner.Agent.Type)}
}

func modelRejected(in Input) *Failure {
	return &Failure{Origin: OriginModelRejected, Name: "Error", Err: fault.Unsupported, Log: in.Artifacts + "/stderr.log",
		Message: fmt.Sprintf("Runner rejected configured model %q during initial execution.", in.Runner.Agent.Model)}
}

func startFailure(inv Invocation, err error) *Failure {
	return &Failure{Origin: OriginRunner, Name: "Error", Message: fmt.Sprintf("Command failed: %s: %v", inv, err), Err: err}
}

func exitFailure(inv Invocation, in Input, o Output) *Failure {
	f := &Failure{Origin: OriginRunner, Name: "Error", Log: o.StderrPath, Err: fault.Failed,
		Message: fmt.Sprintf("Command failed: %s (exit %d)", inv, o.Exit.Code)}
	switch o.Exit.Cause {
	case driver.CauseTimeout:
		f.Class, f.Label, f.Name, f.Err = "timeout", "Timeout", "CommandTimeoutError", fault.DeadlineExceeded
		f.Message = fmt.Sprintf("Command timed out after %dms: %s", in.Timeout.Milliseconds(), inv)
	case driver.CauseOOM:
		f.Class, f.Label, f.Err = "out-of-memory", "Out of memory", fault.ResourceExhausted
		f.Message += ": out of memory"
	case "":
	default:
		f.Message += ": " + string(o.Exit.Cause)
	}
	return f
}
