package guest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/guest"
	"github.com/croft-run/croft/workspace/driver"
)

// ways are commands that take each of the ways to the guest: over the lane, by one
// call of the protocol, and as a session.
var ways = map[string]driver.Command{
	"the lane":   {},
	"pieces":     {OnStdout: func([]byte) error { return nil }},
	"a call":     {Labels: map[string]string{"not": "plain"}},
	"a session":  {Labels: map[string]string{"not": "plain"}, OnStdout: func([]byte) error { return nil }},
	"long input": {Stdin: io.LimitReader(strings.NewReader("x"), 1)},
}

// TestCommandWaitsForTheHost: a program does not start before what it waits for
// is done, nor at all where that fails, whichever way it takes; and the guest serves
// the next one.
func TestCommandWaitsForTheHost(t *testing.T) {
	var root string
	r := plain(t, func(l *guest.Launch) { root = l.Config.Root })
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			made := filepath.Join(root, "made")
			defer os.Remove(made)
			calls := 0
			cmd := way
			cmd.Argv = []string{"cat", "made"}
			cmd.Before = func(context.Context) error {
				calls++
				return os.WriteFile(made, []byte("in time"), 0o600)
			}
			if res := run(t, r, cmd); string(res.Stdout) != "in time" || calls != 1 {
				t.Errorf("the program says %q %q after %d calls, want %q after 1", res.Stdout, res.Stderr, calls, "in time")
			}
			cmd.Argv = []string{"touch", "ran"}
			refusal := errors.New("not now")
			cmd.Before = func(context.Context) error { return refusal }
			if _, err := r.Shell().Run(t.Context(), cmd); !errors.Is(err, refusal) {
				t.Errorf("got %v, want what was answered", err)
			}
			cmd.Before = func(context.Context) error { panic("ouch") }
			if _, err := r.Shell().Run(t.Context(), cmd); fault.Of(err) != fault.Internal || !strings.Contains(err.Error(), "ouch") {
				t.Errorf("got %v, want the panic as an error", err)
			}
			if _, err := os.Stat(filepath.Join(root, "ran")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("it ran: %v", err)
			}
			cmd.Argv, cmd.Before = []string{"no-such-program"}, func(context.Context) error { return nil }
			if _, err := r.Shell().Run(t.Context(), cmd); fault.Of(err) != fault.NotFound {
				t.Errorf("got %v, want %v", err, fault.NotFound)
			}
			if res := run(t, r, driver.Command{Argv: []string{"echo", "well"}}); string(res.Stdout) != "well\n" {
				t.Errorf("the next one says %q", res.Stdout)
			}
		})
	}
}

// TestOpenFilesOfHeldCommand: a program has the limit of open files that the guest was
// started with, not the one that Go raised it to there, also where its process was made
// before the host let it start.
func TestOpenFilesOfHeldCommand(t *testing.T) {
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
	want := fmt.Sprintln(low.Cur)
	for range 20 { // not each is sure to be made before
		for _, before := range []func(context.Context) error{nil, func(context.Context) error { return nil }} {
			cmd := driver.Command{Argv: []string{"sh", "-c", "ulimit -Sn"}, Before: before}
			if res := run(t, r, cmd); string(res.Stdout) != want {
				t.Fatalf("its limit is %q, want %q; held: %v", res.Stdout, want, before != nil)
			}
		}
	}
}

// TestHeldCommandIsCanceled: a command whose caller gives up while it waits for the
// host does not go on for long.
func TestHeldCommandIsCanceled(t *testing.T) {
	r := plain(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var asked atomic.Bool
	res, err := r.Shell().Run(ctx, driver.Command{Argv: []string{"sleep", "60"}, Before: func(ctx context.Context) error {
		asked.Store(true)
		cancel()
		<-ctx.Done()
		return nil
	}})
	never := fault.Of(err) == fault.Canceled // the guest heard of it before it had all ready
	if !asked.Load() || !never && (err != nil || res.Cause != driver.CauseCanceled) {
		t.Errorf("got %+v, %v, asked %v, want the cause %s", res, err, asked.Load(), driver.CauseCanceled)
	}
}

// TestLaneOfSlowCommands: those that take longer than the host's end sits in poll(2)
// come through as others do, in turns with them.
func TestLaneOfSlowCommands(t *testing.T) {
	r := plain(t, nil)
	for range 3 {
		if res := run(t, r, driver.Command{Script: "sleep 0.04; echo slow"}); string(res.Stdout) != "slow\n" {
			t.Errorf("got %q %q", res.Stdout, res.Stderr)
		}
		if res := run(t, r, driver.Command{Argv: []string{"echo", "quick"}}); string(res.Stdout) != "quick\n" {
			t.Errorf("got %q %q", res.Stdout, res.Stderr)
		}
	}
	var got strings.Builder
	res := run(t, r, driver.Command{Script: "for i in 1 2 3; do echo $i; sleep 0.03; done", OnStdout: func(data []byte) error {
		got.Write(data)
		return nil
	}})
	if got.String() != "1\n2\n3\n" || string(res.Stdout) != got.String() {
		t.Errorf("pieces %q, result %q", got.String(), res.Stdout)
	}
}

// TestLettingGoWhileACommandWaits: what a command waits for may let go of its guest,
// as one does that finds the workspace evicted.
func TestLettingGoWhileACommandWaits(t *testing.T) {
	r := plain(t, nil)
	res, err := r.Shell().Run(t.Context(), driver.Command{Argv: []string{"sleep", "60"}, Before: func(context.Context) error { return r.Close() }})
	if err != nil || res.Cause != driver.CauseLost {
		t.Errorf("got %+v, %v, want the cause %s", res, err, driver.CauseLost)
	}
	if _, err := r.Shell().Run(t.Context(), driver.Command{Argv: []string{"true"}}); fault.Of(err) != fault.Evicted {
		t.Errorf("the next one: %v, want %v", err, fault.Evicted)
	}
}
