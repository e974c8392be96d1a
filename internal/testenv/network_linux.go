package testenv

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// OwnNetwork puts the calling goroutine, what it listens on and the children that
// it starts from now on into a network of their own, which has a loopback
// interface and nothing else, so that a program that wants to phone home finds
// out at once that it can't. Where the process may not do that they stay where
// they are.
func OwnNetwork(t testing.TB) {
	t.Helper()
	runtime.LockOSThread() // for good: the thread ends with the goroutine
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Logf("no network of its own: %v", err)
		return
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd) //nolint:errcheck // only asked
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		t.Fatal(err)
	}
	ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr); err != nil {
		t.Fatal(err)
	}
}
