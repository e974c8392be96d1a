package trpcagent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"trpc.group/trpc-go/trpc-agent-go/codeexecutor"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// maxKept bounds the output of a session that is kept.
const maxKept = 8 << 20

// callTime bounds a call on a session.
const callTime = 30 * time.Second

// StartProgram starts a program as a session. It runs until it ends, times out or the
// workspace is destroyed, independently of ctx.
func (e *Executor) StartProgram(ctx context.Context, ws codeexecutor.Workspace, spec codeexecutor.InteractiveProgramSpec) (codeexecutor.ProgramSession, error) {
	p, err := e.findWorkspace(ws)
	if err != nil {
		return nil, err
	}
	cmd := e.makeCommand(p, spec.RunProgramSpec)
	cmd.Interactive = true
	if spec.TTY {
		cmd.TTY = &driver.Size{Cols: 80, Rows: 24}
	}
	if cmd, err = p.Command(ctx, cmd); err != nil {
		return nil, e.markStale(p, err)
	}
	life := context.WithoutCancel(ctx)
	s, err := p.ws.Start(life, cmd)
	if err != nil {
		return nil, e.markStale(p, err)
	}
	session := &session{s: s, ctx: life}
	if spec.Stdin != "" {
		if err := session.Write(spec.Stdin, false); err != nil {
			return nil, errors.Join(e.markStale(p, err), session.Close())
		}
	}
	return session, nil
}

// A session is a started program. Offsets count bytes.
type session struct {
	s   *workspace.Session
	ctx context.Context // trpc-agent-go's methods have none

	mu      sync.Mutex
	kept    []byte // guarded by mu
	base    int    // guarded by mu; of the first byte that is kept
	cursor  int    // guarded by mu; of what Poll has not returned
	drained bool   // guarded by mu; the program ended and all of its output is kept
}

// A Controller has methods that trpc-agent-go's interfaces lack. Every session of
// StartProgram is one.
type Controller interface {
	CloseStdin() error           // the program reads end-of-file
	Signal(name string) error    // such as "SIGINT", to the foreground
	Resize(cols, rows int) error // of a terminal
}

var (
	_ Controller                         = (*session)(nil)
	_ codeexecutor.ProgramSession        = (*session)(nil)
	_ codeexecutor.ProgramStateProvider  = (*session)(nil)
	_ codeexecutor.ProgramResultProvider = (*session)(nil)
)

// ID identifies the session.
func (s *session) ID() string { return s.s.ID() }

func (s *session) callContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(s.ctx, callTime)
}

// drainLocked reads new output, each byte once.
func (s *session) drainLocked() {
	ctx, cancel := s.callContext()
	defer cancel()
	for !s.drained {
		poll, err := s.s.Poll(ctx, 1<<20)
		if err != nil {
			if s.drained = isSessionGone(err); s.drained {
				s.kept = append(s.kept, "\n["+err.Error()+"]\n"...)
			}
			return
		}
		s.kept = append(s.kept, elided(int(poll.Dropped))...)
		s.kept = append(append(s.kept, poll.Stdout...), poll.Stderr...)
		if len(poll.Stdout)+len(poll.Stderr) == 0 {
			s.drained = !poll.Running
			break
		}
	}
	if extra := len(s.kept) - maxKept; extra > 0 {
		s.kept = append([]byte(nil), s.kept[extra:]...)
		s.base += extra
	}
}

// elided returns a line in place of n bytes of output that are not kept.
func elided(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf("\n... (output truncated, %d bytes elided)\n", n)
}

// isSessionGone reports whether an error means that the session no longer exists: its
// workspace is gone, or its guest.
func isSessionGone(err error) bool {
	switch fault.Of(err) {
	case fault.NotFound, fault.Evicted, fault.Failed, fault.WrongState:
		return true
	}
	return false
}

