package workspacetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// procs adds a plain shell to dirs, on which the checks of Shell are tried. It
// finds the processes of a session by a mark in their environment.
type procs struct {
	*dirs
	wrong   procDefects
	started func(id string)
}

// procDefects are the ways in which the shell can be wrong.
type procDefects struct {
	killsOne        bool // and not the tree
	repeatsPoll     bool // returns what was polled again
	dialsHost       bool // reaches every port of the loopback
	leaksEnv        bool // the host's environment
	hidesDrop       bool // truncates without saying
	exitIsError     bool // a non-zero exit
	losesPartial    bool // output at a time-out
	logMovesPoll    bool // reading the log moves the cursor
	sharedAttach    bool // sessions of other workspaces can be attached to
	claimsIsolation bool // says that it isolates
	claimsOffline   bool // says that nothing can be reached
	buildsAll       bool // also what the spec does not want
	takesClaims     bool // resolves a ref with any capabilities
}

// everybody holds the sessions of all workspaces, for sharedAttach.
var everybody = map[string]*proc{}

func (p procs) Open(ctx context.Context, spec driver.Spec) (*driver.Workspace, error) {
	want := spec.Want
	spec.Want = nil
	d, err := p.dirs.Open(ctx, spec)
	if d, err = p.equip(d, spec.Policy.Env, err); p.wrong.buildsAll {
		return d, err
	}
	return d.Only(want), err
}

func (p procs) Resolve(ctx context.Context, ref driver.Ref) (*driver.Workspace, error) {
	caps := ref.Capabilities
	ref.Capabilities = driver.NewCapabilities(driver.CapFS)
	d, err := p.dirs.Resolve(ctx, ref)
	d, err = p.equip(d, nil, err)
	if !p.wrong.takesClaims {
		ref.Capabilities = caps
		err = errors.Join(err, driver.CheckCapabilities(ref, driver.NewCapabilities(driver.CapFS, driver.CapShell)))
	}
	if err != nil {
		return nil, err
	}
	return d.Only(caps), nil
}

func (p procs) equip(d *driver.Workspace, env map[string]string, err error) (*driver.Workspace, error) {
	if err != nil {
		return nil, err
	}
	sh := &procShell{wrong: p.wrong, started: p.started, dir: d.FS.Files.(*dirFiles).dir, env: env, sessions: map[string]*proc{}}
	d.Shell = &driver.Shell{Starter: sh, Run: sh.run, Attach: sh.attach, Sessions: sh.list}
	d.Ref.Capabilities = driver.NewCapabilities(driver.CapFS, driver.CapShell)
	d.Traits.Network, d.Traits.Streaming = driver.NetworkOpen, true
	if p.wrong.claimsIsolation {
		d.Traits.Isolation = driver.IsolationNamespaces
	}
	if p.wrong.claimsOffline {
		d.Traits.Network = driver.NetworkNone
	}
	if p.wrong.sharedAttach {
		sh.sessions = everybody
	}
	if p.wrong.dialsHost {
		d.Shell.Dial = func(ctx context.Context, port int) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort("localhost", strconv.Itoa(port)))
		}
	}
	destroy := d.Life.Destroy
	d.Life.Destroy = func(ctx context.Context) error {
		sh.mu.Lock()
		running := slices.Collect(maps.Values(sh.sessions))
		sh.mu.Unlock()
		for _, s := range running {
			s.end(driver.CauseDestroyed, 0)
			<-s.done
		}
		return destroy(ctx)
	}
	d.Traits.ReadOnly = driver.Enforcement{Reason: "processes write as they like"}
	return d, nil
}

type procShell struct {
	wrong procDefects
	// started is told of each session whose tree a defect leaves behind.
	started func(id string)
	dir     string
	env     map[string]string

	mu       sync.Mutex
	sessions map[string]*proc
}

type proc struct {
	shell *procShell
	id    string
	cmd   driver.Command
	exec  *exec.Cmd
	stdin io.WriteCloser
	done  chan struct{}
	start time.Time

	mu            sync.Mutex
	stdout        []byte
	stderr        []byte
	polled, perr  int
	cause         driver.Cause
	code          int
	signal        string
	callbackError []string
}

