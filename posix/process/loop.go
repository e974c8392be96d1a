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

// loop sees a command through to its end and leaves a result. It alone reads the
// output and reaps the child.
func (s *session) loop() {
	fds := [waits]int{s.fds[0], s.fds[1], -1}
	second := s.second()
	if second != nil {
		fds[waitStderr] = -1
	}
	exit, release, err := s.child.exitFD()
	if err != nil {
		s.complain("wait", err)
		release = func() {}
	}
	fds[waitExit] = exit
	w := newWaiter(fds, s.note)
	w.patient = s.front && s.calls[0] == nil && s.calls[1] == nil
	s.attend(w, fds)
	if second != nil {
		second.finish(s)
	}
	s.settle()
	release()
	s.conclude()
}

// note writes a command down that does not end at once, so that it is found if
// this process does not survive it.
func (s *session) note() {
	if !s.noted && s.m.journal != nil {
		s.noted = true
		s.m.journal.start(s)
		for _, o := range s.outs {
			o.spill()
		}
	}
}

// attend reads output and waits for the leader's end, and then for the end of
// the output as long as it may take.
func (s *session) attend(w *waiter, fds [waits]int) {
	defer w.close()
	open := 0
	for _, fd := range fds {
		if fd >= 0 {
			open++
		}
	}
	var deadline time.Time
	killed, late := false, 0
	for open > 0 {
		ready, err := w.wait(deadline)
		if err != nil {
			s.complain("wait", err)
			s.cull() // without eyes there is nothing better to do
			return
		}
		for i := range s.outs {
			if ready&(1<<i) == 0 {
				continue
			}
			n, ok := 0, false
			if ready&(1<<(i+ended)) == 0 {
				n, ok = s.take(i, fds[i])
			}
			if late += n; !ok {
				w.drop(i)
				closeFD(s, i)
				open--
			}
		}
		if ready&(1<<waitExit) != 0 {
			w.drop(waitExit)
			open--
			deadline, late = time.Now().Add(s.m.opts.WaitDelay), 0
		}
		if open == 0 || !passed(deadline) {
			continue
		}
		switch {
		case !killed: // descendants hold the output
			killed = true
			s.cull()
			deadline, late = time.Now().Add(s.m.opts.WaitDelay), 0
		case ready == 0 || late > maxLate:
			return // someone that can't be killed holds it
		}
	}
}

// take reads once and hands on what came. It returns false at the end.
func (s *session) take(i, fd int) (int, bool) {
	buf := getBuffer()
	defer putBuffer(buf)
	n, err := syscall.Read(fd, *buf)
	if err != nil {
		return 0, errors.Is(err, syscall.EINTR) || errors.Is(err, syscall.EAGAIN) // a terminal ends with EIO
	}
	if n == 0 {
		return 0, false
	}
	s.deliver(i, (*buf)[:n])
	return n, true
}

func (s *session) deliver(i int, data []byte) {
	s.outs[i].add(data)
	if s.calls[i] != nil {
		if err := call(s.calls[i], data); err != nil {
			s.complain([...]string{"stdout", "stderr"}[i], err)
		}
	}
}

// call is a callback whose panic is an error like any other: it must not end the
// loop that reaps the child.
func call(f func([]byte) error, data []byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return f(data)
}

func closeFD(s *session, i int) {
	if s.tty == nil && s.fds[i] >= 0 {
		closeRaw(s.fds[i])
		s.fds[i] = -1
	}
}

// A pump reads standard error in a goroutine of its own, where both streams have
// callbacks.
type pump struct {
	file *os.File
	done chan struct{}
}

// second starts the pump where there is need for one.
func (s *session) second() *pump {
	if len(s.outs) < 2 || s.calls[0] == nil || s.calls[1] == nil {
		return nil
	}
	syscall.SetNonblock(s.fds[1], true) //nolint:errcheck // a pipe of our own
	p := &pump{file: os.NewFile(uintptr(s.fds[1]), "stderr"), done: make(chan struct{})}
	s.fds[1] = -1
	go p.run(s)
	return p
}

func (p *pump) run(s *session) {
	defer close(p.done)
	defer p.file.Close()
	buf := getBuffer()
	defer putBuffer(buf)
	for {
		n, err := p.file.Read(*buf)
		if n > 0 {
			s.deliver(waitStderr, (*buf)[:n])
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			p.drain(s, *buf)
			return
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				s.complain("stderr", err)
			}
			return
		}
	}
}

// drain takes what is in the pipe and waits for no more.
func (p *pump) drain(s *session, buf []byte) {
	raw, err := p.file.SyscallConn()
	if err != nil {
		return
	}
	for late := 0; late <= maxLate; {
		n := 0
		raw.Control(func(fd uintptr) { n, _ = syscall.Read(int(fd), buf) }) //nolint:errcheck // nothing came then
		if n <= 0 {
			return
		}
		s.deliver(waitStderr, buf[:n])
		late += n
	}
}

// finish waits for the pump as attend does for the other stream.
func (p *pump) finish(s *session) {
	for step := range 2 {
		timer := time.NewTimer(s.m.opts.WaitDelay)
		select {
		case <-p.done:
			timer.Stop()
			return
		case <-timer.C:
		}
		if step == 0 {
			s.cull()
		}
	}
	p.file.SetReadDeadline(time.Unix(1, 0)) //nolint:errcheck // it is closed then
	<-p.done
}

// cull kills what the leader left behind, once the time that a kill with grace
// has given it is over.
func (s *session) cull() {
	s.mu.Lock()
	spare := s.spare
	s.mu.Unlock()
	if !spare.IsZero() {
		s.linger(spare)
	}
	s.killMu.Lock()
	defer s.killMu.Unlock()
	if s.m.childless(s.child, s.grip) {
		return
	}
	if err := s.grip.Kill(s.child.PID); err != nil {
		s.complain("kill", err)
	}
}

// settle ends the tree and reaps the child.
func (s *session) settle() {
	s.cull()
	for i := range s.fds {
		closeFD(s, i)
	}
	if s.in != nil {
		s.in.shut()
	}
	s.killMu.Lock()
	ws, usage, err := s.child.reap()
	s.reaped = true
	if s.struck && ws.Signaled() && ws.Signal() == syscall.SIGHUP {
		// Killing a tree stops it first, and gVisor hangs up what is stopped when
		// others of it die. What ended it is the kill.
		ws = syscall.WaitStatus(syscall.SIGKILL)
	}
	if s.tty != nil {
		s.tty.Close()
	}
	s.killMu.Unlock()
	s.grip.Release()
	s.timer.stop()
	s.watch.stop()
	s.decide(ws, usage, err)
}

// decide says how the command ended.
func (s *session) decide(ws syscall.WaitStatus, usage syscall.Rusage, err error) {
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
	r.CallbackErrors = slices.Clone(s.complaints)
	if s.unlisted > 0 {
		r.CallbackErrors = append(r.CallbackErrors, fmt.Sprintf("and %d more", s.unlisted))
	}
	s.result, s.ended = r, time.Now()
}

// startError classifies what a Starter returned.
func startError(spec *Spec, err error) error {
	code := codeOf(err)
	if code == fault.Internal {
		code = fault.Unavailable
	}
	return fmt.Errorf("process: start %q: %w: %w", spec.Argv[0], code, err)
}
