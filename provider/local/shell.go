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
	"github.com/croft-run/croft/internal/host/cmdpolicy"
	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/internal/host/wsdir"
	"github.com/croft-run/croft/workspace/driver"
)

// Names in the directory of a workspace.
const (
	logName = "log" // logs of sessions
	tmpName = "tmp" // temporary directory of isolated commands
)

// A runner runs the commands of a handle: in a guest, or as children of this process. Its
// methods may be called from many goroutines.
type runner interface {
	// module returns the shell for one call, and starts what that needs.
	module(ctx context.Context) (*driver.Shell, error)

	// update ends what runs under another policy than that of m.
	update(ctx context.Context, m *wsdir.State) error

	// ExpectEnd says that the workspace is about to be destroyed.
	ExpectEnd(ctx context.Context) error

	measure(out *driver.Metrics)
	close(ctx context.Context) error
}

// A shell runs the commands of a handle. Package cmdpolicy checks each command before the
// runner gets it.
type shell struct {
	runner
	p   *Provider
	h   *wsdir.Handle
	dir string // of the files

	mu      sync.Mutex
	root    *files.Root   // of the files, for the command policy; nil until it is needed
	checked *driver.Shell // the runner behind the command policy; nil until it is needed
	closed  bool
}

// newShell returns the shell of a handle. It starts nothing yet.
func (p *Provider) newShell(h *wsdir.Handle, m *wsdir.State) *shell {
	s := &shell{p: p, h: h, dir: p.store.Files(m)}
	if p.inProcess {
		s.runner = p.newProcessRunner(h, m)
	} else {
		s.runner = p.newGuestRunner(h, m)
	}
	return s
}

func (s *shell) shellModule() *driver.Shell { return s.p.shellBy(s.policyShell) }

// shellBy returns a shell whose calls go to the module that ask returns. Without a guest
// there is no Dial.
func (p *Provider) shellBy(ask func(ctx context.Context) (*driver.Shell, error)) *driver.Shell {
	out := driver.ForwardShell(driver.Ask(ask))
	if p.inProcess {
		out.Dial = nil
	}
	return out
}

// policyShell returns the module that checks commands by the command policy before the runner
// gets them.
func (s *shell) policyShell(context.Context) (*driver.Shell, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, fmt.Errorf("local: the workspace is closed: %w", fault.WrongState)
	case s.checked != nil:
		return s.checked, nil
	}
	var err error
	if s.root, err = files.Open(s.dir, nil); err != nil {
		if gone := s.h.Current(); gone != nil {
			return nil, gone
		}
		return nil, fmt.Errorf("local: run a command: %w", err)
	}
	rules := cmdpolicy.Local()
	m := s.h.State()
	opts := optionsOf(&m)
	rules.Root, rules.Files, rules.Env.Except = s.dir, s.root, slices.Concat(s.p.allowEnv, opts.AllowEnv)
	rules.Paths.Allow = append(rules.Paths.Allow, opts.Allow...)
	if dir, err := filepath.EvalSymlinks(s.p.store.Dir(m.ID).Path); err == nil && isolated(m.Policy) {
		rules.Paths.Allow = append(rules.Paths.Allow, filepath.Join(dir, tmpName)+"/")
	}
	policy, err := cmdpolicy.New(rules)
	if err != nil {
		return nil, errors.Join(err, s.root.Close())
	}
	s.checked = policy.Module(s.p.shellBy(s.currentShell))
	return s.checked, nil
}

// currentShell returns the module of the runner, unless the policy forbids commands.
func (s *shell) currentShell(ctx context.Context) (*driver.Shell, error) {
	if err := s.h.Current(); err != nil {
		return nil, err
	}
	if s.h.State().Policy.ReadOnly {
		return nil, fmt.Errorf("local: run a command: %w: the workspace is read-only, and without isolation a command could write", fault.PermissionDenied)
	}
	if m := s.h.State(); !s.p.inProcess && isolated(m.Policy) {
		return nil, fmt.Errorf("local: run a command: %w", s.p.isolationError(ctx, m.Policy))
	}
	return s.module(ctx)
}

// passedEnv are the variables of this process that commands get, besides LC_*.
var passedEnv = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TERM", "TMPDIR", "TZ"}

// baseEnv returns the environment of every command: the variables of this process in
// passedEnv, and the policy's.
func baseEnv(policy map[string]string) map[string]string {
	env := map[string]string{}
	for _, pair := range os.Environ() {
		if name, value, _ := strings.Cut(pair, "="); strings.HasPrefix(name, "LC_") {
			env[name] = value
		}
	}
	for _, name := range passedEnv {
		if value, ok := os.LookupEnv(name); ok {
			env[name] = value
		}
	}
	for name, value := range policy {
		env[name] = value
	}
	return env
}

// makeLogDir makes the directory of the logs of sessions, and returns its path.
func makeLogDir(d wsdir.Dir) (string, error) {
	logs := d.Path + "/" + logName
	if err := os.Mkdir(logs, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", fmt.Errorf("local: make the directory of logs: %w: %w", fault.Of(err), err)
	}
	return logs, nil
}

// close ends the use of the runner, and what it ran if that ends with the handle.
func (s *shell) close(ctx context.Context) error {
	err := s.runner.close(context.WithoutCancel(ctx))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return err
	}
	if s.closed = true; s.root != nil {
		err = errors.Join(err, s.root.Close())
	}
	return err
}
