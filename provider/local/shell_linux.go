package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/host/cgroup"
	"github.com/croft-run/croft/host/cmdpolicy"
	"github.com/croft-run/croft/host/files"
	"github.com/croft-run/croft/host/guest"
	"github.com/croft-run/croft/host/guest/supervise"
	"github.com/croft-run/croft/host/guestbin"
	"github.com/croft-run/croft/host/guestproto"
	"github.com/croft-run/croft/host/wsdir"
	"github.com/croft-run/croft/workspace/driver"
)

const logName = "log" // logs of sessions, in the directory of a workspace

func findGuest(path string) (*guestbin.Binary, error) { return guestbin.Find(path) }

// A shell runs the commands of a handle in a guest of the workspace, without isolation.
// Package cmdpolicy checks each command before it is spawned.
type shell struct {
	p   *Provider
	h   *wsdir.Handle
	id  string
	dir string // of the files

	*supervise.Attachment[*guest.Client]

	root    *files.Root   // of the files, for the command policy; nil until it is needed
	checked *driver.Shell // the guest behind the command policy; nil until it is needed
	closed  bool          // root, checked and closed require the lock of the attachment
}

// newShell returns the shell of a handle. It starts no guest yet.
func (p *Provider) newShell(h *wsdir.Handle, m *wsdir.State) *shell {
	s := &shell{p: p, h: h, id: m.ID, dir: p.store.Files(m)}
	s.Attachment = supervise.NewAttachment(h, p.store.Dir(m.ID), s.connectGuest)
	return s
}

func (s *shell) shellModule() *driver.Shell { return supervise.Shell(s.policyShell) }

// policyShell returns the module that checks commands by the command policy before the guest
// gets them.
func (s *shell) policyShell(ctx context.Context) (*driver.Shell, error) {
	unlock, err := s.Lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	switch {
	case s.closed:
		return nil, fmt.Errorf("local: the workspace is closed: %w", fault.WrongState)
	case s.checked != nil:
		return s.checked, nil
	}
	if s.root, err = files.Open(s.dir, nil); err != nil {
		if gone := s.h.Current(); gone != nil {
			return nil, gone
		}
		return nil, fmt.Errorf("local: run a command: %w", err)
	}
	rules := cmdpolicy.Local()
	rules.Root, rules.Files, rules.Env.Except = s.dir, s.root, s.p.allowEnv
	policy, err := cmdpolicy.New(rules)
	if err != nil {
		return nil, errors.Join(err, s.root.Close())
	}
	s.checked = policy.Module(supervise.Shell(s.guestShell))
	return s.checked, nil
}

// guestShell returns the module of the guest, which it adopts or starts.
func (s *shell) guestShell(ctx context.Context) (*driver.Shell, error) {
	if err := s.h.Current(); err != nil {
		return nil, err
	}
	if s.h.State().Policy.ReadOnly {
		return nil, fmt.Errorf("local: run a command: %w: the workspace is read-only, and without isolation a command could write", fault.PermissionDenied)
	}
	c, err := s.Guest(ctx)
	if err != nil {
		return nil, err
	}
	return c.Shell(), nil
}

// connectGuest adopts the guest of the workspace, or starts it; see supervise.Attachment.
func (s *shell) connectGuest(ctx context.Context) (*guest.Client, error) {
	m := s.h.State()
	bin, key, err := s.p.launchKey(&m)
	if err != nil {
		return nil, err
	}
	if c, _ := supervise.Adopt(ctx, s.Dir, key, bin.Version, s.id); c != nil {
		c.Salvage = guest.OutputFromLogs(filepath.Join(s.Dir.Path, logName))
		return c, nil
	}
	if err := supervise.CallerLeft(ctx); err != nil {
		return nil, fmt.Errorf("local: %w", err)
	}
	if err := supervise.End(ctx, s.Dir, nil); err != nil {
		return nil, fmt.Errorf("local: end the previous guest: %w", err)
	}
	return s.startGuest(ctx, bin, key, &m)
}

// launchKey returns a digest of the guest's settings. A guest with another key is replaced.
func (p *Provider) launchKey(m *wsdir.State) (*guestbin.Binary, string, error) {
	bin, err := p.guestBinary()
	if err != nil {
		return nil, "", fmt.Errorf("local: %w", err)
	}
	key, err := supervise.Key(bin.Version, m.Policy.Env, m.Policy.Limits, m.Policy.ReadOnly)
	if err != nil {
		return nil, "", fmt.Errorf("local: %w", err)
	}
	return bin, key, nil
}

func (s *shell) startGuest(ctx context.Context, bin *guestbin.Binary, key string, m *wsdir.State) (*guest.Client, error) {
	dir := s.Dir.Path
	logs := filepath.Join(dir, logName)
	if err := os.Mkdir(logs, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("local: start the guest: %w: %w", fault.Of(err), err)
	}
	log, err := os.Open(logs)
	if err != nil {
		return nil, fmt.Errorf("local: start the guest: %w: %w", fault.Of(err), err)
	}
	defer log.Close()
	l := &guest.Launch{
		Binary: bin.Path, Socket: filepath.Join(dir, supervise.SocketName), Sys: &syscall.SysProcAttr{Setsid: true},
		Files: []guest.NamedFile{{Name: "log", File: log}},
		Config: guestproto.Config{
			Version: bin.Version, Workspace: s.id, Level: driver.IsolationNone, Root: s.dir, UID: -1, Subreaper: true,
			Env: baseEnv(m.Policy.Env), Limits: m.Policy.Limits, Lease: s.p.lease,
		},
	}
	r, err := supervise.Start(ctx, s.Dir, l, &supervise.Record{Key: key})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("local: %w", err), supervise.End(context.WithoutCancel(ctx), s.Dir, nil))
	}
	r.Salvage = guest.OutputFromLogs(logs)
	return r.Client, nil
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

// endOutdatedGuest ends the guest if its launch key differs from that of m.
func (s *shell) endOutdatedGuest(ctx context.Context, m *wsdir.State) error {
	unlock, err := s.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	_, key, err := s.p.launchKey(m)
	if err != nil {
		return err
	}
	return s.EndIfChanged(ctx, key, nil)
}

// measure measures the processes below the guest.
func (s *shell) measure(out *driver.Metrics) {
	out.CPUTime, out.Memory, out.PIDs = new(0.0), new(int64(0)), new(int64(0))
	rec := supervise.ReadRecord(s.Dir)
	if rec == nil || rec.PID == 0 {
		return // nothing runs
	}
	if start, err := supervise.StartTime(rec.PID); err != nil || start != rec.Start {
		return // it has ended, and another process may have its id
	}
	use := cgroup.MeasureBelow(rec.PID)
	*out.CPUTime, out.Memory, out.PIDs = use.CPU.Seconds(), use.Memory, use.PIDs
}

// close closes the connection to the guest, which lives on.
func (s *shell) close(ctx context.Context) error {
	return s.Close(context.WithoutCancel(ctx), func() error {
		s.closed = true
		if s.root == nil {
			return nil
		}
		return s.root.Close()
	})
}

// endGuest ends the guest of the workspace in dir, if it has one.
func endGuest(ctx context.Context, dir string) error {
	return supervise.LockAndEnd(ctx, wsdir.Dir{Path: dir, Kind: Kind}, nil)
}
