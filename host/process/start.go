package process

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/croft-run/croft/workspace/driver"
)

// start brings a command to life. The caller runs its loop.
func (m *Manager) start(ctx context.Context, cmd *driver.Command, front bool) (*session, error) {
	if ctx.Err() != nil {
		return nil, ctxErr(ctx, "start", "command")
	}
	s := m.newSession(nameOf(ctx), cmd, front)
	spec, wall, err := m.plan(cmd, s.info.ID)
	if err != nil {
		return nil, err
	}
	if err := m.admit(s); err != nil {
		return nil, err
	}
	if err := m.launch(s, spec, cmd); err != nil {
		m.dismiss(s)
		return nil, err
	}
	if !front {
		s.note()
	}
	s.arm(ctx, wall, cmd)
	m.mu.Lock()
	closed := m.closed
	m.mu.Unlock()
	if closed { // it may have come too late for Close to see it
		s.kill(driver.CauseDestroyed, 0) //nolint:errcheck // the result tells
	}
	return s, nil
}

// namedKey is the key of a context for the id of a session.
type namedKey struct{}

// Named makes the next command that is run with ctx have an id that the caller
// has made up, by which it finds the logs of one that it hears no more of. An id
// that is not valid does nothing.
func Named(ctx context.Context, id string) context.Context {
	if !driver.ValidID(id) {
		return ctx
	}
	return context.WithValue(ctx, namedKey{}, id)
}

func nameOf(ctx context.Context) string {
	if id, ok := ctx.Value(namedKey{}).(string); ok {
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
		m: m, front: front, started: time.Now(), done: make(chan struct{}),
		calls: [2]func([]byte) error{cmd.OnStdout, cmd.OnStderr},
		outs:  []*output{newOutput(m.logs, id+".stdout", maxOutput, !front)},
	}
	if cmd.TTY == nil {
		s.outs = append(s.outs, newOutput(m.logs, id+".stderr", maxOutput, !front))
	}
	s.info = driver.SessionInfo{
		ID: id, Argv: cmd.Argv, Script: cmd.Script, Dir: cmd.Dir, TTY: cmd.TTY != nil,
		Started: s.started, Labels: cmd.Labels,
	}
	return s
}

// launch starts the child. After an error nothing is left of it.
func (m *Manager) launch(s *session, spec *Spec, cmd *driver.Command) (err error) {
	var theirs []*os.File // the child's ends
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
		err = s.plumbTTY(spec, cmd, &theirs)
	} else {
		err = s.plumbPipes(spec, cmd, &theirs)
	}
	if err != nil {
		return fmt.Errorf("process: start %q: %w: %w", spec.Argv[0], codeOf(err), err)
	}
	if s.grip, err = m.opts.Tree.Plant(spec); err != nil {
		return err
	}
	if err = m.fork(s, spec); err != nil {
		s.grip.Release()
	}
	return err
}

// fork starts the child and makes it known in one step, as the reaper sees it.
func (m *Manager) fork(s *session, spec *Spec) error {
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

// plumbPipes gives the child a pipe for each of its outputs, and one for its
// input if it has any.
func (s *session) plumbPipes(spec *Spec, cmd *driver.Command, theirs *[]*os.File) error {
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

// plumbTTY makes a terminal the child's input and both of its outputs.
func (s *session) plumbTTY(spec *Spec, cmd *driver.Command, theirs *[]*os.File) error {
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

// arm lets time and context end the command, and standard input begin.
func (s *session) arm(ctx context.Context, wall time.Duration, cmd *driver.Command) {
	if wall > 0 {
		ran := make(chan struct{})
		grace := cmd.Grace
		timer := time.AfterFunc(wall, func() {
			defer close(ran)
			s.kill(driver.CauseTimeout, grace) //nolint:errcheck // the result tells
		})
		s.timer = stopper{timer.Stop, ran}
	}
	if !cmd.Detached && ctx.Done() != nil {
		ran := make(chan struct{})
		stop := context.AfterFunc(ctx, func() {
			defer close(ran)
			s.kill(driver.CauseCanceled, 0) //nolint:errcheck // the result tells
		})
		s.watch = stopper{stop, ran}
	}
	if cmd.TTY != nil && cmd.Stdin == nil && !cmd.Interactive {
		cmd.Stdin = strings.NewReader("") // types end-of-file
	}
	if cmd.Stdin != nil {
		r, ctx := cmd.Stdin, context.WithoutCancel(ctx)
		s.m.wg.Go(func() { s.feed(ctx, r) }) // the session itself is counted, so Close has not seen the end
	}
}

// conclude leaves the result where it can be found, and forgets a foreground
// command whose result holds everything.
func (s *session) conclude() {
	m := s.m
	keep := !s.front
	if !s.front {
		s.result.Session = s.info.ID
	} else {
		r := s.full()
		if keep = r.StdoutDropped+r.StderrDropped > 0 && m.opts.LogDir != ""; keep {
			s.result.Session, r.Session = s.info.ID, s.info.ID
		}
		s.final = &r
	}
	if keep {
		var xs [2]extent
		for i, o := range s.outs {
			xs[i] = o.seal()
		}
		if m.journal != nil {
			m.journal.end(s, xs)
		}
	} else if s.noted {
		m.journal.forget(s.info.ID)
		for _, o := range s.outs {
			o.remove()
		}
	}
	m.mu.Lock()
	delete(m.pids, s.child.PID)
	m.running--
	if keep {
		m.scheduleLocked()
	} else {
		delete(m.sessions, s.info.ID)
	}
	m.mu.Unlock()
	close(s.done)
	if m.reaper != nil {
		m.reaper.poke()
	}
	m.wg.Done()
}