func (s *procShell) Start(_ context.Context, cmd driver.Command) (*driver.Session, error) {
	if (len(cmd.Argv) == 0) == (cmd.Script == "") || cmd.Interactive && cmd.Stdin != nil || strings.Contains(strings.Join(cmd.Argv, ""), "\x00") {
		return nil, fmt.Errorf("procs: start: %w", fault.InvalidArgument)
	}
	argv := cmd.Argv
	if cmd.Script != "" {
		argv = []string{"bash", "-c", cmd.Script}
	}
	dir := filepath.Join(s.dir, cmd.Dir)
	if _, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("procs: start: %w", fault.NotFound)
	}
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return nil, fmt.Errorf("procs: start %s: %w", argv[0], fault.NotFound)
	}
	p := &proc{shell: s, id: driver.NewID(), cmd: cmd, done: make(chan struct{}), start: time.Now()}
	p.exec = &exec.Cmd{Path: path, Args: argv, Dir: dir, Env: s.environ(cmd, p.id), Stdin: cmd.Stdin, SysProcAttr: &syscall.SysProcAttr{Setpgid: true}}
	p.exec.WaitDelay = 10 * time.Minute
	if s.wrong.killsOne { // others hold the pipes, and are not killed
		p.exec.WaitDelay = 5 * time.Second
	}
	p.exec.Stdout, p.exec.Stderr = &sink{p, &p.stdout, cmd.OnStdout}, &sink{p, &p.stderr, cmd.OnStderr}
	if cmd.Interactive {
		if p.stdin, err = p.exec.StdinPipe(); err != nil {
			return nil, fmt.Errorf("procs: start: %w: %w", fault.Unavailable, err)
		}
	}
	if err := p.exec.Start(); err != nil {
		return nil, fmt.Errorf("procs: start: %w: %w", fault.Unavailable, err)
	}
	s.mu.Lock()
	s.sessions[p.id] = p
	s.mu.Unlock()
	if s.wrong.killsOne {
		s.started(p.id)
	}
	go p.wait() // every Wait, Close and Destroy waits for it through done
	return p.session(), nil
}

const markEnv = "PROCS_SESSION="

func (s *procShell) environ(cmd driver.Command, id string) []string {
	env := map[string]string{}
	if !cmd.Clean {
		env["PATH"] = os.Getenv("PATH")
		maps.Copy(env, s.env)
	}
	maps.Copy(env, cmd.Env)
	var list []string
	if s.wrong.leaksEnv {
		list = os.Environ()
	}
	for k, v := range env {
		list = append(list, k+"="+v)
	}
	if !cmd.Clean { // a clean one can't be marked
		list = append(list, markEnv+id)
	}
	return list
}

type sink struct {
	p    *proc
	to   *[]byte
	call func([]byte) error
}

func (s *sink) Write(data []byte) (int, error) {
	s.p.mu.Lock()
	*s.to = append(*s.to, data...)
	s.p.mu.Unlock()
	if s.call != nil {
		if err := s.call(bytes.Clone(data)); err != nil {
			s.p.mu.Lock()
			s.p.callbackError = append(s.p.callbackError, err.Error())
			s.p.mu.Unlock()
		}
	}
	return len(data), nil
}

func (p *proc) wait() {
	defer close(p.done)
	if p.cmd.Timeout > 0 {
		timer := time.AfterFunc(p.cmd.Timeout, func() { p.end(driver.CauseTimeout, p.cmd.Grace) })
		defer timer.Stop()
	}
	err := p.exec.Wait()
	p.killAll(syscall.SIGKILL)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.code = p.exec.ProcessState.ExitCode()
	var exit *exec.ExitError
	if status, ok := p.exec.ProcessState.Sys().(syscall.WaitStatus); ok && errors.As(err, &exit) && status.Signaled() {
		p.code, p.signal = 128+int(status.Signal()), "SIG"+map[syscall.Signal]string{syscall.SIGKILL: "KILL", syscall.SIGTERM: "TERM"}[status.Signal()]
	}
}

// end ends the tree for a reason.
func (p *proc) end(cause driver.Cause, grace time.Duration) {
	p.mu.Lock()
	select {
	case <-p.done:
	default:
		if p.cause == "" {
			p.cause = cause
		}
	}
	p.mu.Unlock()
	if grace > 0 {
		p.killAll(syscall.SIGTERM)
		select {
		case <-p.done:
			return
		case <-time.After(grace):
		}
	}
	p.killAll(syscall.SIGKILL)
}

// killAll signals every process that carries the mark until none is left.
func (p *proc) killAll(sig syscall.Signal) {
	if p.shell.wrong.killsOne {
		p.exec.Process.Signal(sig)
		return
	}
	signalMarked(p.id, sig)
}

// signalMarked signals the processes of a session; SIGKILL until none is left.
func signalMarked(id string, sig syscall.Signal) {
	for {
		found := false
		dirs, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, name := range dirs {
			data, err := os.ReadFile(name)
			if err != nil || !bytes.Contains(data, []byte(markEnv+id)) {
				continue
			}
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil {
				found = true
				syscall.Kill(pid, sig)
			}
		}
		if !found || sig != syscall.SIGKILL {
			return
		}
	}
}

