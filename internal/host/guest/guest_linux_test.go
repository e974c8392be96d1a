package guest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/guest"
	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/workspace/driver"
)

var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "croft-guest-test-")
	if err != nil {
		panic(err)
	}
	binary = testenv.BuildGuest(dir)
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// plain starts a guest without any isolation.
func plain(t *testing.T, change func(*guest.Launch)) *guest.Running {
	t.Helper()
	root := t.TempDir()
	l := &guest.Launch{Binary: binary, Config: guestproto.Config{
		Version: "test", Workspace: "w", Level: driver.IsolationNone, Root: root, UID: -1, Subreaper: true,
		Env: map[string]string{"PATH": "/usr/bin:/bin"},
	}}
	if change != nil {
		change(l)
	}
	r, err := l.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.End(context.Background()) })
	return r
}

func run(t *testing.T, r *guest.Running, cmd driver.Command) driver.Result {
	t.Helper()
	res, err := r.Shell().Run(t.Context(), cmd)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestRun(t *testing.T) {
	r := plain(t, nil)
	res := run(t, r, driver.Command{Script: "echo out; echo err >&2; exit 3"})
	if res.ExitCode != 3 || string(res.Stdout) != "out\n" || string(res.Stderr) != "err\n" {
		t.Errorf("got %+v", res)
	}
	in := strings.Repeat("0123456789abcdef", 1<<16) // 1 MiB: more than one message
	var got bytes.Buffer
	res = run(t, r, driver.Command{Argv: []string{"cat"}, Stdin: strings.NewReader(in),
		OnStdout: func(p []byte) error { got.Write(p); return nil }})
	if res.ExitCode != 0 || got.String() != in {
		t.Errorf("cat gave back %d of %d bytes, %+v", got.Len(), len(in), res.ExitCode)
	}
}

// once calls a function when a command has made the file "up" in the root of a guest.
// The test waits for it.
func once(t *testing.T, root string, call func()) {
	t.Helper()
	var wg sync.WaitGroup
	wg.Go(func() {
		for till := time.Now().Add(2 * time.Minute); time.Now().Before(till); time.Sleep(time.Millisecond) {
			if _, err := os.Stat(filepath.Join(root, "up")); err == nil {
				break
			}
		}
		call()
	})
	t.Cleanup(wg.Wait)
}

func TestCancelledRunAnswersWithWhatThereIs(t *testing.T) {
	var root string
	r := plain(t, func(l *guest.Launch) { root = l.Config.Root })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	once(t, root, cancel)
	res, err := r.Shell().Run(ctx, driver.Command{Script: "echo begun; : > up; sleep 1000"})
	if err != nil {
		t.Fatal(err)
	}
	if res.Cause != driver.CauseCanceled || string(res.Stdout) != "begun\n" {
		t.Errorf("got %+v", res)
	}
}

// TestCancelledStartLeavesNothing: a guest that hears of a session after its caller
// has given up does not keep it.
func TestCancelledStartLeavesNothing(t *testing.T) {
	r := plain(t, nil)
	for range 5 {
		if err := syscall.Kill(r.HostPID(), syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond) // the request is on its way by then
		done := make(chan struct{})
		go func() {
			defer close(done)
			r.Shell().Start(ctx, driver.Command{Argv: []string{"sleep", "1000"}})
		}()
		<-ctx.Done()
		cancel()
		if err := syscall.Kill(r.HostPID(), syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		<-done
	}
	till := time.Now().Add(2 * time.Minute)
	for {
		list, err := r.Shell().Sessions(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		running := slices.DeleteFunc(list, func(s driver.SessionInfo) bool { return !s.Running })
		if len(running) == 0 {
			return
		}
		if time.Now().After(till) {
			t.Fatalf("%d sessions run that nobody knows of", len(running))
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestThrowAwayGuestDiesWithItsStream(t *testing.T) {
	r := plain(t, nil)
	if _, err := r.Shell().Start(t.Context(), driver.Command{Argv: []string{"sleep", "60"}}); err != nil {
		t.Fatal(err)
	}
	r.Close()
	<-r.Exited()
}

func TestLostCommandIsAResult(t *testing.T) {
	var root string
	r := plain(t, func(l *guest.Launch) { root = l.Config.Root })
	once(t, root, func() { syscall.Kill(r.HostPID(), syscall.SIGKILL) })
	res, err := r.Shell().Run(t.Context(), driver.Command{Script: ": > up; sleep 60"})
	if err != nil || res.Cause != driver.CauseLost || res.ExitCode != -1 {
		t.Errorf("got %+v, %v; want the cause lost", res, err)
	}
}

// TestListOfSessionsFits: a list of many sessions with large arguments fits into the
// answer, and the connection to the guest stays.
func TestListOfSessionsFits(t *testing.T) {
	r := plain(t, nil)
	long := strings.Repeat("x", 100<<10)
	const n = 50
	for i := range n {
		s, err := r.Shell().Start(t.Context(), driver.Command{Argv: []string{"true", long}, Labels: map[string]string{"i": strconv.Itoa(i), "long": long[:i*100]}})
		if err == nil {
			_, err = s.Wait(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	list, err := r.Shell().Sessions(t.Context())
	if err != nil || len(list) != n {
		t.Fatalf("got %d sessions, %v", len(list), err)
	}
	s, err := r.Shell().Attach(t.Context(), list[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	if all, err := s.State(t.Context()); err != nil || len(all.Argv) != 2 || all.Argv[1] != long || len(list[0].Argv) != 2 || list[0].Argv[0] != "true" {
		t.Errorf("one of them: %d arguments, %v", len(all.Argv), err)
	}
}

// TestTooLargeForAMessage: what can't be sent is refused, and nothing else is lost
// by it.
func TestTooLargeForAMessage(t *testing.T) {
	r := plain(t, nil)
	_, err := r.Shell().Run(t.Context(), driver.Command{Argv: []string{"true"}, Env: map[string]string{"A": strings.Repeat("x", 5<<20)}})
	if fault.Of(err) != fault.InvalidArgument {
		t.Errorf("a command of 5 MiB: %v", err)
	}
	// What comes back has an id and times in it as well.
	_, err = r.Shell().Start(t.Context(), driver.Command{Argv: []string{"true"}, Labels: map[string]string{"a": strings.Repeat("x", 4<<20-150)}})
	if err == nil {
		t.Error("the session comes back")
	}
	if res := run(t, r, driver.Command{Script: "echo works"}); string(res.Stdout) != "works\n" {
		t.Errorf("after that: %+v", res)
	}
}

// TestOpenFiles: a program has the limit of open files that the guest was started
// with, not the one that the runtime of Go raised it to.
func TestOpenFiles(t *testing.T) {
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	low := syscall.Rlimit{Cur: was.Max / 2, Max: was.Max}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was) })
	r := plain(t, nil)
	if res := run(t, r, driver.Command{Argv: []string{"sh", "-c", "ulimit -Sn"}}); string(res.Stdout) != fmt.Sprintln(low.Cur) {
		t.Errorf("its limit is %q, want %d", res.Stdout, low.Cur)
	}
}

// TestOutputAsItComes: a callback gets what a command writes while it runs.
func TestOutputAsItComes(t *testing.T) {
	r := plain(t, nil)
	var got strings.Builder
	res := run(t, r, driver.Command{Script: "for i in 1 2 3; do echo $i; sleep 0.03; done", OnStdout: func(data []byte) error {
		got.Write(data)
		return errors.New("full")
	}})
	if got.String() != "1\n2\n3\n" || string(res.Stdout) != got.String() || !slices.Contains(res.CallbackErrors, "full") {
		t.Errorf("pieces %q, result %q, errors of the callback %q", got.String(), res.Stdout, res.CallbackErrors)
	}
}

// TestGuestThatCantStart says why, in the guest's own words and in the kernel's.
func TestGuestThatCantStart(t *testing.T) {
	bad := &guest.Launch{Binary: binary, Config: guestproto.Config{Version: "test", Workspace: "w", Level: driver.IsolationNone, Root: filepath.Join(t.TempDir(), "missing"), UID: -1, Files: true}}
	if _, err := bad.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "missing") && !strings.Contains(err.Error(), "no such file") {
		t.Errorf("a root that is not there: %v", err)
	}
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("no program"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := (&guest.Launch{Binary: text}).Start(t.Context()); err == nil || !strings.Contains(err.Error(), "exec format error") {
		t.Errorf("what is no program: %v", err)
	}
}

// TestCancelledLaunchLeavesNoChild: a program such as bubblewrap that starts another one, which
// holds its standard error, and is killed before it serves.
func TestCancelledLaunchLeavesNoChild(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "wrap")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nsleep 600 &\necho $! > "+dir+"/child\nexec sleep 600\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, sys := range map[string]*syscall.SysProcAttr{"leads a group": {Setsid: true}, "in the group of the test": nil} {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for range 500 {
				if text, err := os.ReadFile(filepath.Join(dir, "child")); err == nil && len(text) > 0 {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			cancel()
		}()
		start := time.Now()
		if _, err := (&guest.Launch{Binary: script, Sys: sys}).Start(ctx); err == nil {
			t.Errorf("%s: the guest has started", name)
		}
		if took := time.Since(start); took > 30*time.Second {
			t.Errorf("%s: a cancelled start takes %s", name, took)
		}
		text, err := os.ReadFile(filepath.Join(dir, "child"))
		if err != nil {
			t.Fatal(err)
		}
		child, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		if sys == nil {
			syscall.Kill(child, syscall.SIGKILL) // the test ends it
		} else if stat := statAfterKill(child); stat != "" {
			t.Errorf("%s: the child is still there: %s", name, stat)
		}
		os.Remove(filepath.Join(dir, "child"))
	}
}

// statAfterKill returns /proc/PID/stat of a process that was killed, "" once it has ended. On a
// busy host that takes a moment.
func statAfterKill(pid int) (stat string) {
	for range 500 {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if stat = string(data); err != nil || strings.Contains(stat, ") Z ") {
			return ""
		}
		time.Sleep(10 * time.Millisecond)
	}
	return stat
}

// TestVersionsMustAgree: a guest of another version than the host's is to be replaced.
func TestVersionsMustAgree(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "sock")
	plain(t, func(l *guest.Launch) { l.Socket, l.Config.Lease = socket, time.Minute })
	for version, want := range map[string]fault.Code{"test": "", "other": fault.Evicted} {
		c, err := guest.Dial(t.Context(), socket, "", version, "w")
		if fault.Of(err) != want {
			t.Errorf("version %q: got %v, want %q", version, err, want)
		}
		if err == nil {
			c.Close()
		}
	}
}
