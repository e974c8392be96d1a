package guest_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/croft-run/croft/workspace/driver"
)

// TestOpenFilesOfCommand: a program has the limit of open files that the guest was
// started with, not the one that Go raised it to there.
func TestOpenFilesOfCommand(t *testing.T) {
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
	if res := run(t, r, driver.Command{Argv: []string{"sh", "-c", "ulimit -Sn"}}); string(res.Stdout) != want {
		t.Errorf("its limit is %q, want %q", res.Stdout, want)
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
