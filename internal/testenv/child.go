package testenv

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// startTimeout is how long a program may take to answer: the machine may do nothing for
// seconds now and then.
const startTimeout = 3 * time.Minute

// startChild starts a child and returns what is closed once it has ended. For the kernel
// the parent of a child is the thread that started it, and Go ends a thread with the
// goroutine that locked it, whoever used it before. So that a child which is to die
// with its parent does not die with any such thread, it gets one for itself.
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
