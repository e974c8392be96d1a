package workspace

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// callShell runs an operation of the Shell module.
func (w *Workspace) callShell(ctx context.Context, v *verb, about subject, call func(ctx context.Context, d *live) error) error {
	return w.call(ctx, v, about, func(ctx context.Context, d *live) error {
		if d.Shell == nil {
			return w.unsupported("commands", d)
		}
		return call(ctx, d)
	})
}

// Start starts a command as a session. Unless cmd.Detached, it is killed when ctx
// ends or the handle is closed.
func (w *Workspace) Start(ctx context.Context, cmd driver.Command) (s *Session, err error) {
	in := newInput(cmd.Stdin)
	err = w.callShell(ctx, verbStart, aboutCommand(cmd), func(ctx context.Context, d *live) error {
		s, err = w.startOnce(ctx, d, cmd, in)
		return err
	})
	return s, err
}

// startOnce makes one attempt to start a command. Evicted means that nothing ran, so the
// attempt may be repeated.
func (w *Workspace) startOnce(ctx context.Context, d *live, cmd driver.Command, in *callInput) (*Session, error) {
	cmd, err := w.checkCommand(cmd, d)
	if err != nil {
		return nil, err
	}
	if err := in.rewind(); err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	cmd.Stdin = in.reader()
	s, err := d.Shell.Start(ctx, cmd)
	if err != nil {
		return nil, err
	}
	if s == nil || s.Process == nil {
		return nil, fmt.Errorf("workspace %s: provider %s started a command and returned no session: %w", w.id, d.Ref.Provider, fault.Internal)
	}
	return newSession(w, s, d.generation), nil
}

// Run runs a command to its end. A non-zero exit is a result, and so is an end by
// time, a limit or ctx: see Result.Cause. An error means that the command did not
// run, or that the handle was closed meanwhile. A command is never run twice.
func (w *Workspace) Run(ctx context.Context, cmd driver.Command) (res Result, err error) {
	in := newInput(cmd.Stdin)
	var ran atomic.Bool
	cmd.OnStdout, cmd.OnStderr = recordOutput(&ran, cmd.OnStdout), recordOutput(&ran, cmd.OnStderr)
	ctx, release := w.inflight.withCloseCancel(ctx)
	defer release()
	if !cmd.Detached { // a detached one continues
		in.abandonWith(ctx)
		cmd.OnStdout, cmd.OnStderr = w.inflight.abandonableCallback(cmd.OnStdout), w.inflight.abandonableCallback(cmd.OnStderr)
	}
	err = w.callShell(ctx, verbRun, aboutCommand(cmd), func(ctx context.Context, d *live) error {
		if ran.Load() {
			return fmt.Errorf("run: %w: the workspace was evicted after the command had written output; the command is not run again", fault.Unavailable)
		}
		res, err = w.runOnce(ctx, d, cmd, in)
		noteResult(ctx, res, err)
		return err
	})
	if err == nil && res.Cause == driver.CauseCanceled {
		err = w.inflight.closeReason() // nil unless the handle was closed
	}
	return res, err
}

// recordOutput returns a callback that records that there was output.
func recordOutput(ran *atomic.Bool, call func([]byte) error) func([]byte) error {
	if call == nil {
		return nil
	}
	return func(data []byte) error {
		ran.Store(true)
		return call(data)
	}
}

// runOnce makes one attempt to run a command, with the provider's Run or with Start and
// Wait. After the start it never returns Evicted.
func (w *Workspace) runOnce(ctx context.Context, d *live, cmd driver.Command, in *callInput) (Result, error) {
	if d.Shell.Run != nil {
		cmd, err := w.checkCommand(cmd, d)
		if err != nil {
			return Result{}, err
		}
		if err := in.rewind(); err != nil {
			return Result{}, fmt.Errorf("run: %w", err)
		}
		cmd.Stdin = in.reader()
		return d.Shell.Run(ctx, cmd)
	}
	s, err := w.startOnce(ctx, d, cmd, in)
	if err != nil {
		return Result{}, err
	}
	res, err := waitSession(ctx, s.currentSession(), cmd.Detached)
	if fault.Of(err) == fault.Evicted {
		return s.lostResult(ctx), nil
	}
	return res, err
}

