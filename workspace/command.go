package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// A Cmd is a command to run in a workspace. It mirrors exec.Cmd: fill it, then call
// Run, Output or CombinedOutput, or Start and Wait. A Cmd is used once.
//
// Unlike exec.Cmd, Env is added to the environment of the workspace instead of
// replacing it, and a pipe may be read while Wait waits: Wait returns after all
// output of the command was read or the pipe was closed.
type Cmd struct {
	Args   []string  // the program and its arguments; empty for a script
	Dir    string    // "" is the workspace
	Env    []string  // "KEY=value", added to the environment of the workspace; the last of equal keys wins
	Clean  bool      // only Env
	Stdin  io.Reader // nil is empty
	Stdout io.Writer // nil discards
	Stderr io.Writer // nil discards; may be the same as Stdout

	TTY     *Size         // run on a terminal, which has only Stdout
	Timeout time.Duration // ends the whole process tree; 0 is the limit of the workspace, if any
	Grace   time.Duration // time between SIGTERM and SIGKILL at the time-out; 0 is none
	Limits  Limits        // within the limits of the workspace

	// Session is the started command, once Start returned.
	Session *Session

	// Result says how the command ended, once Wait returned.
	Result *Result

	w      *Workspace
	ctx    context.Context // as in exec.Cmd
	script string
	pipes  []*io.PipeWriter // closed when the command has ended
	inPipe bool

	started  atomic.Pointer[Session]
	writeErr firstError
	ended    chan commandEnd // buffered: capacity 1
	waited   bool
}

// Command returns a Cmd that runs a program with arguments, never through a shell.
// The command is killed when ctx ends.
func (w *Workspace) Command(ctx context.Context, name string, args ...string) *Cmd {
	return &Cmd{w: w, ctx: ctx, Args: append([]string{name}, args...)}
}

// Script returns a Cmd that runs a script with bash -c. The command is killed when
// ctx ends.
func (w *Workspace) Script(ctx context.Context, script string) *Cmd {
	return &Cmd{w: w, ctx: ctx, script: script}
}

// String returns the command for messages.
func (c *Cmd) String() string {
	if c.script != "" {
		return c.script
	}
	return strings.Join(c.Args, " ")
}

// An ExitError is a command that did not end with status 0. Its fault code (see
// fault.Of) is the exit cause, if the command did not end by itself.
type ExitError struct {
	Result
	Stderr []byte // with Output: head and tail of standard error, unless Stderr is set
}

// Error says how the command ended.
func (e *ExitError) Error() string {
	switch {
	case e.Cause != "":
		return fmt.Sprintf("command ended: %s (exit status %d)", e.Cause, e.ExitCode)
	case e.Signal != "":
		return "signal: " + e.Signal
	default:
		return fmt.Sprintf("exit status %d", e.ExitCode)
	}
}

// Unwrap returns the fault code of the exit cause, nil if the command ended by
// itself.
func (e *ExitError) Unwrap() error {
	switch e.Cause {
	case driver.CauseTimeout:
		return fault.DeadlineExceeded
	case driver.CauseCanceled, driver.CauseKilled:
		return fault.Canceled
	case driver.CauseOOM, driver.CausePIDs, driver.CauseDisk:
		return fault.ResourceExhausted
	case driver.CauseLost, driver.CauseDestroyed:
		return fault.Unavailable
	default:
		return nil
	}
}

// Run starts the command and waits for it. A command that does not end with status 0
// is an *ExitError.
func (c *Cmd) Run() error {
	if c.started.Load() == nil && !c.waited && !c.inPipe && len(c.pipes) == 0 && c.Stdin == nil && c.TTY == nil {
		return c.runThrough()
	}
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}

