package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// bufferSize is the size of one read: the capacity of a pipe.
const bufferSize = 64 << 10

// maxLate bounds the bytes that are still read from processes that can't be killed.
const maxLate = 1 << 20

var buffers = sync.Pool{New: func() any { b := make([]byte, bufferSize); return &b }}

func getBuffer() *[]byte  { return buffers.Get().(*[]byte) }
func putBuffer(b *[]byte) { buffers.Put(b) }

// journalAfter is how long a foreground command runs before it is recorded in the journal.
// Most commands end sooner and cost no write.
const journalAfter = 20 * time.Millisecond

// loop waits for the end of a command and stores its result. Only loop reads the output and
// reaps the child.
func (s *session) loop() {
	ended, copied := make(chan struct{}), make(chan struct{}, len(s.files))
	go func() {
		s.child.waitExit()
		close(ended)
	}()
	for i := range s.files {
		go func() {
			s.copyOutput(i)
			copied <- struct{}{}
		}()
	}
	select {
	case <-ended:
	case <-time.After(journalAfter):
		s.recordInJournal()
		<-ended
	}
	s.finishOutput(copied)
	s.endTree()
	s.finishSession()
}

// finishOutput waits for the end of the output. Descendants that keep it open after the
// leader's exit are killed after WaitDelay. If one can't be killed, reading stops WaitDelay
// after that.
func (s *session) finishOutput(copied <-chan struct{}) {
	delay := s.m.opts.WaitDelay
	timeout := time.After(delay)
	for range s.files {
		select {
		case <-copied:
		case <-timeout:
			s.killLeftovers()
			for _, f := range s.files {
				f.SetReadDeadline(time.Now().Add(delay)) //nolint:errcheck // pipes and terminals have deadlines
			}
			<-copied
		}
	}
}

// recordInJournal records a command that does not end at once, so that the next Manager
// finds it if this process dies.
func (s *session) recordInJournal() {
	if !s.inJournal && s.m.journal != nil {
		s.inJournal = true
		s.m.journal.recordStart(s)
		for _, o := range s.outs {
			o.writeToLog()
		}
	}
}

// copyOutput reads a stream until its end or its read deadline.
func (s *session) copyOutput(i int) {
	buf := getBuffer()
	defer putBuffer(buf)
	for {
		n, err := s.files[i].Read(*buf)
		if n > 0 {
			s.handleOutput(i, (*buf)[:n])
		}
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			s.readPending(i, *buf)
			return
		case errors.Is(err, io.EOF) || errors.Is(err, syscall.EIO): // the end of a pipe, and of a terminal
			return
		default:
			s.addCallbackError(streamNames[i], err)
			return
		}
	}
}

// readPending reads, without blocking, the bytes that were written before the deadline
// while a slow callback delayed reading.
func (s *session) readPending(i int, buf []byte) {
	raw, err := s.files[i].SyscallConn()
	if err != nil {
		return
	}
	for late := 0; late <= maxLate; {
		n := 0
		raw.Control(func(fd uintptr) { n, _ = syscall.Read(int(fd), buf) }) //nolint:errcheck // n stays 0 then
		if n <= 0 {
			return
		}
		s.handleOutput(i, buf[:n])
		late += n
	}
}

var streamNames = [...]string{"stdout", "stderr"}

func (s *session) handleOutput(i int, data []byte) {
	s.outs[i].add(data)
	if s.calls[i] != nil {
		if err := callWithRecover(s.calls[i], data); err != nil {
			s.addCallbackError(streamNames[i], err)
		}
	}
}

// callWithRecover calls a callback and turns its panic into an error, because a panic must
// not end the loop that reaps the child.
func callWithRecover(f func([]byte) error, data []byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return f(data)
}

// killLeftovers kills the rest of the tree, after the grace period of a kill under way.
func (s *session) killLeftovers() {
	s.mu.Lock()
	grace := s.graceEnd
	s.mu.Unlock()
	if !grace.IsZero() {
		s.waitGrace(grace)
	}
	s.killMu.Lock()
	defer s.killMu.Unlock()
	// Processes of a signalled tree die while the list of children is read, so the list
	// proves nothing then.
	if grace.IsZero() && s.m.hasNoDescendants(s.child, s.tracked) {
		return
	}
	if err := s.killTree(); err != nil {
		s.addCallbackError("kill", err)
	}
}

// endTree kills the rest of the tree and reaps the child.
func (s *session) endTree() {
	s.killLeftovers()
	if s.tty == nil {
		closeAll(s.files)
	}
	if s.in != nil {
		s.in.closePipe()
	}
	s.killMu.Lock()
	ws, usage, err := s.child.reap()
	s.reaped = true
	if s.killedRunning && ws.Signaled() && ws.Signal() == syscall.SIGHUP {
		// Killing a tree stops it first, and gVisor sends SIGHUP to stopped processes when
		// other members die. The real cause is the kill.
		ws = syscall.WaitStatus(syscall.SIGKILL)
	}
	if s.tty != nil {
		s.tty.Close()
	}
	s.killMu.Unlock()
	s.tracked.Release()
	s.timer.stop()
	s.ctxWatch.stop()
	s.setResult(ws, usage, err)
}

// setResult stores the exit status, usage and cause of the command.
func (s *session) setResult(ws syscall.WaitStatus, usage syscall.Rusage, err error) {
	r := &driver.Result{ExitCode: -1, Duration: time.Since(s.started)}
	switch {
	case err != nil:
		r.Cause = driver.CauseLost
	case ws.Signaled():
		r.ExitCode, r.Signal = 128+int(ws.Signal()), signalName(ws.Signal())
	default:
		r.ExitCode = ws.ExitStatus()
	}
	if err == nil {
		r.Usage = driver.Usage{
			User: time.Duration(usage.Utime.Nano()), System: time.Duration(usage.Stime.Nano()), MaxRSS: maxRSS(usage),
		}
	}
	s.mu.Lock()
	if s.cause != "" {
		r.Cause = s.cause
	}
	s.mu.Unlock()
	if r.Cause == "" && r.ExitCode != 0 && s.m.opts.Cause != nil {
		r.Cause = s.m.opts.Cause(End{ID: s.info.ID, PID: s.child.PID, ExitCode: r.ExitCode, Signal: r.Signal})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r.CallbackErrors = slices.Clone(s.callbackErrors)
	if s.unlistedErrors > 0 {
		r.CallbackErrors = append(r.CallbackErrors, fmt.Sprintf("and %d more", s.unlistedErrors))
	}
	s.result, s.ended = r, time.Now()
}

// startError classifies an error of a Starter.
func startError(spec *Spec, err error) error {
	code := errorCode(err)
	if code == fault.Internal {
		code = fault.Unavailable
	}
	return fmt.Errorf("process: start %q: %w: %w", spec.Argv[0], code, err)
}
