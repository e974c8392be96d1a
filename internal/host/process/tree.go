package process

import (
	"errors"
	"fmt"
	"syscall"
	"time"
)

// A Tree kills whole process trees.
type Tree interface {
	// Track is called before a child is started and may change its spec.
	Track(spec *Spec) (Tracked, error)
}

// A Tracked is the process tree of one child, its leader. Between Track and Release the
// leader is not reaped, so its pid is not reused. Calls do not overlap.
type Tracked interface {
	// Signal sends a signal to every process of the tree.
	Signal(leader int, sig syscall.Signal) error

	// Alive reports whether any process of the tree runs, the leader included.
	Alive(leader int) bool

	// Kill kills every process of the tree and returns when no process is left. It is also
	// called after the leader's exit, and is cheap if the leader had no descendants.
	Kill(leader int) error

	// Release ends tracking; the leader is reaped, or was never started.
	Release()
}

// killTimeout is how long Kill waits for killed processes that do not die, because they
// hang in the kernel.
const killTimeout = 10 * time.Second

// Group is the Tree of a process group: it does not find processes that leave the group.
type Group struct{}

// Track implements Tree.
func (Group) Track(*Spec) (Tracked, error) { return groupTracked{}, nil }

type groupTracked struct{}

func (groupTracked) Signal(leader int, sig syscall.Signal) error { return signalGroup(leader, sig) }
func (groupTracked) Alive(leader int) bool                       { return !(Child{PID: leader}).hasExited() }
func (groupTracked) Kill(leader int) error                       { return signalGroup(leader, syscall.SIGKILL) }
func (groupTracked) Release()                                    {}

// signalGroup signals a process group; an empty group is no error.
func signalGroup(pgid int, sig syscall.Signal) error {
	err := syscall.Kill(-pgid, sig)
	if err == nil || errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return fmt.Errorf("process: signal group %d: %w: %w", pgid, errorCode(err), err)
}
