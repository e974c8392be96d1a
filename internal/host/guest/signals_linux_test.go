package guest_test

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/internal/host/guest"
	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/workspace/driver"
)

// first makes the guest the first process of its own namespaces, with a root of its own.
func first(t *testing.T) func(*guest.Launch) {
	stage := t.TempDir()
	return func(l *guest.Launch) {
		l.Sys = &syscall.SysProcAttr{
			Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		}
		l.Config.NewRoot, l.Config.Root, l.Config.Level = stage, "/w", driver.IsolationNamespaces
		l.Config.Mounts = []guestproto.Mount{
			{Kind: guestproto.MountProc, Target: "/proc"}, {Kind: guestproto.MountTmpfs, Target: "/w"},
			{Kind: guestproto.MountBind, Target: "/dev/null", Source: "/dev/null", Dev: true},
		}
		for _, dir := range []string{"/usr", "/bin", "/lib", "/lib64"} {
			l.Config.Mounts = append(l.Config.Mounts, guestproto.Mount{Kind: guestproto.MountBind, Target: dir, Source: dir, ReadOnly: true, Optional: true})
		}
	}
}

// TestSignalsDoNothing: a guest ignores every signal, from inside and from
// outside, and its children receive all signals.
func TestSignalsDoNothing(t *testing.T) {
	for name, change := range map[string]func(*guest.Launch){"plain": nil, "first of its namespaces": first(t)} {
		t.Run(name, func(t *testing.T) {
			r := plain(t, change)
			run(t, r, driver.Command{Argv: []string{"true"}}) // it serves
			for sig := syscall.Signal(1); sig < 32; sig++ {
				if sig == syscall.SIGKILL || sig == syscall.SIGSTOP {
					continue
				}
				for range 2 {
					if err := syscall.Kill(r.HostPID(), sig); err != nil {
						t.Fatal(err)
					}
				}
			}
			if res := run(t, r, driver.Command{Script: `for s in $(seq 1 31); do [ $s = 9 ] || [ $s = 19 ] || kill -$s $PPID; done; echo sent`}); string(res.Stdout) != "sent\n" {
				t.Errorf("after signals from outside, one that sends more gives %+v", res)
			}
			res := run(t, r, driver.Command{Script: `grep SigIgn /proc/self/status; kill -TERM $$`})
			// Signals from 32 on belong to the C library, and may be ignored already when the test starts.
			if got := strings.Fields(string(res.Stdout)); len(got) != 2 || ignored(t, got[1])<<33 != 0 || res.Signal != "SIGTERM" {
				t.Errorf("a command that ends itself by a signal gives %+v", res)
			}
		})
	}
}

// ignored reads a set of signals, of which the lowest bit is the first.
func ignored(t *testing.T, hex string) uint64 {
	t.Helper()
	set, err := strconv.ParseUint(hex, 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return set
}