// runThrough runs a command in one call of the driver, without a session. It requires
// that Stdin is nil: a reader could block, and must not delay the start.
func (c *Cmd) runThrough() error {
	cmd, err := c.driverCommand()
	if err != nil {
		return err
	}
	c.waited = true
	res, err := c.w.Run(c.ctx, cmd)
	if err != nil {
		return err
	}
	if res.Session != "" { // the output exceeded the result
		if s, err := c.w.Attach(context.WithoutCancel(c.ctx), res.Session); err == nil {
			s.Close(context.WithoutCancel(c.ctx)) //nolint:errcheck // sessions also expire
		}
		res.Session = ""
	}
	return c.resultError(res)
}

// resultError converts a result to the error of Run and Wait.
func (c *Cmd) resultError(res Result) error {
	c.Result = &res
	if res.ExitCode != 0 || res.Cause != "" {
		return &ExitError{Result: res}
	}
	return c.writeErr.get()
}

// Output runs the command and returns its standard output. Unless Stderr is set, an
// *ExitError holds the standard error.
func (c *Cmd) Output() ([]byte, error) {
	if c.Stdout != nil {
		return nil, c.wrongState("Stdout is set already")
	}
	var out bytes.Buffer
	c.Stdout = &out
	capture := c.Stderr == nil
	err := c.Run()
	var exit *ExitError
	if errors.As(err, &exit) && capture {
		exit.Stderr = exit.Result.Stderr
	}
	return out.Bytes(), err
}

// CombinedOutput runs the command and returns its standard output and standard error.
func (c *Cmd) CombinedOutput() ([]byte, error) {
	if c.Stdout != nil || c.Stderr != nil {
		return nil, c.wrongState("Stdout or Stderr is set already")
	}
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	return out.Bytes(), err
}

// StdinPipe returns a pipe to the command's standard input. Write to the pipe after
// Start, and close it at the end.
func (c *Cmd) StdinPipe() (io.WriteCloser, error) {
	if c.Stdin != nil || c.inPipe || c.started.Load() != nil {
		return nil, c.wrongState("Stdin is set already, or the command was started")
	}
	c.inPipe = true
	return stdin{c.ctx, &c.started}, nil
}

// StdoutPipe returns a pipe from the command's standard output. The command blocks
// while the pipe is not read.
func (c *Cmd) StdoutPipe() (io.ReadCloser, error) { return c.openPipe(&c.Stdout) }

// StderrPipe returns a pipe from the command's standard error.
func (c *Cmd) StderrPipe() (io.ReadCloser, error) { return c.openPipe(&c.Stderr) }

func (c *Cmd) openPipe(stream *io.Writer) (io.ReadCloser, error) {
	if *stream != nil || c.started.Load() != nil {
		return nil, c.wrongState("the stream is set already, or the command was started")
	}
	r, w := io.Pipe()
	*stream = w
	c.pipes = append(c.pipes, w)
	return r, nil
}

func (c *Cmd) wrongState(why string) error {
	return fmt.Errorf("workspace: command %s: %w: %s", c.Args, fault.WrongState, why)
}

// Start starts the command and does not wait for it. The caller must call Wait.
func (c *Cmd) Start() error {
	if c.started.Load() != nil || c.waited {
		return c.wrongState("it was started already")
	}
	cmd, err := c.driverCommand()
	if err != nil {
		return err
	}
	ctx, release := c.w.inflight.withCloseCancel(c.ctx)
	s, err := c.w.Start(ctx, cmd)
	if err == nil {
		err = c.w.inflight.enter()
	}
	if err != nil {
		release()
		c.closePipes(err)
		return err
	}
	c.Session, c.ended = s, make(chan commandEnd, 1)
	c.started.Store(s)
	go func() { // Wait and closing the handle wait for this goroutine
		defer release()
		// A pipe that is not read must not prevent the kill.
		defer context.AfterFunc(ctx, func() { c.closePipes(context.Cause(ctx)) })()
		c.ended <- c.waitSession(ctx, s)
	}()
	return nil
}

