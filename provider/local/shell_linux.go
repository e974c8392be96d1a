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

// A shell runs the commands of a handle: in a guest of the workspace, without
// any fence but the rules of package cmdpolicy.
type shell struct {
	p   *Provider
	h   *wsdir.Handle
	id  string
	dir string // of the files

	*supervise.Attachment[*guest.Client]

	root    *files.Root   // what the rules look at; nil until they were needed
	guarded *driver.Shell // likewise: the guest, behind the rules
	closed  bool          // these three are used under the lock of the attachment
}

// newShell returns the shell of a handle, which starts nothing yet.
func (p *Provider) newShell(h *wsdir.Handle, m *wsdir.State) *shell {
	s := &shell{p: p, h: h, id: m.ID, dir: p.ground.Files(m)}
	s.Attachment = supervise.NewAttachment(h, p.ground.Dir(m.ID), s.connect)
	return s
}

func (s *shell) module() *driver.Shell { return supervise.Shell(s.behindRules) }

// behindRules returns the module that judges commands before the guest gets them.
func (s *shell) behindRules(ctx context.Context) (*driver.Shell, error) {
	unlock, err := s.Lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	switch {
	case s.closed:
		return nil, fmt.Errorf("local: the workspace is closed: %w", fault.WrongState)
	case s.guarded != nil:
		return s.guarded, nil
	}
	if s.root, err = files.Open(s.dir, nil); err != nil {
		if gone := s.h.Current(); gone != nil {
			return nil, gone
		}
		return nil, fmt.Errorf("local: run a command: %w", err)
	}
	rules := cmdpolicy.Local()
	rules.Root, rules.Files = s.dir, s.root
	judge, err := cmdpolicy.New(rules)
	if err != nil {
		return nil, errors.Join(err, s.root.Close())
	}
	s.guarded = judge.Module(supervise.Shell(s.ask))
	return s.guarded, nil
}

// ask returns the module of the guest, which it finds or starts.
func (s *shell) ask(ctx context.Context) (*driver.Shell, error) {
	if err := s.h.Current(); err != nil {
		return nil, err
	}
	if s.h.State().Policy.ReadOnly {
		return nil, fmt.Errorf("local: run a command: %w: the workspace is read-only, and nothing would keep a command from writing", fault.PermissionDenied)
	}
	c, err := s.Guest(ctx)
	if err != nil {
		return nil, err
	}
	return c.Shell(), nil
}

// connect attaches to the guest of the workspace, or starts it; see
// supervise.Attachment.
func (s *shell) connect(ctx context.Context) (*guest.Client, error) {
	m := s.h.State()
	bin, key, err := s.p.key(&m)
	if err != nil {
		return nil, err
	}
	if c, _ := supervise.Adopt(ctx, s.Dir, key, bin.Version, s.id); c != nil {
		c.Salvage = guest.OutputFromLogs(filepath.Join(s.Dir.Path, logName))
		return c, nil
	}
	if err := supervise.End(ctx, s.Dir, nil); err != nil {
		return nil, fmt.Errorf("local: end the guest before: %w", err)
	}
	return s.start(ctx, bin, key, &m)
}

// key is equal for guests that run the same way.
func (p *Provider) key(m *wsdir.State) (*guestbin.Binary, string, error) {
	bin, err := p.guest()
	if err != nil {
		return nil, "", fmt.Errorf("local: %w", err)
	}
	key, err := supervise.Key(bin.Version, m.Policy.Env, m.Policy.Limits, m.Policy.ReadOnly)
	if err != nil {
		return nil, "", fmt.Errorf("local: %w", err)
	}
	return bin, key, nil
}

func (s *shell) start(ctx context.Context, bin *guestbin.Binary, key string, m *wsdir.State) (*guest.Client, error) {
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
			Env: environment(m.Policy.Env), Limits: m.Policy.Limits, Lease: s.p.lease,
		},
	}
	r, err := supervise.Start(ctx, s.Dir, l, &supervise.Record{Key: key})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("local: %w", err), supervise.End(context.WithoutCancel(ctx), s.Dir, nil))
	}
	r.Salvage = guest.OutputFromLogs(logs)
	return r.Client, nil
}

// passed are the variables of this process that commands get, besides LC_*.
var passed = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TERM", "TMPDIR", "TZ"}

// environment is what every command starts with: of this process's own only
// what is needed to find programs and people's settings.
func environment(policy map[string]string) map[string]string {
	env := map[string]string{}
	for _, pair := range os.Environ() {
		if name, value, _ := strings.Cut(pair, "="); strings.HasPrefix(name, "LC_") {
			env[name] = value
		}
	}
	for _, name := range passed {
		if value, ok := os.LookupEnv(name); ok {
			env[name] = value
		}
	}
	for name, value := range policy {
		env[name] = value
	}
	return env
}

// renew ends the guest if it does not run as m says.
func (s *shell) renew(ctx context.Context, m *wsdir.State) error {
	unlock, err := s.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	_, key, err := s.p.key(m)
	if err != nil {
		return err
	}
	return s.EndIfChanged(ctx, key, nil)
}

// close lets go of the guest, which lives on.
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
