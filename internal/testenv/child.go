package testenv

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// startTimeout bounds the start of a program: a busy machine may stall for seconds.
const startTimeout = 3 * time.Minute

// startChild starts a child and returns a channel that is closed when it has ended. The
// parent-death signal is sent when the thread that started the child ends, and Go ends a
// thread with the goroutine that locked it. So the child gets a locked thread of its own,
// which lives as long as the child.
func startChild(cmd *exec.Cmd) (ended <-chan struct{}, err error) {
	started, done := make(chan error, 1), make(chan struct{})
	go func() { // ends with the child, which the caller kills
		defer close(done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // its exit status is not needed
		}
	}()
	return done, <-started
}

// Loopback returns an unused address and port of this host, for a program that can't
// choose a port itself. On Linux the address is derived from the process id, so that no
// other program takes the port first.
func Loopback() (string, error) {
	pid := os.Getpid()
	l, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 1+pid>>16&0x7f, pid>>8&0xff, pid&0xff)) //nolint:noctx // it only finds a free port
	if err != nil {
		if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil { //nolint:noctx // likewise
			return "", err
		}
	}
	return l.Addr().String(), l.Close()
}
