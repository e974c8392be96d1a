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

// A Cmd is a command to run in a workspace. It mirrors exec.Cmd: fill it, then
// call Run, Output or CombinedOutput, or Start and Wait. It is used once.
//
// Unlike there, Env is laid over the environment of the workspace instead of
// replacing it, and a pipe may be read while Wait waits: Wait returns after all
// that the command wrote was read, or the pipe was closed.
type Cmd struct {
	Args   []string  // the program and its arguments; empty for a script
	Dir    string    // "" is the workspace
	Env    []string  // "KEY=value", over the environment of the workspace; of two the later wins
	Clean  bool      // Env alone
	Stdin  io.Reader // nil is empty
	Stdout io.Writer // nil is nowhere
	Stderr io.Writer // nil is nowhere; may be the same as Stdout

	TTY     *Size         // run on a terminal, which has only Stdout
	Timeout time.Duration // ends the whole tree; 0 is the workspace's, if any
	Grace   time.Duration // between SIGTERM and SIGKILL at the time-out; 0 is at once
	Limits  Limits        // below the workspace's

	// Session is the started command, once Start returned.
	Session *Session

	// Result says how it ended, once Wait returned.
	Result *Result

	w      *Workspace
	ctx    context.Context // as in exec.Cmd
	script string
	pipes  []*io.PipeWriter // closed when the command has ended
	inPipe bool

	started  atomic.Pointer[Session]
	writeErr firstError
	ended    chan ending // has room for one
	waited   bool
}

// Command returns a Cmd that runs a program with arguments, never through a
// shell. It is killed when ctx ends.
func (w *Workspace) Command(ctx context.Context, name string, args ...string) *Cmd {
	return &Cmd{w: w, ctx: ctx, Args: append([]string{name}, args...)}
}

// Script returns a Cmd that runs a script with bash -c. It is killed when ctx
// ends.
func (w *Workspace) Script(ctx context.Context, script string) *Cmd {
	return &Cmd{w: w, ctx: ctx, script: script}
}

// String returns the command as people write it, for messages.
func (c *Cmd) String() string {
	if c.script != "" {
		return c.script
	}
	return strings.Join(c.Args, " ")
}