// lostResult returns the result of a session that its provider lost: the output that the
// workspace, attached again, still has, or an unknown result.
func (s *Session) lostResult(ctx context.Context) Result {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	if res, err := s.Wait(ctx); err == nil {
		return res
	}
	return Result{ExitCode: -1, Cause: driver.CauseLost, Session: s.ID()}
}

// endTime bounds how long a killed command may take to end.
const endTime = 30 * time.Second

// waitSession waits for a session. A session that is not detached is killed when ctx ends,
// and its partial output is returned with the cause.
func waitSession(ctx context.Context, s *driver.Session, detached bool) (Result, error) {
	res, err := s.Wait(ctx)
	if err == nil || ctx.Err() == nil || detached {
		return res, err
	}
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	if err := s.Kill(after, 0); err != nil {
		return Result{}, err
	}
	if res, err = s.Wait(after); err != nil {
		return Result{}, err
	}
	if res.Cause == "" || res.Cause == driver.CauseKilled {
		res.Cause = driver.CauseCanceled
	}
	return res, nil
}

func noteResult(ctx context.Context, res Result, err error) {
	if span := trace.SpanFromContext(ctx); err == nil && span.IsRecording() {
		span.SetAttributes(attribute.Int("exit_code", res.ExitCode), attribute.Bool("timed_out", res.Cause == driver.CauseTimeout))
	}
}

// Sessions lists the sessions of the workspace, also those that ended and were not
// closed.
func (w *Workspace) Sessions(ctx context.Context) (list []SessionInfo, err error) {
	err = w.callShell(ctx, verbSessions, subject{}, func(ctx context.Context, d *live) error {
		if d.Shell.Sessions == nil {
			return w.unsupported("a list of sessions", d)
		}
		list, err = d.Shell.Sessions(ctx)
		return err
	})
	return list, err
}

// Attach returns a session by its id.
func (w *Workspace) Attach(ctx context.Context, id string) (s *Session, err error) {
	err = w.callShell(ctx, verbAttach, subject{}, func(ctx context.Context, d *live) error {
		inner, err := w.attachSession(ctx, d, id)
		if err == nil {
			s = newSession(w, inner, d.generation)
		}
		return err
	})
	return s, err
}

func (w *Workspace) attachSession(ctx context.Context, d *live, id string) (*driver.Session, error) {
	if d.Shell == nil || d.Shell.Attach == nil {
		return nil, w.unsupported("attaching to sessions", d)
	}
	return d.Shell.Attach(ctx, id)
}

