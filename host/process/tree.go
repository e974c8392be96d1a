package process

import (
	"errors"
	"fmt"
	"syscall"
	"time"
)

// A Tree knows how to end everything that a command started.
type Tree interface {
	// Plant is called before a child is started and may change its spec.
	Plant(spec *Spec) (Grip, error)
}

// A Grip holds one tree. Its leader is the child that was started; between Plant
// and Release it is not reaped, so its number can't be used again. Calls do not
// overlap.
type Grip interface {
	// Signal sends a signal to every process of the tree.
	Signal(leader int, sig syscall.Signal) error

	// Left reports whether a process of the tree lives, the leader included.
	Left(leader int) bool

	// Kill kills every process of the tree and returns when none is left. It is
	// also called after the leader's end, and is cheap where it was alone.
	Kill(leader int) error

	// Release forgets the tree; leader is reaped, or was never started.
	Release()
}

// killPatience is how long Kill waits for processes that were killed and do not
// die: they hang in the kernel.
const killPatience = 10 * time.Second

// Group is the tree that is a process group: it misses processes that leave it.
type Group struct{}

// Plant takes a grip on a group.
func (Group) Plant(*Spec) (Grip, error) { return groupGrip{}, nil }

type groupGrip struct{}

func (groupGrip) Signal(leader int, sig syscall.Signal) error { return signalGroup(leader, sig) }
func (groupGrip) Left(leader int) bool                        { return !(Child{PID: leader}).exited() }
func (groupGrip) Kill(leader int) error                       { return signalGroup(leader, syscall.SIGKILL) }
func (groupGrip) Release()                                    {}

// signalGroup signals a process group; one that is empty is no error.
func signalGroup(pgid int, sig syscall.Signal) error {
	err := syscall.Kill(-pgid, sig)
	if err == nil || errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return fmt.Errorf("process: signal group %d: %w: %w", pgid, codeOf(err), err)
}
