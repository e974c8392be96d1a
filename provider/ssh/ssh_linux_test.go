package ssh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/workspace/driver"
)

func open(t testing.TB, p *Provider, mods ...func(*driver.Spec)) *driver.Workspace {
	t.Helper()
	spec := driver.Spec{ID: driver.NewID(), Kind: Kind}
	for _, mod := range mods {
		mod(&spec)
	}
	ws, err := p.Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.Life.Destroy(context.WithoutCancel(t.Context())) })
	return ws
}

func script(t testing.TB, ws *driver.Workspace, text string) driver.Result {
	t.Helper()
	res, err := ws.Shell.Run(t.Context(), driver.Command{Script: text})
	if err != nil {
		t.Fatalf("run %q: %v", text, err)
	}
	return res
}

func write(t testing.TB, ws *driver.Workspace, name, text string) {
	t.Helper()
	if _, err := ws.FS.Write(t.Context(), name, strings.NewReader(text), &driver.WriteOptions{}); err != nil {
		t.Fatalf("write %s: %v", name, err)
	}
}

func read(t testing.TB, ws *driver.Workspace, name string) string {
	t.Helper()
	body, _, err := ws.FS.Read(t.Context(), name, &driver.ReadOptions{})
	if err != nil {
		t.Fatalf("read %s: %v", name, err)
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	if err != nil {
		t.Fatalf("read %s: %v", name, err)
	}
	return string(data)
}

func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// killSSH kills the ssh processes of this one.
func killSSH(t testing.TB) {
	t.Helper()
	tasks, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	killed := 0
	for _, task := range tasks {
		data, err := os.ReadFile(task)
		if err != nil {
			continue // the thread has ended
		}
		for _, field := range strings.Fields(string(data)) {
			pid, err := strconv.Atoi(field)
			if err != nil {
				t.Fatal(err)
			}
			if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); err == nil && string(name) == "ssh\n" {
				if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
				killed++
			}
		}
	}
	if killed == 0 {
		t.Fatal("there is no ssh process")
	}
}

// wantEvicted waits until a call is told that the connection is lost, before anything is sent.
func wantEvicted(t testing.TB, ws *driver.Workspace) {
	t.Helper()
	eventually(t, "a call returns Evicted", func() bool {
		_, err := ws.FS.Stat(t.Context(), ".", &driver.StatOptions{})
		if code := fault.Of(err); err != nil && code != fault.Evicted && code != fault.Unavailable {
			t.Fatalf("after the loss of the connection a call returns %v, want %v", err, fault.Evicted)
		}
		return fault.Of(err) == fault.Evicted
	})
}

// TestFilesAndCommands is the shortest way through: two processes' worth of providers reach
// the same guest, and nothing of the files is on this host.
//
//croft:slow-race
func TestFilesAndCommands(t *testing.T) {
	dir := t.TempDir()
	p := newProvider(t, dir)
	ws := open(t, p)
	write(t, ws, "from-host", "hello")
	res := script(t, ws, "cat from-host; echo more >> from-host; echo made > from-inside; pwd; echo $HOME")
	home := filepath.Join(filepath.Dir(os.Getenv(guestVar)), "sshd", "home")
	if got, want := string(res.Stdout), "hello"+ws.Traits.Root+"\n"+home+"\n"; got != want || res.ExitCode != 0 {
		t.Fatalf("got %q (%+v), want %q", got, res, want)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "ws", "*", "files", "*")); err != nil || len(left) > 0 {
		t.Errorf("on this host there are %v, %v", left, err)
	}
	session, err := ws.Shell.Start(t.Context(), driver.Command{Script: "echo started; cat", Detached: true})
	if err != nil {
		t.Fatal(err)
	}
	again, err := newProvider(t, dir).Resolve(t.Context(), ws.Ref)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Life.Close(t.Context())
	if got := read(t, again, "from-host"); got != "hellomore\n" {
		t.Errorf("another process reads %q", got)
	}
	same, err := again.Shell.Attach(t.Context(), session.ID())
	if err != nil {
		t.Fatalf("another process does not find the session: %v", err)
	}
	if err := same.CloseStdin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if res, err := same.Wait(t.Context()); err != nil || res.ExitCode != 0 {
		t.Errorf("the session ends with %+v, %v", res, err)
	}
	if strings.Contains(string(ws.Ref.Payload), "machine") {
		t.Errorf("the ref names the machine: %s", ws.Ref.Payload)
	}
	if err := ws.Life.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := leftovers(t, dir); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestGuestIsUploadedOnce: the name has the digest, a damaged program is replaced, and a