func (p *proc) session() *driver.Session { return &driver.Session{Process: p, Log: p.log} }
func (p *proc) ID() string               { return p.id }

func (p *proc) Poll(_ context.Context, limit int64) (driver.Poll, error) {
	running := true
	select {
	case <-p.done:
		running = false
	default:
	}
	if limit == 0 {
		limit = 64 << 10
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.stdout[p.polled:min(len(p.stdout), p.polled+int(limit))]
	errs := p.stderr[p.perr:min(len(p.stderr), p.perr+int(limit)-len(out))]
	if p.shell.wrong.repeatsPoll {
		return driver.Poll{Stdout: bytes.Clone(out), Running: running}, nil
	}
	p.polled, p.perr = p.polled+len(out), p.perr+len(errs)
	return driver.Poll{Stdout: bytes.Clone(out), Stderr: bytes.Clone(errs), Running: running}, nil
}

func (p *proc) Write(_ context.Context, data []byte) error {
	if _, err := p.stdin.Write(data); err != nil {
		return fmt.Errorf("procs: write: %w: %w", fault.WrongState, err)
	}
	return nil
}

func (p *proc) CloseStdin(context.Context) error { return p.stdin.Close() }

func (p *proc) Kill(_ context.Context, grace time.Duration) error {
	p.end(driver.CauseKilled, grace)
	return nil
}

func (p *proc) Wait(ctx context.Context) (driver.Result, error) {
	select {
	case <-p.done:
		return p.judged()
	default:
	}
	select {
	case <-p.done:
		return p.judged()
	case <-ctx.Done():
		return driver.Result{}, ctx.Err()
	}
}

func (p *proc) judged() (driver.Result, error) {
	res := p.result()
	if p.shell.wrong.exitIsError && res.ExitCode != 0 {
		return res, fmt.Errorf("procs: exit status %d: %w", res.ExitCode, fault.Unavailable)
	}
	return res, nil
}

func (p *proc) result() driver.Result {
	p.mu.Lock()
	defer p.mu.Unlock()
	most := int(p.cmd.MaxOutput)
	if most == 0 {
		most = 1 << 20
	}
	res := driver.Result{ExitCode: p.code, Signal: p.signal, Cause: p.cause, Session: p.id, CallbackErrors: p.callbackError}
	res.Stdout, res.StdoutDropped = headTail(p.stdout, most)
	res.Stderr, res.StderrDropped = headTail(p.stderr, most)
	if p.shell.wrong.hidesDrop {
		res.StdoutDropped = 0
	}
	if p.shell.wrong.losesPartial && res.Cause == driver.CauseTimeout {
		res.Stdout, res.Stderr = nil, nil
	}
	return res
}

func headTail(data []byte, most int) ([]byte, int64) {
	if len(data) <= most {
		return bytes.Clone(data), 0
	}
	return slices.Concat(data[:most/2], data[len(data)-(most-most/2):]), int64(len(data) - most)
}

func (p *proc) State(context.Context) (driver.SessionInfo, error) {
	info := driver.SessionInfo{ID: p.id, Argv: p.cmd.Argv, Script: p.cmd.Script, Started: p.start, Running: true, Labels: p.cmd.Labels}
	select {
	case <-p.done:
		res := p.result()
		res.Stdout, res.Stderr = nil, nil
		info.Running, info.Result = false, &res
	default:
	}
	return info, nil
}

func (p *proc) Close(context.Context) error {
	p.end(driver.CauseKilled, 0)
	<-p.done
	p.shell.mu.Lock()
	defer p.shell.mu.Unlock()
	delete(p.shell.sessions, p.id)
	return nil
}

func (p *proc) log(_ context.Context, stream driver.Stream, offset, limit int64) (driver.LogChunk, error) {
	if offset < 0 || limit < 0 {
		return driver.LogChunk{}, fmt.Errorf("procs: log: %w", fault.InvalidArgument)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	data := p.stdout
	if stream == driver.Stderr {
		data = p.stderr
	}
	if p.shell.wrong.logMovesPoll {
		p.polled = len(p.stdout)
	}
	size := int64(len(data))
	end := size
	if limit > 0 {
		end = min(size, offset+limit)
	}
	return driver.LogChunk{Data: bytes.Clone(data[min(offset, size):end]), Offset: offset, Next: end, Size: size}, nil
}

func (s *procShell) run(ctx context.Context, cmd driver.Command) (driver.Result, error) {
	session, err := s.Start(ctx, cmd)
	if err != nil {
		return driver.Result{}, err
	}
	p := session.Process.(*proc)
	select {
	case <-p.done:
	case <-ctx.Done():
		p.end(driver.CauseCanceled, 0)
		<-p.done
	}
	return p.judged()
}

func (s *procShell) attach(_ context.Context, id string) (*driver.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.sessions[id]
	if !ok {
		return nil, fmt.Errorf("procs: attach %q: %w", id, fault.NotFound)
	}
	return p.session(), nil
}

func (s *procShell) list(ctx context.Context) ([]driver.SessionInfo, error) {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.sessions))
	s.mu.Unlock()
	var infos []driver.SessionInfo
	for _, p := range all {
		info, _ := p.State(ctx)
		infos = append(infos, info)
	}
	return infos, nil
}

