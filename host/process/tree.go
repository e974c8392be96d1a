package process

import (
	"errors"
	"fmt"
	"syscall"
	"time"
)

// A Tree knows how to end everything that a command started.
type Tree interface {
	// Track is called before a child is started and may change its spec.
	Track(spec *Spec) (Tracked, error)
}

// A Tracked holds one tree. Its leader is the child that was started; between Track
// and Release it is not reaped, so its number can't be used again. Calls do not
// overlap.
type Tracked interface {
	// Signal sends a signal to every process of the tree.
	Signal(leader int, sig syscall.Signal) error

	// Alive reports whether a process of the tree lives, the leader included.
	Alive(leader int) bool

	// Kill kills every process of the tree and returns when none is left. It is
	// also called after the leader's end, and is cheap where it was alone.
	Kill(leader int) error

	// Release forgets the tree; leader is reaped, or was never started.
	Release()
}

// killTimeout is how long Kill waits for processes that were killed and do not
// die: they hang in the kernel.
const killTimeout = 10 * time.Second

// Group is the tree that is a process group: it misses processes that leave it.
type Group struct{}

// Track takes a tracked on a group.
func (Group) Track(*Spec) (Tracked, error) { return groupTracked{}, nil }

type groupTracked struct{}

func (groupTracked) Signal(leader int, sig syscall.Signal) error { return signalGroup(leader, sig) }
func (groupTracked) Alive(leader int) bool                       { return !(Child{PID: leader}).hasExited() }
func (groupTracked) Kill(leader int) error                       { return signalGroup(leader, syscall.SIGKILL) }
func (groupTracked) Release()                                    {}

// signalGroup signals a process group; one that is empty is no error.
func signalGroup(pgid int, sig syscall.Signal) error {
	err := syscall.Kill(-pgid, sig)
	if err == nil || errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return fmt.Errorf("process: signal group %d: %w: %w", pgid, errorCode(err), err)
}