// checkCommand validates a command, for all providers.
func (w *Workspace) checkCommand(cmd driver.Command, d *live) (driver.Command, error) {
	var err error
	if cmd.Dir != "" {
		if cmd.Dir, err = w.cleanPath(cmd.Dir, d); err != nil {
			return cmd, err
		}
	}
	bad := func(format string, args ...any) (driver.Command, error) {
		return cmd, fmt.Errorf("command: %w: %s", fault.InvalidArgument, fmt.Sprintf(format, args...))
	}
	switch {
	case (len(cmd.Argv) == 0) == (cmd.Script == ""):
		return bad("exactly one of argv and script must be given")
	case len(cmd.Argv) > 0 && cmd.Argv[0] == "":
		return bad("the name of the program is empty")
	case strings.IndexByte(cmd.Script, 0) >= 0:
		return bad("the script contains a NUL byte")
	case cmd.Interactive && cmd.Stdin != nil:
		return bad("stdin is either a reader or interactive")
	case cmd.Timeout < 0:
		return bad("timeout %v must not be negative; 0 is none", cmd.Timeout)
	case cmd.Grace < 0:
		return bad("grace %v must not be negative; 0 is none", cmd.Grace)
	case cmd.MaxOutput < 0:
		return bad("maxOutput %d must not be negative; 0 is the default", cmd.MaxOutput)
	case cmd.TTY != nil && !validSize(*cmd.TTY):
		return bad("a terminal has 1 to 65535 rows and columns, not %d and %d", cmd.TTY.Rows, cmd.TTY.Cols)
	}
	for i, arg := range cmd.Argv {
		if strings.IndexByte(arg, 0) >= 0 {
			return bad("argument %d contains a NUL byte", i)
		}
	}
	for key, value := range cmd.Env {
		if key == "" || strings.ContainsAny(key, "=\x00") || strings.IndexByte(value, 0) >= 0 {
			return bad("environment variable %q: a name is not empty and has no = or NUL, and a value has no NUL", key)
		}
	}
	if err := cmd.Limits.Check(); err != nil {
		return cmd, fmt.Errorf("command: %w", err)
	}
	return cmd, nil
}

func validSize(s Size) bool {
	const most = 1<<16 - 1
	return s.Rows > 0 && s.Cols > 0 && s.Rows <= most && s.Cols <= most
}

// aboutCommand returns what spans and events report of a command.
func aboutCommand(cmd driver.Command) subject {
	text := cmd.Script
	if len(cmd.Argv) > 0 {
		text = strings.Join(cmd.Argv, " ")
	}
	return subject{command: text, dir: cmd.Dir}
}

// A Session is a started command. It is safe for concurrent use. If the workspace is
// evicted and attached again, the session is attached again by its id.
type Session struct {
	w       *Workspace
	id      string
	current atomic.Pointer[liveSession]
}

type liveSession struct {
	*driver.Session
	generation int // of the workspace that it came from
}

func newSession(w *Workspace, s *driver.Session, generation int) *Session {
	x := &Session{w: w, id: s.ID()}
	x.current.Store(&liveSession{s, generation})
	return x
}

func (s *Session) currentSession() *driver.Session { return s.current.Load().Session }

// call runs an operation of the session. It first attaches to the session again if the
// workspace was renewed.
func (s *Session) call(ctx context.Context, v *verb, call func(context.Context, *driver.Session) error) error {
	return s.w.call(ctx, v, subject{}, func(ctx context.Context, d *live) error {
		now := s.current.Load()
		if now.generation < d.generation {
			inner, err := s.w.attachSession(ctx, d, s.id)
			if err != nil {
				return err
			}
			now = &liveSession{inner, d.generation}
			s.current.Store(now)
		}
		return call(ctx, now.Session)
	})
}

// ID identifies the session within its workspace.
func (s *Session) ID() string { return s.id }

// Poll returns output that no Poll returned before, at most limit bytes (0 is 64
// KiB), and whether the command still runs. It does not block.
func (s *Session) Poll(ctx context.Context, limit int64) (poll driver.Poll, err error) {
	err = s.call(ctx, verbPoll, func(ctx context.Context, p *driver.Session) error {
		if limit < 0 {
			return fmt.Errorf("poll: limit %d: %w: must not be negative", limit, fault.InvalidArgument)
		}
		poll, err = p.Poll(ctx, limit)
		return err
	})
	return poll, err
}

// Log reads the log of a stream from any offset, without moving the cursor of
// Poll.
func (s *Session) Log(ctx context.Context, stream driver.Stream, offset, limit int64) (chunk driver.LogChunk, err error) {
	err = s.call(ctx, verbLog, func(ctx context.Context, p *driver.Session) error {
		if p.Log == nil {
			return fmt.Errorf("session %s: logs: %w by this provider", s.id, fault.Unsupported)
		}
		if offset < 0 || limit < 0 || stream != driver.Stdout && stream != driver.Stderr {
			return fmt.Errorf("log: %w: the streams are %s and %s, offset and limit must not be negative", fault.InvalidArgument, driver.Stdout, driver.Stderr)
		}
		chunk, err = p.Log(ctx, stream, offset, limit)
		return err
	})
	return chunk, err
}

