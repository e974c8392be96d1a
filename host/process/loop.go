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

// bufferSize is what is read at once: as much as a pipe holds.
const bufferSize = 64 << 10

// maxLate bounds what is still read from processes that can't be killed.
const maxLate = 1 << 20

var buffers = sync.Pool{New: func() any { b := make([]byte, bufferSize); return &b }}

func getBuffer() *[]byte  { return buffers.Get().(*[]byte) }
func putBuffer(b *[]byte) { buffers.Put(b) }

// journalAfter is how long a foreground command runs before the journal tells of
// it. Most end sooner, and cost no write.
const journalAfter = 20 * time.Millisecond

// loop sees a command through to its end and leaves a result. It alone reads the
// output and reaps the child.
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

// finishOutput waits for the end of the output. Descendants of the leader that hold
// it open get WaitDelay, then they are killed. Where one can't be killed, the output
// ends WaitDelay after that.
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

// recordInJournal writes a command down that does not end at once, so that it is found if
// this process does not survive it.
func (s *session) recordInJournal() {
	if !s.inJournal && s.m.journal != nil {
		s.inJournal = true
		s.m.journal.recordStart(s)
		for _, o := range s.outs {
			o.writeToLog()
		}
	}
}

// copyOutput hands on what a stream brings until its end or its read deadline.
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

// readPending hands on what was written before the deadline, which a slow callback kept
// from being read, and waits for no more.
func (s *session) readPending(i int, buf []byte) {
	raw, err := s.files[i].SyscallConn()
	if err != nil {
		return
	}
	for late := 0; late <= maxLate; {
		n := 0
		raw.Control(func(fd uintptr) { n, _ = syscall.Read(int(fd), buf) }) //nolint:errcheck // nothing came then
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

// callWithRecover is a callback whose panic is an error like any other: it must not end the
// loop that reaps the child.
func callWithRecover(f func([]byte) error, data []byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return f(data)
}

// killLeftovers kills what the leader left behind, after the grace of a kill that is under
// way.
func (s *session) killLeftovers() {
	s.mu.Lock()
	spare := s.graceEnd
	s.mu.Unlock()
	if !spare.IsZero() {
		s.waitGrace(spare)
	}
	s.killMu.Lock()
	defer s.killMu.Unlock()
	// Processes of a tree that was signalled die while the list of children is read,
	// so that list decides nothing then.
	if spare.IsZero() && s.m.hasNoDescendants(s.child, s.tracked) {
		return
	}
	if err := s.tracked.Kill(s.child.PID); err != nil {
		s.addCallbackError("kill", err)
	}
}

// endTree ends the tree and reaps the child.
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
		// Killing a tree stops it first, and gVisor hangs up what is stopped when
		// others of it die. What ended it is the kill.
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

// setResult says how the command ended.
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

// startError classifies what a Starter returned.
func startError(spec *Spec, err error) error {
	code := errorCode(err)
	if code == fault.Internal {
		code = fault.Unavailable
	}
	return fmt.Errorf("process: start %q: %w: %w", spec.Argv[0], code, err)
}