// second provider uploads nothing.
func TestGuestIsUploadedOnce(t *testing.T) {
	dir := t.TempDir()
	if _, err := newProvider(t, dir).Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(dir, "machine", "bin", "*"))
	if err != nil || len(names) != 1 {
		t.Fatalf("uploaded: %v, %v", names, err)
	}
	before, err := os.Stat(names[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newProvider(t, dir).Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat(names[0]); err != nil || !os.SameFile(before, after) {
		t.Errorf("a second process has replaced the program: %v", err)
	}
	if err := os.WriteFile(names[0], []byte("damaged"), 0o700); err != nil {
		t.Fatal(err)
	}
	p := newProvider(t, dir)
	if got := string(script(t, open(t, p), "echo works").Stdout); got != "works\n" {
		t.Errorf("after damage: %q", got)
	}
	// Removed behind the back of a process that knows it as installed.
	if err := os.Remove(names[0]); err != nil {
		t.Fatal(err)
	}
	if got := string(script(t, open(t, p), "echo works").Stdout); got != "works\n" {
		t.Errorf("after removal: %q", got)
	}
}

func TestUnknownHostKey(t *testing.T) {
	testenv.NeedsSSHD(t)
	server, err := testenv.StartSSHD(t.Context(), t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	t.Setenv("PATH", server.Bin+":"+os.Getenv("PATH"))
	known, err := os.ReadFile(server.KnownHosts())
	if err != nil {
		t.Fatal(err)
	}
	other, err := os.ReadFile(filepath.Join(filepath.Dir(os.Getenv(guestVar)), "sshd", "known"))
	if err != nil {
		t.Fatal(err)
	}
	address, _, _ := strings.Cut(string(known), " ")
	_, foreign, _ := strings.Cut(string(other), " ")
	for name, test := range map[string]struct{ known, want string }{
		"unknown": {"", `is not known: PermissionDenied: run "ssh ` + server.Host + `" once`},
		"changed": {address + " " + foreign, "is not the one in known_hosts"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(server.KnownHosts(), []byte(test.known), 0o600); err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			_, err := newProvider(t, dir, func(c *Config) { c.Host = server.Host }).Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: Kind})
			if fault.Of(err) != fault.PermissionDenied || fault.IsTransient(err) || !strings.Contains(fmt.Sprint(err), "host key") {
				t.Errorf("got %v, want %v for good", err, fault.PermissionDenied)
			}
			if want := strings.ReplaceAll(test.want, "PermissionDenied", fault.PermissionDenied.Error()); !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("got %q, want it to contain %q", err, want)
			}
			if left := leftovers(t, dir); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

func TestLoginRefused(t *testing.T) {
	testenv.NeedsSSHD(t)
	dir := t.TempDir()
	server, err := testenv.StartSSHD(t.Context(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	t.Setenv("PATH", server.Bin+":"+os.Getenv("PATH"))
	if err := os.WriteFile(filepath.Join(dir, "authorized"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = newProvider(t, t.TempDir(), func(c *Config) { c.Host = server.Host }).Probe(t.Context())
	if fault.Of(err) != fault.PermissionDenied || !strings.Contains(fmt.Sprint(err), "refuses the login") {
		t.Errorf("got %v, want %v", err, fault.PermissionDenied)
	}
}

// TestConnectionLossInACommand: the command has ended with the cause lost, and runs no more;
// the next call is Evicted, and the workspace is there again.
//
//croft:slow-race
func TestConnectionLossInACommand(t *testing.T) {
	dir := t.TempDir()
	p := newProvider(t, dir)
	ws := open(t, p)
	write(t, ws, "kept", "acknowledged")
	type ended struct {
		res driver.Result
		err error
	}
	done := make(chan ended, 1)
	go func() {
		res, err := ws.Shell.Run(t.Context(), driver.Command{Script: "echo $$ > pid; echo x >> runs; while :; do sleep 0.01; done"})
		done <- ended{res, err}
	}()
	pidFile := filepath.Join(ws.Traits.Root, "runs") // the machine is this one
	eventually(t, "the command runs", func() bool { _, err := os.Stat(pidFile); return err == nil })
	killSSH(t)
	end := <-done
	if end.err != nil || end.res.Cause != driver.CauseLost {
		t.Errorf("the command ends with %+v, %v, want the cause %q", end.res, end.err, driver.CauseLost)
	}
	wantEvicted(t, ws)
	again, err := p.Resolve(t.Context(), ws.Ref)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Life.Close(t.Context())
	if got := read(t, again, "kept"); got != "acknowledged" {
		t.Errorf("the file holds %q", got)
	}
	if got := read(t, again, "runs"); got != "x\n" {
		t.Errorf("the command has run so often: %q", got)
	}
	pid := strings.TrimSpace(read(t, again, "pid"))
	eventually(t, "the lost command was killed", func() bool {
		_, err := os.Stat("/proc/" + pid)
		return errors.Is(err, os.ErrNotExist)
	})
	// The handle that lost its connection works again, too.
	if got := string(script(t, ws, "cat kept").Stdout); got != "acknowledged" {
		t.Errorf("after the loss the first handle reads %q", got)
	}
}

// lossyReader kills the connection in the middle of what it gives.
type lossyReader struct {
	t    testing.TB
	rest io.Reader
	once bool
}

func (r *lossyReader) Read(p []byte) (int, error) {
	n, err := r.rest.Read(p)
	if err == io.EOF && !r.once {
		r.once = true
		killSSH(r.t)
		r.rest = bytes.NewReader(bytes.Repeat([]byte("late"), 1<<20))
		return r.rest.Read(p)
	}
	return n, err
}

// TestConnectionLossInAWrite: the file has its old content, and no temporary file stays.
//
//croft:slow-race
func TestConnectionLossInAWrite(t *testing.T) {
	p := newProvider(t, t.TempDir())
	ws := open(t, p)
	write(t, ws, "file", "old")
	_, err := ws.FS.Write(t.Context(), "file", &lossyReader{t: t, rest: bytes.NewReader(bytes.Repeat([]byte("new"), 1<<20))}, &driver.WriteOptions{})
	if code := fault.Of(err); code != fault.Unavailable {
		t.Errorf("the write returns %v, want %v", err, fault.Unavailable)
	}
	wantEvicted(t, ws)
	again, err := p.Resolve(t.Context(), ws.Ref)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Life.Close(t.Context())
	if got := read(t, again, "file"); got != "old" {
		t.Errorf("the file holds %.20q", got)
	}
	eventually(t, "no temporary file is left", func() bool {
		entries, err := os.ReadDir(ws.Traits.Root)
		return err == nil && len(entries) == 1
	})
}

// TestMachineIsDown: calls say so, Resolve is worth another try, and when the machine is back
// the same files and the same session are there.
//
//croft:slow-race
func TestMachineIsDown(t *testing.T) {
	testenv.NeedsSSHD(t)
	server, err := testenv.StartSSHD(t.Context(), t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { server.Stop() }()
	t.Setenv("PATH", server.Bin+":"+os.Getenv("PATH"))
	dir := t.TempDir()
	p := newProvider(t, dir, func(c *Config) { c.Host = server.Host })
	ws := open(t, p)
	write(t, ws, "kept", "acknowledged")
	session, err := ws.Shell.Start(t.Context(), driver.Command{Script: "while ! [ -e go ]; do sleep 0.01; done; echo went", Detached: true})
	if err != nil {
		t.Fatal(err)
	}
	server.Stop()
	wantEvicted(t, ws)
	if _, err := ws.FS.Stat(t.Context(), "kept", &driver.StatOptions{}); fault.Of(err) != fault.Unavailable || !strings.Contains(fmt.Sprint(err), "not reachable") {
		t.Errorf("a call returns %v, want %v", err, fault.Unavailable)
	}
	if _, err := p.Resolve(t.Context(), ws.Ref); fault.Of(err) != fault.Failed || !fault.IsTransient(err) {
		t.Errorf("Resolve returns %v, want a transient %v", err, fault.Failed)
	}
	if err := p.Sweep(t.Context(), []string{strings.Split(filepath.Dir(ws.Traits.Root), "/ws/")[1]}); err != nil {
		t.Errorf("a sweep that removes nothing returns %v", err)
	}
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	again, err := p.Resolve(t.Context(), ws.Ref)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Life.Close(t.Context())
	if got := read(t, again, "kept"); got != "acknowledged" {
		t.Errorf("the file holds %q", got)
	}
	same, err := again.Shell.Attach(t.Context(), session.ID())
	if err != nil {
		t.Fatal(err)
	}
	write(t, again, "go", "")
	if res, err := same.Wait(t.Context()); err != nil || string(res.Stdout) != "went\n" {
		t.Errorf("the session ends with %+v, %v", res, err)
	}
}

// TestDestroyWhileTheMachineIsDown: nothing is forgotten, and the next sweep removes it.
func TestDestroyWhileTheMachineIsDown(t *testing.T) {
	testenv.NeedsSSHD(t)
	server, err := testenv.StartSSHD(t.Context(), t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { server.Stop() }()
	t.Setenv("PATH", server.Bin+":"+os.Getenv("PATH"))
	dir := t.TempDir()
	p := newProvider(t, dir, func(c *Config) { c.Host = server.Host })
	ws := open(t, p)
	server.Stop()
	if err := ws.Life.Destroy(t.Context()); fault.Of(err) != fault.Unavailable {
		t.Errorf("Destroy returns %v, want %v", err, fault.Unavailable)
	}
	if err := p.Sweep(t.Context(), nil); fault.Of(err) != fault.Unavailable {
		t.Errorf("Sweep returns %v, want %v", err, fault.Unavailable)
	}
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.Sweep(t.Context(), nil); err != nil {
		t.Errorf("Sweep returns %v", err)
	}
	if left := leftovers(t, dir); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestGuestIsKilled: its commands are lost, and the processes that it left are killed by the
// next guest, or when the workspace is removed.
//
//croft:slow-race
func TestGuestIsKilled(t *testing.T) {
	dir := t.TempDir()
	p := newProvider(t, dir)
	ws := open(t, p)
	write(t, ws, "kept", "acknowledged")
	start := func() string {
		t.Helper()
		if _, err := ws.Shell.Start(t.Context(), driver.Command{Script: "echo $$ > pid.new; mv pid.new pid; while :; do sleep 0.01; done", Detached: true}); err != nil {
			t.Fatal(err)
		}
		var pid []byte
		eventually(t, "the command runs", func() (ok bool) {
			var err error
			pid, err = os.ReadFile(filepath.Join(ws.Traits.Root, "pid"))
			return err == nil
		})
		if err := os.Remove(filepath.Join(ws.Traits.Root, "pid")); err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(pid))
	}
	kill := func() {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(filepath.Dir(ws.Traits.Root), "lock"))
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(string(data))
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	gone := func(pid string) {
		t.Helper()
		eventually(t, "the process is gone", func() bool {
			_, err := os.Stat("/proc/" + pid)
			return errors.Is(err, os.ErrNotExist)
		})
	}
	first := start()
	kill()
	wantEvicted(t, ws)
	if got := read(t, ws, "kept"); got != "acknowledged" {
		t.Errorf("the file holds %q", got)
	}
	gone(first)
	second := start()
	kill()
	if err := ws.Life.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	gone(second)
	if left := leftovers(t, dir); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestFilesAreRemoved: a guest must not get empty files in place of those that are gone.
func TestFilesAreRemoved(t *testing.T) {
	p := newProvider(t, t.TempDir())
	ws := open(t, p)
	write(t, ws, "kept", "acknowledged")
	if err := os.RemoveAll(filepath.Dir(ws.Traits.Root)); err != nil {
		t.Fatal(err)
	}
	killSSH(t)
	eventually(t, "Resolve says that the files are gone", func() bool {
		again, err := p.Resolve(t.Context(), ws.Ref)
		if err == nil { // the guest has not noticed yet
			again.Life.Close(t.Context())
			return false
		}
		if fault.Of(err) != fault.Failed || fault.CauseOf(err) != fault.CauseGone || fault.IsTransient(err) {
			t.Fatalf("Resolve returns %v, want %v with the cause %q", err, fault.Failed, fault.CauseGone)
		}
		return true
	})
}

func TestOptions(t *testing.T) {
	p, err := New(&Config{Root: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	for _, config := range []string{
		`{}`, `{"host":"-oProxyCommand=touch /tmp/x"}`, `{"host":"me:password@host"}`, `{"host":"ssh://me:password@host"}`, `{"host":"a b"}`, `{"host":"h","dir":"a b"}`,
		`{"host":"h","dir":"$(id)"}`, `{"host":"h","dir":"../x"}`, `{"host":"h","dir":"~"}`, `{"host":"h","dir":"/"}`, `{"host":"h","dir":"it's"}`, `{"host":"h","from":"x"}`,
	} {
		_, err := p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: Kind, Config: []byte(config)})
		if fault.Of(err) != fault.InvalidArgument {
			t.Errorf("%s: got %v, want %v", config, err, fault.InvalidArgument)
		}
		if err != nil && strings.Contains(err.Error(), "password@") {
			t.Errorf("%s: the error repeats the password: %v", config, err)
		}
	}
	for host, want := range map[string]bool{"host": true, "me@host.example": true, "ssh://me@host:22": true, "[::1]": true, "fe80::1%eth0": true, "-x": false, "a@-x": false, "": false} {
		if got := (&Options{Host: host, Dir: DefaultDir}).check() == nil; got != want {
			t.Errorf("host %q: accepted %v, want %v", host, got, want)
		}
	}
}

// TestNoIsolationIsSaid: what can't be enforced is refused, not ignored.
func TestNoIsolationIsSaid(t *testing.T) {
	p := newProvider(t, t.TempDir())
	traits, err := p.Probe(t.Context())
	if err != nil || traits.Isolation != driver.IsolationNone || traits.IsolatedBy.Enforced() {
		t.Errorf("traits %+v, %v", traits, err)
	}
	for what, policy := range map[string]driver.Policy{
		"isolation": {Isolation: driver.IsolationProcess},
		"network":   {Network: driver.Network{Allow: []driver.NetRule{{Host: "example.com"}}}},
		"durable":   {Durable: true},
		"memory":    {Limits: driver.Limits{driver.ResourceMemory: {Max: 1 << 30}}},
	} {
		if _, err := p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: Kind, Policy: policy}); fault.Of(err) != fault.Unsupported {
			t.Errorf("%s: got %v, want %v", what, err, fault.Unsupported)
		}
	}
	res, err := open(t, p).Shell.Run(t.Context(), driver.Command{Argv: []string{"sudo", "id"}})
	if fault.Of(err) != fault.SandboxViolation {
		t.Errorf("sudo: got %+v, %v, want %v", res, err, fault.SandboxViolation)
	}
}

// TestDirectoryOfAnotherUser: another user of the machine must not own the directory with the
// program that the login runs.
func TestDirectoryOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: host: only root gives a directory to another user")
	}
	for _, foreign := range []string{".", "bin", "ws"} {
		dir := t.TempDir()
		for _, name := range []string{"bin", "ws"} {
			if err := os.MkdirAll(filepath.Join(dir, "machine", name), 0o777); err != nil {
				t.Fatal(err)
			}
		}
		const nobody = 65534
		if err := os.Chown(filepath.Join(dir, "machine", foreign), nobody, nobody); err != nil {
			t.Fatal(err)
		}
		_, err := newProvider(t, dir).Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: Kind})
		if fault.Of(err) != fault.PermissionDenied || !strings.Contains(err.Error(), "another user") {
			t.Errorf("%s belongs to another user: %v, want PermissionDenied", foreign, err)
		}
	}
}
