package process

import (
	"context"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// maxCallbackErrors is the number of callback errors that a result lists.
const maxCallbackErrors = 16

// A session is one command, from its start until it is forgotten. It implements
// driver.Process.
type session struct {
	m          *Manager
	info       driver.SessionInfo // the constant part
	foreground bool               // Run waits for it
	ready      bool               // guarded by Manager.mu: it was started and is visible
	outs       []*outputBuffer    // stdout and stderr; a terminal has only stdout
	started    time.Time

	// The state of the loop. A session of an earlier Manager has no loop.
	child     Child
	tracked   Tracked
	in        *stdin
	tty       *os.File
	calls     [2]func([]byte) error
	files     []*os.File // read ends, in the order of outs
	inJournal bool       // it is recorded in the journal

	killMu        sync.Mutex
	reaped        bool // guarded by killMu: the pid may be reused
	killedRunning bool // guarded by killMu: the tree was killed while the child ran

	pollMu sync.Mutex // serialises Poll, which reads both streams

	mu             sync.Mutex
	cause          driver.Cause
	graceEnd       time.Time // end of the grace period of a kill; zero without a kill
	callbackErrors []string
	unlistedErrors int            // callback errors beyond maxCallbackErrors
	result         *driver.Result // without output; set at the end
	final          *driver.Result // with output, for Run
	ended          time.Time

	done chan struct{} // closed when there is a result

	timer, ctxWatch killTimer
}

// A killTimer may call kill later. stop returns after that call has returned or can't
// happen any more.
type killTimer struct {
	cancel func() bool
	ran    chan struct{}
}

func (s killTimer) stop() {
	if s.cancel != nil && !s.cancel() {
		<-s.ran
	}
}

func (s *session) driverSession() *driver.Session {
	h := &driver.Session{Process: s, Log: s.readLog, Signal: s.signalForeground}
	if s.info.TTY {
		h.Resize = s.resizeTTY
	}
	return h
}

// ID identifies the session.
func (s *session) ID() string { return s.info.ID }

func (s *session) opError(verb string, err error) error {
	return fmt.Errorf("process: %s %s: %w", verb, s.info.ID, err)
}

func (s *session) hasEnded() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// Poll returns output that no Poll returned before.
func (s *session) Poll(ctx context.Context, limit int64) (driver.Poll, error) {
	if limit < 0 {
		return driver.Poll{}, s.opError("poll", fmt.Errorf("%w: limit %d is negative", fault.InvalidArgument, limit))
	}
	if limit == 0 {
		limit = 64 << 10
	}
	limit = min(limit, maxMaxOutput)
	s.pollMu.Lock()
	defer s.pollMu.Unlock()
	p := driver.Poll{Running: !s.hasEnded()} // read before the output: an ended command writes no more
	var err error
	rest := limit
	for i, o := range s.outs {
		share := rest
		if i == 0 && len(s.outs) > 1 {
			share = max(limit/2, limit-s.outs[1].unreadBytes()) // no stream starves the other
		}
		data, dropped, terr := o.readNew(share)
		if i == 0 {
			p.Stdout = data
		} else {
			p.Stderr = data
		}
		p.Dropped += dropped
		rest -= int64(len(data))
		if terr != nil && err == nil {
			err = s.opError("poll", terr)
		}
	}
	if len(p.Stdout)+len(p.Stderr) > 0 {
		err = nil // return the output; the next call repeats the error
	}
	return p, err
}

func (s *session) readLog(ctx context.Context, stream driver.Stream, offset, limit int64) (driver.LogChunk, error) {
	var o *outputBuffer
	switch {
	case stream == driver.Stdout:
		o = s.outs[0]
	case stream == driver.Stderr && len(s.outs) > 1:
		o = s.outs[1]
	case stream == driver.Stderr:
		return driver.LogChunk{Data: nil}, nil // a terminal has one stream
	default:
		return driver.LogChunk{}, s.opError("read log", fmt.Errorf("%w: stream %q: want stdout or stderr", fault.InvalidArgument, stream))
	}
	if limit == 0 {
		limit = 64 << 10
	}
	if size := o.totalBytes(); offset < 0 || limit < 0 || offset > size {
		return driver.LogChunk{}, s.opError("read log", fmt.Errorf("%w: offset %d, limit %d: the log has %d bytes",
			fault.InvalidArgument, offset, limit, size))
	}
	data, start, size, err := o.read(offset, min(limit, maxMaxOutput))
	if err != nil {
		return driver.LogChunk{}, s.opError("read log", err)
	}
	return driver.LogChunk{Data: data, Offset: start, Next: start + int64(len(data)), Size: size}, nil
}

// Write writes to standard input.
func (s *session) Write(ctx context.Context, data []byte) error {
	if s.in == nil || s.hasEnded() {
		return s.opError("write", s.noInput())
	}
	if _, err := s.in.write(ctx, data); err != nil {
		return s.opError("write", fmt.Errorf("%w: %w", errorCode(err), err))
	}
	return nil
}

func (s *session) noInput() error {
	if s.hasEnded() {
		return fmt.Errorf("%w: the command has ended", fault.WrongState)
	}
	return fmt.Errorf("%w: it was not started as interactive", fault.WrongState)
}

// CloseStdin ends standard input.
func (s *session) CloseStdin(ctx context.Context) error {
	if s.hasEnded() || s.in == nil && !s.info.TTY {
		return nil // it is at its end
	}
	if err := s.in.sendEOF(ctx); err != nil {
		return s.opError("close stdin", fmt.Errorf("%w: %w", errorCode(err), err))
	}
	return nil
}

func (s *session) resizeTTY(_ context.Context, size driver.Size) error {
	if !validSize(size) {
		return s.opError("resize", fmt.Errorf("%w: %dx%d: rows and columns are 1 to 65535", fault.InvalidArgument, size.Rows, size.Cols))
	}
	s.killMu.Lock()
	defer s.killMu.Unlock()
	if s.tty == nil || s.reaped {
		return s.opError("resize", fmt.Errorf("%w: the command has ended", fault.WrongState))
	}
	if err := setTTYSize(s.tty, size); err != nil {
		return s.opError("resize", fmt.Errorf("%w: %w", errorCode(err), err))
	}
	return nil
}

// signalForeground signals the foreground process group: that of the leader, or that of the
// terminal.
func (s *session) signalForeground(_ context.Context, name string) error {
	sig, err := parseSignal(name)
	if err != nil {
		return err
	}
	s.killMu.Lock()
	defer s.killMu.Unlock()
	if s.reaped || s.child.PID == 0 || s.child.hasExited() {
		return s.opError("signal", fmt.Errorf("%w: the command has ended", fault.WrongState))
	}
	pgid := s.child.PID
	if s.tty != nil {
		if fg, err := foregroundGroup(s.tty); err == nil && fg > 1 {
			pgid = fg
		}
	}
	if err := syscall.Kill(-pgid, sig); err != nil {
		return s.opError("signal", fmt.Errorf("%w: %w", errorCode(err), err))
	}
	return nil
}

// Kill kills the whole tree. The kill continues if ctx ends.
func (s *session) Kill(ctx context.Context, grace time.Duration) error {
	if grace < 0 {
		return s.opError("kill", fmt.Errorf("%w: grace %v is negative", fault.InvalidArgument, grace))
	}
	if s.hasEnded() {
		return nil
	}
	result := make(chan error, 1)
	if !s.m.goUnlessClosed(func() { result <- s.kill(driver.CauseKilled, grace) }) {
		return nil // Manager.Close kills it
	}
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return ctxErr(ctx, "kill", s.info.ID)
	}
}

