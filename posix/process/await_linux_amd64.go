package process

import (
	"encoding/binary"
	"errors"
	"reflect"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/internal/openfiles"
)

// longestWait is how long a child waits for its word. Until it is over nothing else of
// this process is sure to run: the thread is lost to Go meanwhile.
var longestWait = 600 * time.Microsecond // tests have more

// awaitCall stands for waiting for the word in a list of calls.
const awaitCall = ^uintptr(0)

// A step is a system call that a child makes.
type step struct {
	nr    uintptr
	args  [6]uintptr // the last two are the word's alone
	errno syscall.Errno
}

// cloneArgs is what clone3(2) takes.
type cloneArgs struct {
	flags, pidfd uint64
	_            [2]uint64 // where to put ids of threads
	exitSignal   uint64
	_            [5]uint64 // a stack, thread-local storage, ids to have
	cgroup       uint64
}

// A birth is all that a child needs on its way to its program. It is on the heap, where
// nothing moves.
type birth struct {
	args  cloneArgs
	masks [2]uint64 // of signals: all, and those blocked before
	pidfd int32
	calls [12]step
	used  int
	heard [3]uint64 // the word as it came, and when it was not there yet
	await *step     // of calls
	from  time.Time // when it began to wait, here and as the kernel counts
	mono  int64
	spent unix.Timespec // of a processor's time until it heard the word
	limit openfiles.Limit

	path, dir *byte
	argv, env []*byte
}

// deaf is set once the kernel has said that it does not make children in this way.
var deaf atomic.Bool

// clone is in assembly. What it is given is on the heap because Go is not told that it
// keeps none of it.
func clone(args *cloneArgs, size uintptr, masks *[2]uint64, todo *step) uintptr

// forkAwaiting starts a child that waits for spec.Await by itself. An error that is not
// ErrNoWord is of a child that has heard the word; all others are for who starts it in
// the other way to tell.
func forkAwaiting(spec *Spec) (Child, error) {
	if deaf.Load() || runtime.NumCPU() < 2 || !simple(spec) || !pidfds() {
		return Child{}, ErrNoWord
	}
	b, err := conceive(spec)
	if err != nil {
		return Child{}, ErrNoWord
	}
	if !syscall.ForkLock.TryLock() { // others start children, together, and would let this one wait for the last of them
		return Child{}, ErrNoWord
	}
	b.wait(spec.Await)
	pid := clone(&b.args, unsafe.Sizeof(b.args), &b.masks, &b.calls[0])
	syscall.ForkLock.Unlock()
	runtime.KeepAlive(b)
	if errno := -int(pid); errno > 0 && errno < 4096 {
		switch syscall.Errno(errno) {
		case syscall.ENOSYS, syscall.EINVAL, syscall.EPERM:
			deaf.Store(true)
		}
		return Child{}, ErrNoWord
	}
	child := Child{PID: int(pid), PIDFD: int(b.pidfd), began: b.began(), spent: time.Duration(b.spent.Nano())}
	if err := b.failed(); err != nil {
		child.reap() //nolint:errcheck // it has ended, and says no more
		closeRaw(child.PIDFD)
		return Child{}, err
	}
	return child, nil
}

// simple reports whether a child needs nothing that is not done here.
func simple(spec *Spec) bool {
	for _, fd := range spec.Files {
		if int(fd) < len(spec.Files) {
			return false
		}
	}
	rest := *spec.Sys
	rest.Setsid, rest.UseCgroupFD, rest.CgroupFD = false, false, 0
	return len(spec.Files) == 3 && len(spec.Await.Word) <= 8 && reflect.ValueOf(&rest).Elem().IsZero()
}