func procHarness(wrong procDefects) Harness {
	return Harness{Leftovers: leftovers, Provider: func(t testing.TB, dir string) driver.Provider {
		return procs{&dirs{dir: dir}, wrong, func(id string) {
			t.Cleanup(func() { signalMarked(id, syscall.SIGKILL) })
		}}
	}}
}

// TestShell tries the checks of processes, and only those, on a plain shell.
func TestShell(t *testing.T) {
	sample := newSample(t, procHarness(procDefects{}))
	for _, check := range slices.Concat(shellChecks, isolationChecks) {
		t.Run(check.Name, func(t *testing.T) {
			env := sample.newEnv(t)
			if reason, ok := env.needsMet(check); !ok {
				t.Skip("skipped: " + reason)
			}
			check.Func(t, env)
		})
	}
}

func TestRefuteShell(t *testing.T) {
	for _, tt := range []struct {
		name  string
		wrong procDefects
		check string
	}{
		{"kills one at a time-out", procDefects{killsOne: true}, "Shell/timeout-ends-the-whole-tree"},
		{"kills one", procDefects{killsOne: true}, "Shell/kill-ends-the-whole-tree"},
		{"repeats polls", procDefects{repeatsPoll: true}, "Shell/poll-returns-each-byte-once"},
		{"builds all", procDefects{buildsAll: true}, "Capabilities/not-declared-are-absent"},
		{"takes claims", procDefects{takesClaims: true}, "Capabilities/of-a-ref-that-can't-be-built-are-refused"},
		{"leaks environment", procDefects{leaksEnv: true}, "Shell/environment-holds-nothing-of-the-host"},
		{"unclean environment", procDefects{leaksEnv: true}, "Shell/environment-is-what-was-given"},
		{"hides what it dropped", procDefects{hidesDrop: true}, "Shell/truncation-is-counted"},
		{"exit is an error", procDefects{exitIsError: true}, "Shell/a-non-zero-exit-is-a-result"},
		{"loses partial output", procDefects{losesPartial: true}, "Shell/timeout-returns-partial-output"},
		{"log moves poll", procDefects{logMovesPoll: true}, "Shell/log-is-read-from-any-offset"},
		{"attaches across workspaces", procDefects{sharedAttach: true}, "Shell/attach-finds-a-session"},
		{"claims isolation, read", procDefects{claimsIsolation: true}, "Isolation/host-files-can't-be-read"},
		{"claims isolation, write", procDefects{claimsIsolation: true}, "Isolation/host-files-can't-be-written"},
		{"claims isolation, processes", procDefects{claimsIsolation: true}, "Isolation/host-processes-can't-be-seen"},
		{"claims isolation, sessions", procDefects{claimsIsolation: true}, "Isolation/other-workspaces-can't-be-reached"},
		{"dials the host", procDefects{dialsHost: true}, "Dial/ports-of-the-host-are-refused"},
		{"dials other workspaces", procDefects{dialsHost: true}, "Dial/ports-of-other-workspaces-are-refused"},
		{"a refused port has no code", procDefects{dialsHost: true}, "Dial/a-port-that-nothing-listens-on-is-refused"},
		{"claims to be offline", procDefects{claimsOffline: true}, "Network/nothing-is-reached-without-a-policy"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := record(t, procHarness(tt.wrong), tt.check)
			if r.skipped != "" {
				t.Fatalf("%s was skipped: %s", tt.check, r.skipped)
			}
			if !r.Failed() {
				t.Errorf("%s passes a shell that is wrong", tt.check)
			}
			for _, text := range r.failures[:min(3, len(r.failures))] {
				t.Logf("found: %.300s", text)
			}
		})
	}
}