// kill kills the tree, after SIGTERM and the grace period if that is not 0. It may be
// called repeatedly and from any goroutine; the first call that finds the command running
// sets the cause.
func (s *session) kill(cause driver.Cause, grace time.Duration) error {
	s.recordCause(cause, grace)
	if grace > 0 {
		s.killMu.Lock()
		if !s.reaped {
			s.tracked.Signal(s.child.PID, syscall.SIGTERM) //nolint:errcheck // SIGKILL follows
		}
		s.killMu.Unlock()
		s.waitGrace(time.Now().Add(grace))
	}
	s.killMu.Lock()
	defer s.killMu.Unlock()
	if s.reaped {
		return nil
	}
	s.killedRunning = s.killedRunning || !s.child.hasExited()
	return s.killTree()
}

// killTree kills the tree, and the foreground process group of its terminal: a shell with job
// control runs its commands in groups that a Group does not find. killMu is held.
func (s *session) killTree() error {
	if s.tty != nil {
		if fg, err := foregroundGroup(s.tty); err == nil && fg > 1 {
			signalGroup(fg, syscall.SIGKILL) //nolint:errcheck // it may have ended
		}
	}
	return s.tracked.Kill(s.child.PID)
}

func (s *session) recordCause(cause driver.Cause, grace time.Duration) {
	s.killMu.Lock()
	late := s.reaped || s.child.hasExited()
	s.killMu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause == "" && !late {
		s.cause = cause
	}
	if till := time.Now().Add(grace); s.graceEnd.IsZero() || till.Before(s.graceEnd) {
		s.graceEnd = till // the earliest end counts
	}
}