// Write writes to standard input. It blocks while the pipe is full.
func (s *Session) Write(ctx context.Context, data []byte) error {
	ctx, release := s.w.inflight.withCloseCancel(ctx)
	defer release()
	return s.call(ctx, verbInput, func(ctx context.Context, p *driver.Session) error { return p.Write(ctx, data) })
}

// CloseStdin ends standard input; on a terminal it sends end-of-file.
func (s *Session) CloseStdin(ctx context.Context) error {
	return s.call(ctx, verbInput, func(ctx context.Context, p *driver.Session) error { return p.CloseStdin(ctx) })
}

// Signal sends a signal, by its name such as "SIGINT", to the foreground process
// group.
func (s *Session) Signal(ctx context.Context, signal string) error {
	return s.call(ctx, verbSignal, func(ctx context.Context, p *driver.Session) error {
		if p.Signal == nil {
			return fmt.Errorf("session %s: signals: %w by this provider", s.id, fault.Unsupported)
		}
		return p.Signal(ctx, signal)
	})
}

// Resize sets the size of the terminal.
func (s *Session) Resize(ctx context.Context, size Size) error {
	return s.call(ctx, verbResize, func(ctx context.Context, p *driver.Session) error {
		if p.Resize == nil {
			return fmt.Errorf("session %s: resizing: %w by this provider", s.id, fault.Unsupported)
		}
		if !validSize(size) {
			return fmt.Errorf("resize to %d rows and %d columns: %w: 1 to 65535 are allowed", size.Rows, size.Cols, fault.InvalidArgument)
		}
		return p.Resize(ctx, size)
	})
}

// Kill ends the whole process tree: SIGTERM, then SIGKILL after grace.
func (s *Session) Kill(ctx context.Context, grace time.Duration) error {
	return s.call(ctx, verbKill, func(ctx context.Context, p *driver.Session) error { return p.Kill(ctx, max(grace, 0)) })
}

// Wait waits for the end and returns the result. It can be called repeatedly. If ctx
// ends or the handle is closed first, Wait returns and the command continues.
func (s *Session) Wait(ctx context.Context) (res Result, err error) {
	ctx, release := s.w.inflight.withCloseCancel(ctx)
	defer release()
	err = s.call(ctx, verbWait, func(ctx context.Context, p *driver.Session) error {
		res, err = p.Wait(ctx)
		return err
	})
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("session %s: wait: %w", s.id, context.Cause(ctx))
	}
	return res, err
}

// State returns the state without moving any cursor.
func (s *Session) State(ctx context.Context) (info SessionInfo, err error) {
	err = s.call(ctx, verbState, func(ctx context.Context, p *driver.Session) error {
		info, err = p.State(ctx)
		return err
	})
	return info, err
}

// Close removes the session and kills its processes.
func (s *Session) Close(ctx context.Context) error {
	return s.call(ctx, verbForget, func(ctx context.Context, p *driver.Session) error { return p.Close(ctx) })
}

// stdin is the writing end of a session's standard input.
type stdin struct {
	ctx context.Context
	s   *atomic.Pointer[Session]
}

func (x stdin) session() (*Session, error) {
	if s := x.s.Load(); s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("stdin pipe: the command was not started: %w", fault.WrongState)
}

func (x stdin) Write(p []byte) (int, error) {
	s, err := x.session()
	if err != nil {
		return 0, err
	}
	if err := s.Write(x.ctx, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (x stdin) Close() error {
	s, err := x.session()
	if err != nil {
		return err
	}
	return s.CloseStdin(x.ctx)
}

var _ io.WriteCloser = stdin{}
