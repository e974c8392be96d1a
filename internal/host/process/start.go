package process

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/croft-run/croft/workspace/driver"
)

// startSession starts a command. The caller runs its loop.
func (m *Manager) startSession(ctx context.Context, cmd *driver.Command, front bool) (*session, error) {
	if ctx.Err() != nil {
		return nil, ctxErr(ctx, "start", "command")
	}
	s := m.newSession(sessionIDFrom(ctx), cmd, front)
	spec, wall, err := m.buildSpec(cmd, s.info.ID, groupFrom(ctx))
	if err != nil {
		return nil, err
	}
	if err := m.addSession(s); err != nil {
		return nil, err
	}
	if err := m.startChild(s, spec, cmd); err != nil {
		m.dropSession(s)
		return nil, err
	}
	if !front {
		s.recordInJournal()
	}
	s.startTimers(ctx, wall, cmd)
	m.mu.Lock()
	closed := m.closed
	m.mu.Unlock()
	if closed { // Close may not have seen the session
		s.kill(driver.CauseDestroyed, 0) //nolint:errcheck // the result reports it
	}
	return s, nil
}

type sessionIDKey struct{}

// WithSessionID sets the id of the next command that is run with ctx, so that the caller
// finds the logs of the command if it gets no result. An invalid id is ignored.
func WithSessionID(ctx context.Context, id string) context.Context {
	if !driver.ValidID(id) {
		return ctx
	}
	return context.WithValue(ctx, sessionIDKey{}, id)
}

func sessionIDFrom(ctx context.Context) string {
	if id, ok := ctx.Value(sessionIDKey{}).(string); ok {
		return id
	}
	return driver.NewID()
}

func (m *Manager) newSession(id string, cmd *driver.Command, front bool) *session {
	maxOutput := cmd.MaxOutput
	if maxOutput <= 0 {
		maxOutput = DefaultMaxOutput
	}
	maxOutput = min(maxOutput, maxMaxOutput)
	s := &session{
		m: m, foreground: front, started: time.Now(), done: make(chan struct{}),
		calls: [2]func([]byte) error{cmd.OnStdout, cmd.OnStderr},
		outs:  []*outputBuffer{newOutput(m.logStore, id+".stdout", maxOutput, !front)},
	}
	if cmd.TTY == nil {
		s.outs = append(s.outs, newOutput(m.logStore, id+".stderr", maxOutput, !front))
	}
	s.info = driver.SessionInfo{
		ID: id, Argv: cmd.Argv, Script: cmd.Script, Dir: cmd.Dir, TTY: cmd.TTY != nil,
		Started: s.started, Labels: cmd.Labels,
	}
	return s
}

// startChild starts the child. After an error nothing is left of it.
func (m *Manager) startChild(s *session, spec *Spec, cmd *driver.Command) (err error) {
	var theirs []*os.File // the child's ends of pipes and terminal
	defer func() {
		closeAll(theirs)
		if err != nil {
			closeAll(s.files)
			if s.in != nil {
				s.in.file.Close()
			}
		}
	}()
	if cmd.TTY != nil {
		err = s.setupTTY(spec, cmd, &theirs)
	} else {
		err = s.setupPipes(spec, cmd, &theirs)
	}
	if err != nil {
		return fmt.Errorf("process: start %q: %w: %w", spec.Argv[0], errorCode(err), err)
	}
	if s.tracked, err = m.opts.Tree.Track(spec); err != nil {
		return err
	}
	if err = m.forkChild(s, spec); err != nil {
		s.tracked.Release()
	}
	return err
}

// forkChild starts the child and registers it while it holds reapMu, so that the reaper
// does not take it for an orphan.
func (m *Manager) forkChild(s *session, spec *Spec) error {
	m.reapMu.RLock()
	defer m.reapMu.RUnlock()
	child, err := m.opts.Starter.Start(spec)
	if err != nil {
		return startError(spec, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s.child, s.info.PID = child, child.PID
	m.pids[child.PID] = true
	s.ready = true
	return nil
}

// setupPipes gives the child a pipe for each of its outputs, and one for its input if it
// has any.
func (s *session) setupPipes(spec *Spec, cmd *driver.Command, theirs *[]*os.File) error {
	spec.Files = []uintptr{s.m.null.Fd()}
	for range s.outs {
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		s.files, *theirs = append(s.files, r), append(*theirs, w)
		spec.Files = append(spec.Files, w.Fd())
	}
	if cmd.Stdin == nil && !cmd.Interactive {
		return nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	s.in, *theirs = newInput(w, false), append(*theirs, r)
	spec.Files[0] = r.Fd()
	return nil
}

// setupTTY makes a pseudo-terminal the child's input and both of its outputs.
func (s *session) setupTTY(spec *Spec, cmd *driver.Command, theirs *[]*os.File) error {
	master, slave, err := openTTY(*cmd.TTY)
	if err != nil {
		return err
	}
	s.tty, s.in = master, newInput(master, true)
	s.files, *theirs = []*os.File{master}, []*os.File{slave}
	spec.Files = []uintptr{slave.Fd(), slave.Fd(), slave.Fd()}
	spec.Sys.Setctty, spec.Sys.Ctty = true, 0
	return nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// startTimers starts the time-out, the watch of ctx, and the copying of standard input.
func (s *session) startTimers(ctx context.Context, wall time.Duration, cmd *driver.Command) {
	if wall > 0 {
		ran := make(chan struct{})
		grace := cmd.Grace
		timer := time.AfterFunc(wall, func() {
			defer close(ran)
			s.kill(driver.CauseTimeout, grace) //nolint:errcheck // the result reports it
		})
		s.timer = killTimer{timer.Stop, ran}
	}
	if !cmd.Detached && ctx.Done() != nil {
		ran := make(chan struct{})
		stop := context.AfterFunc(ctx, func() {
			defer close(ran)
			s.kill(driver.CauseCanceled, 0) //nolint:errcheck // the result reports it
		})
		s.ctxWatch = killTimer{stop, ran}
	}
	if cmd.TTY != nil && cmd.Stdin == nil && !cmd.Interactive {
		cmd.Stdin = strings.NewReader("") // sends the end-of-file key
	}
	if cmd.Stdin != nil {
		r, ctx := cmd.Stdin, context.WithoutCancel(ctx)
		s.m.wg.Go(func() { s.copyStdin(ctx, r) }) // wg counts the session, too, so Close still waits
	}
}

// finishSession publishes the result, and forgets a foreground command whose result holds
// all output.
func (s *session) finishSession() {
	m := s.m
	keep := !s.foreground
	if !s.foreground {
		s.result.Session = s.info.ID
	} else {
		r := s.resultWithOutput()
		if keep = r.StdoutDropped+r.StderrDropped > 0 && m.opts.LogDir != ""; keep {
			s.result.Session, r.Session = s.info.ID, s.info.ID
		}
		s.final = &r
	}
	if keep {
		var xs [2]streamExtent
		for i, o := range s.outs {
			xs[i] = o.finish()
		}
		if m.journal != nil {
			m.journal.recordEnd(s, xs)
		}
	} else if s.inJournal {
		m.journal.recordForget(s.info.ID)
		for _, o := range s.outs {
			o.remove()
		}
	}
	m.mu.Lock()
	delete(m.pids, s.child.PID)
	m.running--
	if keep {
		m.scheduleExpiryLocked()
	} else {
		delete(m.sessions, s.info.ID)
	}
	m.mu.Unlock()
	close(s.done)
	if m.reaper != nil {
		m.reaper.requestPass()
	}
	m.wg.Done()
}