// waitGrace waits, with a backoff, until the tree has ended, till is reached, or another
// kill ends the grace period.
func (s *session) waitGrace(till time.Time) {
	for pause := time.Millisecond; time.Now().Before(till); pause = min(2*pause, 50*time.Millisecond) {
		s.killMu.Lock()
		left := !s.reaped && s.tracked.Alive(s.child.PID)
		s.killMu.Unlock()
		s.mu.Lock()
		expired := !s.graceEnd.IsZero() && !time.Now().Before(s.graceEnd)
		s.mu.Unlock()
		if !left || expired {
			return
		}
		time.Sleep(min(pause, time.Until(till)))
	}
}

// Wait waits for the end and returns the result.
func (s *session) Wait(ctx context.Context) (driver.Result, error) {
	select {
	case <-s.done:
		return s.resultWithOutput(), nil
	default:
	}
	select {
	case <-s.done:
		return s.resultWithOutput(), nil
	case <-ctx.Done():
		return driver.Result{}, ctxErr(ctx, "wait for", s.info.ID)
	}
}

func (s *session) resultWithOutput() driver.Result {
	s.mu.Lock()
	r := *s.result
	s.mu.Unlock()
	r.Stdout, r.StdoutDropped = s.outs[0].headAndTail()
	if len(s.outs) > 1 {
		r.Stderr, r.StderrDropped = s.outs[1].headAndTail()
	}
	return r
}

// State returns the present state of the session.
func (s *session) State(context.Context) (driver.SessionInfo, error) { return s.state(), nil }

func (s *session) state() driver.SessionInfo {
	info := s.info
	info.Running = !s.hasEnded()
	for _, o := range s.outs {
		info.LogDropped += o.missingBytes()
	}
	if !info.Running {
		s.mu.Lock()
		r := *s.result
		s.mu.Unlock()
		info.Result = &r
	}
	return info
}

// Close forgets the session, after killing what still runs.
func (s *session) Close(ctx context.Context) error {
	if !s.hasEnded() {
		if err := s.Kill(ctx, 0); err != nil {
			return err
		}
		if _, err := s.Wait(ctx); err != nil {
			return err
		}
	}
	s.m.forgetSession(s)
	return nil
}

// addCallbackError records an error of a callback or of the reader of standard input.
func (s *session) addCallbackError(source string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.callbackErrors) == maxCallbackErrors {
		s.unlistedErrors++
		return
	}
	s.callbackErrors = append(s.callbackErrors, fmt.Sprintf("%s: %.500s", source, err.Error()))
}
