package guestproto

import (
	"errors"
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// SeccompNotifies returns why a guest of this process can't have notifications of seccomp,
// or nil. It tries on a thread that ends with the test: a version of Linux tells of the
// first reason alone, not of somebody who has the one listener of a process.
var SeccompNotifies = sync.OnceValue(func() error {
	result := make(chan error)
	go onOwnThread(func() { result <- tryListener() })
	return <-result
})

// onOwnThread calls f on a thread that ends with this goroutine. The main thread never ends: it would
// keep the filter, and /proc/self/status tells of that thread.
func onOwnThread(f func()) {
	runtime.LockOSThread() // and never unlocked
	if unix.Gettid() != unix.Getpid() {
		f()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		onOwnThread(f)
	}()
	<-done
	runtime.UnlockOSThread()
}

func tryListener() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	allow := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}
	prog := unix.SockFprog{Len: 1, Filter: &allow}
	const flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
	fd, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
	switch errno {
	case 0:
		return unix.Close(int(fd))
	case unix.EINVAL:
		return errors.New("a kernel before Linux 5.19 has no such notifications of seccomp")
	case unix.EBUSY:
		return errors.New("what runs Croft, such as a container engine, uses the notifications of seccomp itself")
	}
	return errno
}