// An ExitError is a command that ended otherwise than with status 0. Its code,
// for fault.Of, tells why where it did not end by itself.
type ExitError struct {
	Result
	Stderr []byte // of Output, the head and tail of what was not collected otherwise
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

// Unwrap returns the fault code of the cause, nil where the command ended by
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

// Run starts the command and waits for it. A command that ends otherwise than
// with status 0 is an *ExitError.
func (c *Cmd) Run() error {
	if c.started.Load() == nil && !c.waited && !c.inPipe && len(c.pipes) == 0 && c.Stdin == nil && c.TTY == nil {
		return c.runThrough()
	}
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}

// runThrough runs a command that nobody can reach while it runs: in one call,
// without a session to keep. Input may come late, or never, and is no reason to
// wait with the start; so there is none.
func (c *Cmd) runThrough() error {
	cmd, err := c.command()
	if err != nil {
		return err
	}
	c.waited = true
	res, err := c.w.Run(c.ctx, cmd)
	if err != nil {
		return err
	}
	if res.Session != "" { // it wrote more than a result holds, to nobody
		if s, err := c.w.Attach(context.WithoutCancel(c.ctx), res.Session); err == nil {
			s.Close(context.WithoutCancel(c.ctx)) //nolint:errcheck // it is forgotten in time, too
		}
		res.Session = ""
	}
	return c.judge(res)
}

// judge is what Run and Wait answer for a result.
func (c *Cmd) judge(res Result) error {
	c.Result = &res
	if res.ExitCode != 0 || res.Cause != "" {
		return &ExitError{Result: res}
	}
	return c.writeErr.get()
}

// Output runs the command and returns what it wrote to its standard output. An
// *ExitError holds what it wrote to standard error, unless Stderr is set.
func (c *Cmd) Output() ([]byte, error) {
	if c.Stdout != nil {
		return nil, c.misused("Stdout is set already")
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

// CombinedOutput runs the command and returns what it wrote to standard output
// and standard error.
func (c *Cmd) CombinedOutput() ([]byte, error) {
	if c.Stdout != nil || c.Stderr != nil {
		return nil, c.misused("Stdout or Stderr is set already")
	}
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	return out.Bytes(), err
}

// StdinPipe returns a pipe to the command's standard input, to be written to
// after Start and closed when there is no more.
func (c *Cmd) StdinPipe() (io.WriteCloser, error) {
	if c.Stdin != nil || c.inPipe || c.started.Load() != nil {
		return nil, c.misused("Stdin is set already, or the command was started")
	}
	c.inPipe = true
	return stdin{c.ctx, &c.started}, nil
}

// StdoutPipe returns a pipe from the command's standard output. The command
// waits while nobody reads.
func (c *Cmd) StdoutPipe() (io.ReadCloser, error) { return c.pipe(&c.Stdout) }

// StderrPipe returns a pipe from the command's standard error.
func (c *Cmd) StderrPipe() (io.ReadCloser, error) { return c.pipe(&c.Stderr) }

func (c *Cmd) pipe(stream *io.Writer) (io.ReadCloser, error) {
	if *stream != nil || c.started.Load() != nil {
		return nil, c.misused("the stream is set already, or the command was started")
	}
	r, w := io.Pipe()
	*stream = w
	c.pipes = append(c.pipes, w)
	return r, nil
}

func (c *Cmd) misused(why string) error {
	return fmt.Errorf("workspace: command %s: %w: %s", c.Args, fault.WrongState, why)
}

// Start starts the command and does not wait for it. Wait must follow.
func (c *Cmd) Start() error {
	if c.started.Load() != nil || c.waited {
		return c.misused("it was started already")
	}
	cmd, err := c.command()
	if err != nil {
		return err
	}
	ctx, release := c.w.gate.hold(c.ctx)
	s, err := c.w.Start(ctx, cmd)
	if err == nil {
		err = c.w.gate.enter()
	}
	if err != nil {
		release()
		c.closePipes(err)
		return err
	}
	c.Session, c.ended = s, make(chan ending, 1)
	c.started.Store(s)
	go func() { // Wait waits for it, and so does closing the handle
		defer release()
		// A pipe that nobody reads must not keep the command from being killed.
		defer context.AfterFunc(ctx, func() { c.closePipes(context.Cause(ctx)) })()
		c.ended <- c.finish(ctx, s)
	}()
	return nil
}

// command is the driver's view of c.
func (c *Cmd) command() (driver.Command, error) {
	cmd := driver.Command{
		Argv: c.Args, Script: c.script, Dir: c.Dir, Clean: c.Clean, Stdin: c.Stdin, Interactive: c.inPipe,
		TTY: c.TTY, Timeout: c.Timeout, Grace: c.Grace, Limits: c.Limits,
	}
	for _, pair := range c.Env {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return cmd, fmt.Errorf("workspace: command %s: environment %q: %w: it must be KEY=value", c.Args, pair, fault.InvalidArgument)
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
	cmd.OnStdout, cmd.OnStderr = c.w.gate.listener(c.sink(c.Stdout, mu)), c.w.gate.listener(c.sink(c.Stderr, mu))
	return cmd, nil
}

// sameWriter compares as exec.Cmd does; writers that can't be compared differ.
func sameWriter(a, b io.Writer) (same bool) {
	defer func() { recover() }() //nolint:errcheck // the comparison panics for such types
	return a == b
}

// sink returns a callback that writes to a writer, nil if there is none. mu is
// held where two streams share it.
func (c *Cmd) sink(to io.Writer, mu *sync.Mutex) func([]byte) error {
	if to == nil {
		return nil
	}
	return func(data []byte) error {
		if mu != nil {
			mu.Lock()
			defer mu.Unlock()
		}
		_, err := to.Write(data)
		if !errors.Is(err, io.ErrClosedPipe) { // a pipe that is not read to its end is nobody's error
			c.writeErr.set(err)
		}
		return err
	}
}

// firstError remembers the first error that a writer returned.
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

// Wait waits for the command to end and for its output to be taken. Where ctx
// ends, or the handle is closed, the command is killed.
func (c *Cmd) Wait() error {
	if c.started.Load() == nil || c.waited {
		return c.misused("it was not started, or was waited for already")
	}
	c.waited = true
	end := <-c.ended
	if end.err != nil {
		return end.err
	}
	return c.judge(end.res)
}

// Resize tells the terminal of a command that was started its new size.
func (c *Cmd) Resize(size Size) error {
	s := c.started.Load()
	if s == nil {
		return c.misused("it was not started")
	}
	return s.Resize(c.ctx, size)
}

// ending is how a command ended.
type ending struct {
	res Result
	err error
}

// finish waits for the session and leaves nothing running and nobody waiting. It
// is a call under way on the handle, which Start let in.
func (c *Cmd) finish(ctx context.Context, s *Session) (end ending) {
	defer c.w.gate.exit()
	defer func() { c.closePipes(io.EOF) }()
	ctx, op := c.w.begin(ctx, verbWait, subject{})
	defer func() { op.end(ctx, end.err) }()
	end.err = c.w.guard(ctx, c.w.current.Load(), func(ctx context.Context, _ *live) error {
		p := s.now()
		res, err := finish(ctx, p, false)
		if fault.Of(err) == fault.Evicted {
			res, err = s.lost(ctx), nil
			p = s.now()
		}
		if err != nil {
			return err
		}
		noteResult(ctx, res, err)
		res.Session = "" // which is forgotten now
		end.res = res
		return forget(ctx, p)
	})
	return end
}

func forget(ctx context.Context, p *driver.Session) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	err := p.Close(ctx)
	if fault.Of(err) == fault.Evicted {
		return nil // it is forgotten indeed
	}
	return err
}

// closePipes ends what reads from the command: with EOF, or with an error.
func (c *Cmd) closePipes(err error) {
	for _, p := range c.pipes {
		p.CloseWithError(err)
	}
}
