package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/cmdpolicy"
	"github.com/croft-run/croft/internal/host/process"
	"github.com/croft-run/croft/internal/host/toolchain"
	"github.com/croft-run/croft/internal/host/wsdir"
	"github.com/croft-run/croft/secret"
	"github.com/croft-run/croft/workspace/driver"
)

// systemSandboxExec is sandbox-exec of macOS.
const systemSandboxExec = "/usr/bin/sandbox-exec"

// cacheVars are variables that name the cache of a build tool.
var cacheVars = []string{"GOCACHE", "npm_config_cache", "PIP_CACHE_DIR", "UV_CACHE_DIR", "CCACHE_DIR"}

// A seatbelt isolates commands by sandbox-exec: isolation process.
type seatbelt struct {
	program string
	home    string   // of the user: its credential files are hidden
	data    []string // of Croft, which is hidden

	mu     sync.Mutex
	tested bool  // guarded by mu
	result error // of the test
}

// newSeatbelt returns the isolation by a program, "" for that of the system; nil if there is
// none.
func newSeatbelt(program string, data []string) *seatbelt {
	if program == "" && runtime.GOOS == "darwin" {
		program = systemSandboxExec
	}
	if program == "" {
		return nil
	}
	s := &seatbelt{program: program, data: data}
	s.home, _ = os.UserHomeDir() // without a home it has no credential files
	return s
}

// prove returns why the program does not isolate, nil if it does. It is tested once.
func (s *seatbelt) prove(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.tested {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		s.tested, s.result = true, s.test(ctx)
	}
	return s.result
}

// isolated reports whether a policy asks for isolation.
func isolated(p driver.Policy) bool { return p.Isolation.Rank() > 0 }

// isolationError returns why commands can't be isolated by the level that a policy asks for,
// nil if it asks for none.
func (p *Provider) isolationError(ctx context.Context, policy driver.Policy) error {
	var err error
	switch {
	case policy.Isolation.Rank() != driver.IsolationProcess.Rank():
		return nil // none, or a level that Policy.Check refuses
	case p.seatbelt == nil || !p.inProcess:
		err = errors.New("a local workspace is isolated by sandbox-exec of macOS, and this system has none; use the provider sandbox on Linux")
	default:
		err = p.seatbelt.prove(ctx)
	}
	if err != nil {
		return fmt.Errorf("isolation %s: %w: %w", policy.Isolation, fault.Unsupported, err)
	}
	return nil
}

// addTraits sets the traits of a workspace with isolation. The proof has succeeded.
func (s *seatbelt) addTraits(t *driver.Traits, n driver.Network) {
	t.Isolation = driver.IsolationProcess
	t.IsolatedBy = driver.Enforcement{By: "sandbox-exec: no writes outside of the workspace, credential files and data of Croft can't be read; other files of the host can"}
	if !n.Open {
		t.Network, t.NetworkBy = driver.NetworkNone, driver.Enforcement{By: "sandbox-exec"}
	}
}

// wrap writes the profile of a workspace, sets the variables of its commands, and returns what
// wraps them. The policy was checked. The caller removes the file of the profile.
func (s *seatbelt) wrap(p *Provider, m *wsdir.State, env map[string]string) (*cmdpolicy.Seatbelt, error) {
	dir, err := filepath.EvalSymlinks(p.store.Dir(m.ID).Path)
	if err != nil {
		return nil, fmt.Errorf("local: run commands: %w: %w", fault.Of(err), err)
	}
	tmp := filepath.Join(dir, tmpName)
	if err := os.Mkdir(tmp, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("local: make the temporary directory: %w: %w", fault.Of(err), err)
	}
	env["TMPDIR"] = tmp
	for _, name := range cacheVars { // those of the user can't be written
		if _, given := m.Policy.Env[name]; !given {
			env[name] = filepath.Join(tmp, "cache", name)
		}
	}
	files, err := filepath.EvalSymlinks(p.store.Files(m))
	if err != nil {
		return nil, fmt.Errorf("local: run commands: %w: %w", fault.Of(err), err)
	}
	profile := &cmdpolicy.Profile{Writable: []string{files, tmp}, Hidden: s.hidden(), Network: m.Policy.Network.Open}
	for _, path := range optionsOf(m).Writable {
		real, err := p.store.CheckHostPath(path)
		if err != nil {
			return nil, fmt.Errorf("local: run commands: %w", err)
		}
		profile.Writable = append(profile.Writable, real)
	}
	belt := &cmdpolicy.Seatbelt{Program: s.program, File: filepath.Join(dir, "profile-"+driver.NewID()+".sb")}
	return belt, profile.WriteFile(belt.File)
}

