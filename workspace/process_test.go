package workspace

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/workspace/driver"
)

// hostShell runs real processes of this host in a directory, with just enough
// around them to stand in for the shell of a provider.
type hostShell struct {
	dir     string
	starts  atomic.Int32
	evict   atomic.Int32 // Starts to answer Evicted first
	lose    atomic.Bool  // Wait answers Evicted
	mu      sync.Mutex
	started map[string]*driver.Session
}

// newShell returns a handle on a workspace with files in memory and a shell of
// this host.
func newShell(t *testing.T, opts *Options, mods ...func(*driver.Workspace)) (*Workspace, *hostShell) {
	t.Helper()
	h := &hostShell{dir: t.TempDir(), started: map[string]*driver.Session{}}
	d := openMemory(t, new(memory.Provider))
	d.Shell = &driver.Shell{Starter: h, Attach: h.attach, Sessions: h.sessions}
	d.Ref.Capabilities = driver.NewCapabilities(driver.CapFS, driver.CapShell)
	for _, mod := range mods {
		mod(d)
	}
	return newHandle(t, d, opts), h
}

func (h *hostShell) attach(_ context.Context, id string) (*driver.Session, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s, ok := h.started[id]; ok {
		return s, nil
	}
	return nil, fmt.Errorf("session %s: %w", id, fault.NotFound)
}

func (h *hostShell) sessions(context.Context) (list []driver.SessionInfo, _ error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id := range h.started {
		list = append(list, driver.SessionInfo{ID: id})
	}
	return list, nil
}

func (h *hostShell) Start(ctx context.Context, cmd driver.Command) (*driver.Session, error) {
	if h.evict.Add(-1) >= 0 {
		return nil, fault.Evicted
	}
	n := h.starts.Add(1)
	argv := cmd.Argv
	if cmd.Script != "" {
		argv = []string{"bash", "-c", cmd.Script}
	}
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.Dir = filepath.Join(h.dir, cmd.Dir)
	if !cmd.Clean {
		c.Env = os.Environ()
	}
	for key, value := range cmd.Env {
		c.Env = append(c.Env, key+"="+value)
	}
	p := &hostProcess{id: fmt.Sprint("s", n), shell: h, cmd: c, ended: make(chan struct{}), timeout: cmd.Timeout}
	c.Stdin, c.Stdout, c.Stderr = cmd.Stdin, p.stream(&p.res.Stdout, cmd.OnStdout), p.stream(&p.res.Stderr, cmd.OnStderr)
	if cmd.Interactive {
		p.stdin, _ = c.StdinPipe()
	}
	if err := c.Start(); err != nil {
		return nil, fmt.Errorf("start: %w: %w", fault.NotFound, err)
	}
	go p.run(ctx)
	s := &driver.Session{Process: p}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.started[p.id] = s
	return s, nil
}

type hostProcess struct {
	id      string
	shell   *hostShell
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	ended   chan struct{}
	timeout time.Duration

	mu    sync.Mutex
	res   driver.Result
	cause driver.Cause
}

// stream keeps what a stream yields, and passes it on.
func (p *hostProcess) stream(keep *[]byte, call func([]byte) error) io.Writer {
	return writerFunc(func(data []byte) (int, error) {
		p.mu.Lock()
		*keep = append(*keep, data...)
		p.mu.Unlock()
		if call != nil {
			if err := call(bytes.Clone(data)); err != nil {
				p.mu.Lock()
				p.res.CallbackErrors = append(p.res.CallbackErrors, err.Error())
				p.mu.Unlock()
			}
		}
		return len(data), nil
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func (p *hostProcess) run(ctx context.Context) {
	defer close(p.ended)
	if p.timeout > 0 {
		timer := time.AfterFunc(p.timeout, func() { p.end(driver.CauseTimeout) })
		defer timer.Stop()
	}
	err := p.cmd.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.res.ExitCode, p.res.Session, p.res.Cause = p.cmd.ProcessState.ExitCode(), p.id, p.cause
	if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		p.res.ExitCode = 128 + int(status.Signal())
	}
	if err != nil && ctx.Err() != nil && p.res.Cause == "" {
		p.res.Cause = driver.CauseCanceled
	}
}

func (p *hostProcess) end(cause driver.Cause) {
	p.mu.Lock()
	p.cause = cause
	p.mu.Unlock()
	syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
}

func (p *hostProcess) ID() string { return p.id }

func (p *hostProcess) Poll(context.Context, int64) (driver.Poll, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	poll := driver.Poll{Stdout: p.res.Stdout, Running: true}
	select {
	case <-p.ended:
		poll.Running = false
	default:
	}
	return poll, nil
}

func (p *hostProcess) Write(_ context.Context, data []byte) error {
	if _, err := p.stdin.Write(data); err != nil {
		return fmt.Errorf("%w: %w", fault.WrongState, err)
	}
	return nil
}

func (p *hostProcess) CloseStdin(context.Context) error { return p.stdin.Close() }

func (p *hostProcess) Kill(context.Context, time.Duration) error {
	p.end(driver.CauseKilled)
	return nil
}

func (p *hostProcess) Wait(ctx context.Context) (driver.Result, error) {
	if p.shell.lose.Load() {
		return driver.Result{}, fault.Evicted
	}
	select {
	case <-p.ended:
		return p.res, nil
	case <-ctx.Done():
		return driver.Result{}, ctx.Err()
	}
}

func (p *hostProcess) State(context.Context) (driver.SessionInfo, error) {
	return driver.SessionInfo{ID: p.id}, nil
}

func (p *hostProcess) Close(context.Context) error {
	select {
	case <-p.ended:
	default:
		p.end(driver.CauseKilled)
		<-p.ended
	}
	p.shell.mu.Lock()
	defer p.shell.mu.Unlock()
	delete(p.shell.started, p.id)
	return nil
}

// running reports whether a command that was started has not ended.
func (h *hostShell) running() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.ContainsFunc(sessionsOf(h.started), func(p *hostProcess) bool {
		select {
		case <-p.ended:
			return false
		default:
			return true
		}
	})
}

func sessionsOf(m map[string]*driver.Session) (list []*hostProcess) {
	for _, s := range m {
		list = append(list, s.Process.(*hostProcess))
	}
	return list
}
