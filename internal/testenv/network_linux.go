package testenv

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// OwnNetwork moves the calling goroutine, with its listeners and later children, into a
// new network namespace with only a loopback interface, so that requests to other hosts
// fail at once. Without the privilege it does nothing.
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
