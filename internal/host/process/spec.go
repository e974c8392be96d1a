package process

import (
	"fmt"
	"runtime"
	"sync"
	"syscall"

	"github.com/croft-run/croft/fault"
)

// A Spec describes a child that is about to be started.
type Spec struct {
	ID    string // of the session
	Path  string // of the program
	Argv  []string
	Env   []string
	Dir   string
	Files []uintptr // descriptors 0, 1 and 2 of the child
	Sys   *syscall.SysProcAttr

	Group   *CommandGroup // of the command alone; nil is that of the workload
	MaxPIDs int64         // the limit of processes in Group; 0 is none
}

// A Child is a child process of this process.
type Child struct{ PID int }

// A Starter starts children. An error means that no child was started.
type Starter interface {
	Start(spec *Spec) (Child, error)
}

// directStarter forks from the calling thread.
type directStarter struct{}

func (directStarter) Start(spec *Spec) (Child, error) {
	if spec.Group != nil {
		return startLocked(spec)
	}
	return forkExec(spec)
}

// A ThreadStarter starts every child from one operating system thread. Children inherit
// that thread's credentials, groups, seccomp filter, Landlock domain and no-new-privileges
// flag, which the rest of this process does not have.
type ThreadStarter struct {
	jobs chan func()
	quit chan struct{}
	done chan struct{}
	once sync.Once
}

// NewThreadStarter starts the thread and calls setup on it once. The caller closes the
// starter after the Manager that uses it.
func NewThreadStarter(setup func() error) (*ThreadStarter, error) {
	t := &ThreadStarter{jobs: make(chan func()), quit: make(chan struct{}), done: make(chan struct{})}
	ready := make(chan error)
	runtime.LockOSThread() // if this is the main thread, it stays locked until another one is found
	defer runtime.UnlockOSThread()
	go t.run(setup, ready)
	if err := <-ready; err != nil {
		<-t.done
		return nil, fmt.Errorf("process: set up the starter thread: %w: %w", errorCode(err), err)
	}
	return t, nil
}

// run never unlocks its thread: the effects of setup can't be undone, so the thread ends
// with the goroutine. It does not use the main thread, because the kernel takes the
// credentials of the main thread for those of the process, for signals and memory access.
func (t *ThreadStarter) run(setup func() error, ready chan<- error) {
	runtime.LockOSThread()
	if firstThread() {
		go t.run(setup, ready) // on another thread, while this one is locked
		<-t.done
		runtime.UnlockOSThread()
		return
	}
	defer close(t.done)
	var err error
	if setup != nil {
		err = setup()
	}
	ready <- err
	if err != nil {
		return
	}
	for {
		select {
		case job := <-t.jobs:
			job()
		case <-t.quit:
			return
		}
	}
}

// Start starts a child from the thread.
func (t *ThreadStarter) Start(spec *Spec) (child Child, err error) {
	started := make(chan struct{})
	job := func() {
		defer close(started)
		child, err = forkInGroup(spec)
	}
	select {
	case t.jobs <- job:
		<-started
		return child, err
	case <-t.done:
		return Child{}, fmt.Errorf("the starter thread is closed: %w", fault.WrongState)
	}
}

// Close ends the thread. Children with PR_SET_PDEATHSIG get their signal now.
func (t *ThreadStarter) Close() {
	t.once.Do(func() { close(t.quit) })
	<-t.done
}