// hidden returns the paths that commands can't read: Croft's data, and the credential files of
// the user's home, also those that do not exist yet.
func (s *seatbelt) hidden() []string {
	paths := slices.Clone(s.data)
	if s.home != "" {
		names := append(toolchain.HomeCredentials(), "Library/Keychains", "Library/Cookies")
		for _, pattern := range secret.CredentialFiles {
			if pattern = strings.TrimPrefix(pattern, "**/"); !strings.ContainsAny(pattern, "*?[!") {
				names = append(names, pattern)
			}
		}
		for _, name := range names {
			paths = append(paths, filepath.Join(s.home, name))
		}
	}
	for _, path := range paths { // the kernel compares paths without symlinks
		if real, err := filepath.EvalSymlinks(path); err == nil {
			paths = append(paths, real)
		} else if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
			paths = append(paths, filepath.Join(dir, filepath.Base(path)))
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// attempts tries what a profile must prevent, each part on its own. Its arguments are a
// directory that may be written, one that may not, a hidden file, a process outside, and a
// port of the loopback.
const attempts = `{
echo x > "$1/inside"
echo x > "$2/outside"
cat "$3" > "$1/read"
ln "$3" "$1/link" && cat "$1/link" >> "$1/read"
kill -KILL "$4"
exec 3<> "/dev/tcp/127.0.0.1/$5"
} 2> /dev/null`

// effects are what the attempts had.
type effects struct{ inside, outside, read, killed, connected bool }

// test tries to refute the isolation on this host. All attempts must succeed without it, or
// the test would prove nothing.
func (s *seatbelt) test(ctx context.Context) error {
	control, err := s.attempt(ctx, nil)
	if err != nil {
		return fmt.Errorf("test of %s: %w", s.program, err)
	}
	if (control != effects{true, true, true, true, true}) {
		return fmt.Errorf("test of %s: what it must prevent can't be tried on this host: %+v", s.program, control)
	}
	var failed []string
	for _, network := range []bool{false, true} {
		got, err := s.attempt(ctx, &cmdpolicy.Profile{Network: network})
		if err != nil {
			return fmt.Errorf("test of %s: %w", s.program, err)
		}
		for _, refuted := range []struct {
			is   bool
			what string
		}{
			{!got.inside, "a command can't write to its workspace"},
			{got.outside, "a command writes outside of its workspace"},
			{got.read, "a command reads a hidden file"},
			{got.killed, "a command signals a process outside"},
			{got.connected && !network, "a command without network connects to the loopback"},
			{!got.connected && network, "a command with network can't connect to the loopback"},
		} {
			if refuted.is && !slices.Contains(failed, refuted.what) {
				failed = append(failed, refuted.what)
			}
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("%s does not isolate here: %s", s.program, strings.Join(failed, "; "))
	}
	return nil
}

// attempt runs the attempts under a profile, nil for none.
func (s *seatbelt) attempt(ctx context.Context, profile *cmdpolicy.Profile) (e effects, err error) {
	dir, err := os.MkdirTemp("", "croft-seatbelt-")
	if err != nil {
		return e, err
	}
	defer os.RemoveAll(dir)
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return e, err
	}
	inside, outside, hidden := filepath.Join(dir, "inside"), filepath.Join(dir, "outside"), filepath.Join(dir, "hidden")
	secretFile := filepath.Join(hidden, "file")
	for _, d := range []string{inside, outside, hidden} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return e, err
		}
	}
	if err := os.WriteFile(secretFile, []byte("hidden"), 0o600); err != nil {
		return e, err
	}
	target := exec.CommandContext(ctx, "sleep", "600")
	if err := target.Start(); err != nil {
		return e, err
	}
	ended := make(chan struct{})
	go func() { _ = target.Wait(); close(ended) }() // it is killed
	defer func() { _ = target.Process.Kill(); <-ended }()
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return e, err
	}
	accepted := make(chan struct{})
	var accepting sync.WaitGroup
	accepting.Go(func() {
		if c, err := l.Accept(); err == nil {
			c.Close()
			close(accepted)
		}
	})
	defer accepting.Wait()
	defer l.Close()

	_, port, _ := net.SplitHostPort(l.Addr().String())
	program, args := "/bin/bash", []string{"-c", attempts, "bash", inside, outside, secretFile, strconv.Itoa(target.Process.Pid), port}
	wait := 5 * time.Second // for what must happen
	if profile != nil {
		profile.Writable, profile.Hidden = []string{inside}, []string{hidden}
		belt := &cmdpolicy.Seatbelt{Program: s.program, File: filepath.Join(dir, "profile.sb")}
		if err := profile.WriteFile(belt.File); err != nil {
			return e, err
		}
		if program, args, err = belt.Wrap(program, args, inside); err != nil {
			return e, err
		}
		wait = 200 * time.Millisecond
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = inside, []string{"PATH=" + process.DefaultPath}, time.Second
	if err := cmd.Run(); err != nil {
		if _, exited := errors.AsType[*exec.ExitError](err); !exited || ctx.Err() != nil {
			return e, err
		}
	}
	e.inside, e.outside = fileHas(filepath.Join(inside, "inside"), "x"), fileHas(filepath.Join(outside, "outside"), "x")
	e.read = fileHas(filepath.Join(inside, "read"), "hidden")
	e.killed, e.connected = happens(ended, wait), happens(accepted, wait)
	return e, nil
}

func fileHas(path, text string) bool {
	data, err := os.ReadFile(path)
	return err == nil && strings.Contains(string(data), text)
}

func happens(c <-chan struct{}, within time.Duration) bool {
	select {
	case <-c:
		return true
	case <-time.After(within):
		return false
	}
}