// conceive prepares a child of spec.
func conceive(spec *Spec) (*birth, error) {
	b := &birth{pidfd: -1, masks: [2]uint64{^uint64(0), 0}}
	var errs [4]error
	b.path, errs[0] = syscall.BytePtrFromString(spec.Path)
	b.dir, errs[1] = syscall.BytePtrFromString(spec.Dir)
	b.argv, errs[2] = syscall.SlicePtrFromStrings(spec.Argv)
	b.env, errs[3] = syscall.SlicePtrFromStrings(spec.Env)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	b.args = cloneArgs{
		flags:      unix.CLONE_VM | unix.CLONE_VFORK | unix.CLONE_PIDFD | unix.CLONE_CLEAR_SIGHAND,
		pidfd:      uint64(uintptr(unsafe.Pointer(&b.pidfd))),
		exitSignal: uint64(unix.SIGCHLD),
	}
	if spec.Sys.UseCgroupFD {
		b.args.flags |= unix.CLONE_INTO_CGROUP
		b.args.cgroup = uint64(spec.Sys.CgroupFD)
	}
	b.call(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL)) // else it would hear the word alone
	if spec.Sys.Setsid {
		b.call(unix.SYS_SETSID)
	}
	b.await = b.call(awaitCall)
	b.call(unix.SYS_CLOCK_GETTIME, unix.CLOCK_PROCESS_CPUTIME_ID, uintptr(unsafe.Pointer(&b.spent)))
	b.call(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, 0)
	if spec.Dir != "" {
		b.call(unix.SYS_CHDIR, uintptr(unsafe.Pointer(b.dir)))
	}
	for i, fd := range spec.Files {
		b.call(unix.SYS_DUP3, fd, uintptr(i), 0)
	}
	if limit, ok := openFiles(); ok {
		b.limit = limit
		b.call(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, uintptr(unsafe.Pointer(&b.limit)), 0)
	}
	b.call(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&b.masks[1])), 0, unsafe.Sizeof(b.masks[1]))
	b.call(unix.SYS_EXECVE, uintptr(unsafe.Pointer(b.path)), uintptr(unsafe.Pointer(&b.argv[0])), uintptr(unsafe.Pointer(&b.env[0])))
	return b, nil
}

// openFiles is the limit of a child whose parent has one that Go has raised.
func openFiles() (openfiles.Limit, bool) {
	given, ok := openfiles.Given()
	if !ok || given.Max == 0 || given.Cur >= given.Max-1 {
		return given, false
	}
	var now syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &now)
	return given, err == nil && now.Cur == given.Max-1 && now.Max == given.Max // else others have changed it since
}

func (b *birth) call(nr uintptr, args ...uintptr) *step {
	c := &b.calls[b.used]
	c.nr = nr
	copy(c.args[:], args)
	b.used++
	return c
}

// wait says what the child waits for, and until when. Until the child has heard it, it
// has failed to.
func (b *birth) wait(a *Await) {
	var word [8]byte
	copy(word[:], a.Word)
	var now unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) //nolint:errcheck // it has that clock
	b.from, b.mono = time.Now(), now.Nano()
	b.await.args = [6]uintptr{uintptr(a.FD), uintptr(unsafe.Pointer(&b.heard[0])), uintptr(len(a.Word)),
		uintptr(binary.LittleEndian.Uint64(word[:])), uintptr(b.mono + longestWait.Nanoseconds())}
	b.await.errno = syscall.ECANCELED
}

// began is when the word came.
func (b *birth) began() time.Time {
	if b.heard[1] == 0 && b.heard[2] == 0 { // it was there
		return b.from
	}
	last := unix.Timespec{Sec: int64(b.heard[1]), Nsec: int64(b.heard[2])}
	return b.from.Add(time.Duration(last.Nano() - b.mono))
}

// failed returns why a child did not become its program: ErrNoWord where it has not heard
// the word, be it that it was killed before.
func (b *birth) failed() error {
	if b.await.errno != 0 {
		return ErrNoWord
	}
	for i := range b.calls[:b.used] {
		if c := &b.calls[i]; c.errno != 0 {
			return c.errno
		}
	}
	return nil
}