// driverCommand converts c to the command of the driver.
func (c *Cmd) driverCommand() (driver.Command, error) {
	cmd := driver.Command{
		Argv: c.Args, Script: c.script, Dir: c.Dir, Clean: c.Clean, Stdin: c.Stdin, Interactive: c.inPipe,
		TTY: c.TTY, Timeout: c.Timeout, Grace: c.Grace, Limits: c.Limits,
	}
	for _, pair := range c.Env {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return cmd, fmt.Errorf("workspace: command %s: environment %q: %w: an entry has the form KEY=value", c.Args, pair, fault.InvalidArgument)
		}
		if cmd.Env == nil {
			cmd.Env = map[string]string{}
		}
		cmd.Env[key] = value
	}
	var mu *sync.Mutex
	if c.Stdout != nil && sameWriter(c.Stdout, c.Stderr) {
		mu = new(sync.Mutex)
	}
	cmd.OnStdout, cmd.OnStderr = c.w.inflight.abandonableCallback(c.writerCallback(c.Stdout, mu)), c.w.inflight.abandonableCallback(c.writerCallback(c.Stderr, mu))
	return cmd, nil
}

// sameWriter compares writers as exec.Cmd does; writers that can't be compared
// differ.
func sameWriter(a, b io.Writer) (same bool) {
	defer func() { recover() }() //nolint:errcheck // the comparison panics for such types
	return a == b
}

// writerCallback returns a callback that writes to a writer, nil without a writer. mu
// serializes writes if both streams share the writer.
func (c *Cmd) writerCallback(to io.Writer, mu *sync.Mutex) func([]byte) error {
	if to == nil {
		return nil
	}
	return func(data []byte) error {
		if mu != nil {
			mu.Lock()
			defer mu.Unlock()
		}
		_, err := to.Write(data)
		if !errors.Is(err, io.ErrClosedPipe) { // closing a pipe before its end is not an error
			c.writeErr.set(err)
		}
		return err
	}
}

// firstError keeps the first error that a writer returned.
type firstError struct {
	mu  sync.Mutex
	err error
}

func (f *firstError) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
	}
}

func (f *firstError) get() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// Wait waits until the command has ended and its output has been written. If ctx ends
// or the handle is closed, the command is killed.
func (c *Cmd) Wait() error {
	if c.started.Load() == nil || c.waited {
		return c.wrongState("it was not started, or was waited for already")
	}
	c.waited = true
	end := <-c.ended
	if end.err != nil {
		return end.err
	}
	return c.resultError(end.res)
}

// Resize sets the size of the terminal of a started command.
func (c *Cmd) Resize(size Size) error {
	s := c.started.Load()
	if s == nil {
		return c.wrongState("it was not started")
	}
	return s.Resize(c.ctx, size)
}

// commandEnd is how a command ended.
type commandEnd struct {
	res Result
	err error
}

// waitSession waits for the session, and then no process and no reader of a pipe is left.
// It counts as a running call of the handle, which Start has entered.
func (c *Cmd) waitSession(ctx context.Context, s *Session) (end commandEnd) {
	defer c.w.inflight.exit()
	defer func() { c.closePipes(io.EOF) }()
	ctx, op := c.w.beginOperation(ctx, verbWait, subject{})
	defer func() { op.end(ctx, end.err) }()
	end.err = c.w.callRecovering(ctx, c.w.current.Load(), func(ctx context.Context, _ *live) error {
		p := s.currentSession()
		res, err := waitSession(ctx, p, false)
		if fault.Of(err) == fault.Evicted {
			res, err = s.lostResult(ctx), nil
			p = s.currentSession()
		}
		if err != nil {
			return err
		}
		noteResult(ctx, res, err)
		res.Session = "" // it is closed now
		end.res = res
		return closeSession(ctx, p)
	})
	return end
}

func closeSession(ctx context.Context, p *driver.Session) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	err := p.Close(ctx)
	if fault.Of(err) == fault.Evicted {
		return nil // it is closed already
	}
	return err
}

// closePipes ends the pipes that read from the command: with EOF, or with an error.
func (c *Cmd) closePipes(err error) {
	for _, p := range c.pipes {
		p.CloseWithError(err)
	}
}
