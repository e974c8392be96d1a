package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/process"
	"github.com/croft-run/croft/internal/host/wsdir"
	"github.com/croft-run/croft/workspace/driver"
)

// processSet has the commands of workspaces that run as children of this process.
type processSet struct {
	mu   sync.Mutex
	byID map[string]*processes
}

// processes are those of one workspace, which its handles share.
type processes struct {
	handles int // guarded by processSet.mu

	mu      sync.Mutex       // held while the manager is made or closed
	manager *process.Manager // nil until it is needed
	policy  driver.Policy    // of the manager
	profile string           // file with the profile of isolated commands, "" without
}

// acquire returns the processes of a workspace for one more handle.
func (s *processSet) acquire(id string) *processes {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID == nil {
		s.byID = map[string]*processes{}
	}
	if s.byID[id] == nil {
		s.byID[id] = &processes{}
	}
	s.byID[id].handles++
	return s.byID[id]
}

// release ends the use by one handle, and with the last handle the commands.
func (s *processSet) release(ctx context.Context, id string, ps *processes) error {
	s.mu.Lock()
	ps.handles--
	last := ps.handles == 0
	if last && s.byID[id] == ps {
		delete(s.byID, id)
	}
	s.mu.Unlock()
	if !last {
		return nil
	}
	return ps.end(ctx)
}

// find returns the processes of a workspace that is open, else nil.
func (s *processSet) find(id string) *processes {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byID[id]
}

// end kills the commands and waits for their end.
func (ps *processes) end(ctx context.Context) error {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.endLocked(ctx)
}

func (ps *processes) endLocked(ctx context.Context) error {
	if ps.manager == nil {
		return nil
	}
	if err := ps.manager.Close(ctx); err != nil {
		return fmt.Errorf("local: end the commands: %w", err)
	}
	ps.manager = nil
	if ps.profile != "" {
		os.Remove(ps.profile) // it may be gone with the workspace, which removes it
	}
	return nil
}

// A processRunner runs the commands of a handle as children of this process.
type processRunner struct {
	p  *Provider
	h  *wsdir.Handle
	id string

	*processes
	once sync.Once // closes
}

func (p *Provider) newProcessRunner(h *wsdir.Handle, m *wsdir.State) runner {
	return &processRunner{p: p, h: h, id: m.ID, processes: p.processes.acquire(m.ID)}
}

// module returns the commands of the workspace under its present policy.
func (r *processRunner) module(ctx context.Context) (*driver.Shell, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.h.Current(); err != nil { // Destroy ends the manager after this fails
		return nil, err
	}
	m := r.h.State()
	if r.manager == nil || !sameCommands(r.policy, m.Policy) {
		if err := r.endLocked(ctx); err != nil {
			return nil, err
		}
		manager, profile, err := r.p.newManager(ctx, &m)
		if err != nil {
			if gone := r.h.Current(); gone != nil {
				return nil, gone
			}
			return nil, err
		}
		r.manager, r.policy, r.profile = manager, m.Policy, profile
	}
	shell := r.manager.Module()
	run := shell.Run
	shell.Run = func(ctx context.Context, cmd driver.Command) (driver.Result, error) {
		cmd.Limits = cmd.Limits.LowerTo(m.Policy.Limits)
		res, err := run(ctx, cmd)
		return res, r.closedError(err)
	}
	shell.Starter = limitedStarter{r, shell.Starter, m.Policy.Limits}
	return shell, nil
}

// A limitedStarter lowers the limits of commands to those of the workspace.
type limitedStarter struct {
	r      *processRunner
	next   driver.Starter
	limits driver.Limits
}

// Start starts a command.
func (s limitedStarter) Start(ctx context.Context, cmd driver.Command) (*driver.Session, error) {
	cmd.Limits = cmd.Limits.LowerTo(s.limits)
	session, err := s.next.Start(ctx, cmd)
	return session, s.r.closedError(err)
}

// closedError returns why the manager is closed, if err says that it is.
func (r *processRunner) closedError(err error) error {
	if fault.Of(err) != fault.WrongState {
		return err
	}
	if gone := r.h.Current(); gone != nil {
		return gone
	}
	return err
}

// sameCommands reports whether commands run alike under two policies.
func sameCommands(p, q driver.Policy) bool {
	of := func(p driver.Policy) driver.Policy {
		return driver.Policy{Isolation: p.Isolation, Network: p.Network, Env: p.Env, Limits: p.Limits, ReadOnly: p.ReadOnly}
	}
	return of(p).Equal(of(q))
}

// newManager returns a manager of the commands of a workspace, and the file with their profile
// if they are isolated. While another process runs commands in the workspace, and has its
// logs, output is kept in memory.
func (p *Provider) newManager(ctx context.Context, m *wsdir.State) (_ *process.Manager, profile string, err error) {
	logs, err := makeLogDir(p.store.Dir(m.ID))
	if err != nil {
		return nil, "", err
	}
	env := baseEnv(m.Policy.Env)
	opts := &process.Options{Root: p.store.Files(m), LogDir: logs, BaseEnv: []string{}, Env: env, Tree: p.tree}
	if isolated(m.Policy) {
		if err := p.checkPolicy(ctx, m.Policy, driver.NewCapabilities(driver.CapShell)); err != nil {
			return nil, "", fmt.Errorf("local: run commands: %w", err)
		}
		belt, err := p.seatbelt.wrap(p, m, env)
		if err != nil {
			return nil, "", err
		}
		opts.Wrapper, profile = belt, belt.File
	}
	manager, err := process.New(opts)
	if fault.Of(err) == fault.Unavailable {
		opts.LogDir = ""
		manager, err = process.New(opts)
	}
	if err != nil {
		return nil, "", fmt.Errorf("local: run commands: %w", err)
	}
	return manager, profile, nil
}

// update ends commands that run under another policy.
func (r *processRunner) update(ctx context.Context, m *wsdir.State) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if sameCommands(r.policy, m.Policy) {
		return nil
	}
	return r.endLocked(ctx)
}

// ExpectEnd does nothing: endCommands ends the processes.
func (r *processRunner) ExpectEnd(context.Context) error { return nil }

// measure leaves out what is not known: which processes commands have started.
func (r *processRunner) measure(*driver.Metrics) {}

// close ends the commands with the last handle.
func (r *processRunner) close(ctx context.Context) (err error) {
	r.once.Do(func() { err = r.p.processes.release(ctx, r.id, r.processes) })
	return err
}

// endCommands ends what runs in the workspace of a directory, which has its .dead- name: the
// commands of this process, and the guest.
func (p *Provider) endCommands(ctx context.Context, dir string) error {
	var err error
	for part := range strings.SplitSeq(filepath.Base(dir), "-") {
		if ps := p.processes.find(part); ps != nil {
			err = ps.end(ctx)
		}
	}
	return errors.Join(err, endGuest(ctx, dir))
}

// ownSessions lists the sessions that run in a workspace as children of this process.
func (p *Provider) ownSessions(ctx context.Context, id string) ([]driver.SessionInfo, error) {
	ps := p.processes.find(id)
	if ps == nil {
		return nil, nil
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.manager == nil {
		return nil, nil
	}
	list, err := ps.manager.Sessions(ctx)
	return onlyRunning(list), err
}

func onlyRunning(list []driver.SessionInfo) []driver.SessionInfo {
	return slices.DeleteFunc(list, func(s driver.SessionInfo) bool { return !s.Running })
}