// Poll returns output that no earlier Poll returned: at most limit lines. The status is
// exited after all output was returned.
func (s *session) Poll(limit *int) codeexecutor.ProgramPoll {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drainLocked()
	missing := s.base - s.cursor
	s.cursor = max(s.cursor, s.base)
	out := firstLines(s.kept[s.cursor-s.base:], limit)
	poll := codeexecutor.ProgramPoll{
		Status: codeexecutor.ProgramStatusRunning, Output: elided(missing) + out, Offset: s.cursor, NextOffset: s.cursor + len(out),
	}
	s.cursor = poll.NextOffset
	if s.drained && s.cursor == s.base+len(s.kept) {
		poll.Status, poll.ExitCode = codeexecutor.ProgramStatusExited, s.exitCode()
	}
	return poll
}

// Log returns output from an offset on, and does not affect Poll.
func (s *session) Log(offset, limit *int) codeexecutor.ProgramLog {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drainLocked()
	asked := 0
	if offset != nil {
		asked = max(*offset, 0)
	}
	from := min(max(asked, s.base), s.base+len(s.kept))
	out := firstLines(s.kept[from-s.base:], limit)
	return codeexecutor.ProgramLog{Output: elided(s.base-asked) + out, Offset: from, NextOffset: from + len(out)}
}

// firstLines is the head of a text: at most limit lines, all of it where limit is
// nil or not positive.
func firstLines(text []byte, limit *int) string {
	if limit == nil || *limit <= 0 {
		return string(text)
	}
	at := 0
	for range *limit {
		n := bytes.IndexByte(text[at:], '\n')
		if n < 0 {
			return string(text)
		}
		at += n + 1
	}
	return string(text[:at])
}

func (s *session) exitCode() *int {
	ctx, cancel := s.callContext()
	defer cancel()
	info, err := s.s.State(ctx)
	if err != nil || info.Result == nil {
		unknown := -1
		return &unknown
	}
	return &info.Result.ExitCode
}

// Write writes to the program.
func (s *session) Write(data string, newline bool) error {
	if newline {
		data += "\n"
	}
	ctx, cancel := s.callContext()
	defer cancel()
	return s.s.Write(ctx, []byte(data))
}

// CloseStdin ends the program's input.
func (s *session) CloseStdin() error {
	ctx, cancel := s.callContext()
	defer cancel()
	return s.s.CloseStdin(ctx)
}

// Signal sends a signal.
func (s *session) Signal(name string) error {
	ctx, cancel := s.callContext()
	defer cancel()
	return s.s.Signal(ctx, name)
}

// Resize changes the size of a terminal.
func (s *session) Resize(cols, rows int) error {
	ctx, cancel := s.callContext()
	defer cancel()
	return s.s.Resize(ctx, workspace.Size{Cols: cols, Rows: rows})
}

// Kill ends the program and all that it started.
func (s *session) Kill(grace time.Duration) error {
	ctx, cancel := context.WithTimeout(s.ctx, callTime+grace)
	defer cancel()
	return s.s.Kill(ctx, grace)
}

// Close removes the session, and kills the program if it runs.
func (s *session) Close() error {
	ctx, cancel := s.callContext()
	defer cancel()
	s.mu.Lock()
	s.drainLocked()
	s.mu.Unlock()
	return s.s.Close(ctx)
}

// State reports whether the program runs, and does not affect Poll.
func (s *session) State() codeexecutor.ProgramState {
	ctx, cancel := s.callContext()
	defer cancel()
	info, err := s.s.State(ctx)
	if err != nil || !info.Running {
		state := codeexecutor.ProgramState{Status: codeexecutor.ProgramStatusExited}
		if info.Result != nil {
			state.ExitCode = &info.Result.ExitCode
		}
		return state
	}
	return codeexecutor.ProgramState{Status: codeexecutor.ProgramStatusRunning}
}

// RunResult returns the result of the program; zero while it runs.
func (s *session) RunResult() codeexecutor.RunResult {
	ctx, cancel := s.callContext()
	defer cancel()
	if info, err := s.s.State(ctx); err == nil && info.Running {
		return codeexecutor.RunResult{}
	}
	res, err := s.s.Wait(ctx)
	if err != nil {
		return codeexecutor.RunResult{ExitCode: -1, Stderr: "[" + err.Error() + "]\n"}
	}
	return runResult(res)
}
