package guestd

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/internal/host/guestproto"
)

// A Unix socket of the host in a directory that is shown, such as one of tmux or of an
// editor, runs code on the host for every process that connects. Neither a read-only mount
// nor a network namespace nor Landlock (before the version of Linux 7) prevents connect(2)
// by a path. So the guest connects on behalf of the workload, by seccomp user notification:
// it copies the address, opens the socket's file, and connects only if that file is in one
// of Confine.ConnectBelow. The workload can change the address or the path meanwhile, and
// changes nothing: the guest uses its copy and its descriptor.
//
// Datagram sockets, which need no connect(2), are refused: see socketRules.

// socketBroker makes the connections and the netlink sockets of the workload.
type socketBroker struct {
	listener   int // of the notifications
	uid, gid   int // of the workload; -1 is the guest's own
	below      []socketDir
	noAbstract bool // abstract sockets are the host's: there is no network namespace
	places     chan struct{}
	netlink    sync.Mutex // held while the netlink sockets are counted and one is made
}

// A socketDir is a directory whose sockets the workload may connect to.
type socketDir struct {
	path  string
	mount uint64
}

// maxConnecting bounds the calls that are being made, each by a thread of the guest. None blocks: a
// connect that would is made again after a pause, as often as its caller waits, and holds
// nothing of the guest meanwhile but memory. So those that wait are as many as threads of the workload.
const (
	maxConnecting = 64
	firstPause    = time.Millisecond
	longestPause  = 250 * time.Millisecond
	// handshake is how long a call waits for a TCP connection, which is there at once unless the listener's backlog is full.
	handshake = 5 * time.Millisecond
)

// errWouldBlock is the outcome of a connect on a blocking socket that can't be made yet.
var errWouldBlock = errors.New("it would block")

// startSocketBroker serves the notifications of a filter until the guest ends.
func startSocketBroker(cfg *guestproto.Config, listener int) {
	b := &socketBroker{
		listener: listener, uid: cfg.UID, gid: cfg.GID, noAbstract: cfg.Confine.NoNetwork, places: make(chan struct{}, maxConnecting),
	}
	for _, dir := range cfg.Confine.ConnectBelow {
		real, err := filepath.EvalSymlinks(dir)
		if err != nil {
			continue // it is not there, and nothing below it
		}
		if mount, err := mountIDAt(unix.AT_FDCWD, real, 0); err == nil {
			b.below = append(b.below, socketDir{real, mount})
		}
	}
	go b.serve() // ends with the process
}

// mountIDAt returns the id of the mount of a file.
func mountIDAt(fd int, path string, flags int) (uint64, error) {
	var st unix.Statx_t
	if err := unix.Statx(fd, path, flags, unix.STATX_MNT_ID, &st); err != nil {
		return 0, err
	}
	return st.Mnt_id, nil
}

// seccompNotif is struct seccomp_notif, seccompAnswer is struct seccomp_notif_resp.
type (
	seccompNotif struct {
		id    uint64
		pid   uint32
		flags uint32
		nr    int32
		arch  uint32
		ip    uint64
		args  [6]uint64
	}
	seccompAnswer struct {
		id    uint64
		value int64
		errno int32
		flags uint32
	}
)

func (b *socketBroker) ioctl(request uintptr, arg unsafe.Pointer) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(b.listener), request, uintptr(arg))
	if errno != 0 {
		return errno
	}
	return nil
}

func (b *socketBroker) serve() {
	for {
		var n seccompNotif
		err := b.ioctl(unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n))
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.ENOENT): // ENOENT: the caller was killed
			continue
		case err != nil:
			return // the calls of the workload fail from now on
		}
		b.places <- struct{}{} // further callers wait
		go func() {
			defer func() { <-b.places }()
			switch n.nr {
			case unix.SYS_SOCKET:
				fd, err := b.openNetlink(&n)
				b.answer(n.id, fd, err)
			case unix.SYS_SETSOCKOPT:
				b.answer(n.id, 0, b.setReceiveBuffer(&n))
			default:
				b.answer(n.id, 0, b.connectWaiting(&n))
			}
		}()
	}
}

func (b *socketBroker) answer(id uint64, value int64, err error) {
	a := seccompAnswer{id: id, value: value}
	if err != nil {
		var errno unix.Errno
		if !errors.As(err, &errno) {
			errno = unix.EACCES
		}
		a.errno = -int32(errno)
	}
	b.ioctl(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&a)) //nolint:errcheck // a caller that was killed needs no answer
}

// connectWaiting makes the connection that a notification asks for. On a socket that blocks it waits until
// the connection can be made, the time-out of the socket is over, or the caller is gone, and gives up its place meanwhile.
func (b *socketBroker) connectWaiting(n *seccompNotif) error {
	address, err := readAddress(int(n.pid), uintptr(n.args[1]), n.args[2])
	if err != nil {
		return err
	}
	began := time.Now()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		limit, err := b.connect(n, address)
		if !errors.Is(err, errWouldBlock) {
			return err
		}
		if left := limit - time.Since(began); limit > 0 && left < pause {
			if pause = left; left <= 0 {
				if isUnix(address) {
					return unix.EAGAIN
				}
				return unix.EINPROGRESS
			}
		}
		<-b.places
		time.Sleep(pause)
		b.places <- struct{}{}
	}
}

// connect makes the connection to an address, once. limit is the time-out of the socket, 0 for none, if the error is errWouldBlock.
func (b *socketBroker) connect(n *seccompNotif, address []byte) (limit time.Duration, err error) {
	pid := int(n.pid)
	sock, err := descriptorOf(pid, int(int32(n.args[0])))
	if err != nil {
		return 0, err
	}
	defer unix.Close(sock)                                                                    //nolint:errcheck // it is a duplicate
	if err := b.ioctl(unix.SECCOMP_IOCTL_NOTIF_ID_VALID, unsafe.Pointer(&n.id)); err != nil { // another process may have its number
		return 0, err
	}
	if path, ok := socketPath(address); ok {
		file, err := b.openSocket(pid, path)
		if err != nil {
			return 0, err
		}
		defer unix.Close(file) //nolint:errcheck // nothing is lost with it
		address = unixAddress(fmt.Sprintf("/proc/self/fd/%d", file))
	} else if isUnix(address) && b.noAbstract && len(address) > familySize {
		return 0, unix.EACCES
	}
	done := make(chan error)
	go func() { done <- b.connectAsWorkload(sock, address) }()
	if err = <-done; errors.Is(err, errWouldBlock) {
		timeout, terr := unix.GetsockoptTimeval(sock, unix.SOL_SOCKET, unix.SO_SNDTIMEO)
		if terr == nil {
			limit = time.Duration(timeout.Nano())
		}
	}
	return limit, err
}

// connectAsWorkload connects a socket without blocking, by a thread with the user of the workload, which the peer sees.
// The thread ends with the goroutine.
func (b *socketBroker) connectAsWorkload(sock int, address []byte) error {
	runtime.LockOSThread()
	if err := setThreadUser(b.uid, b.gid); err != nil {
		return err
	}
	connect := func() error {
		_, _, errno := unix.Syscall(unix.SYS_CONNECT, uintptr(sock), uintptr(unsafe.Pointer(&address[0])), uintptr(len(address)))
		if errno != 0 {
			return errno
		}
		return nil
	}
	flags, err := unix.FcntlInt(uintptr(sock), unix.F_GETFL, 0)
	if err != nil {
		return err
	}
	if flags&unix.O_NONBLOCK != 0 {
		return connect()
	}
	// The flag is that of all who have the socket, which is of no use to them before it is connected.
	if _, err := unix.FcntlInt(uintptr(sock), unix.F_SETFL, flags|unix.O_NONBLOCK); err != nil {
		return err
	}
	defer unix.FcntlInt(uintptr(sock), unix.F_SETFL, flags) //nolint:errcheck // the same call succeeded above
	err = connect()
	if errors.Is(err, unix.EINPROGRESS) || errors.Is(err, unix.EALREADY) {
		unix.Poll([]unix.PollFd{{Fd: int32(sock), Events: unix.POLLOUT}}, int(handshake.Milliseconds())) //nolint:errcheck // the next call tells
		err = connect()
	}
	if errors.Is(err, unix.EINPROGRESS) || errors.Is(err, unix.EALREADY) || isUnix(address) && errors.Is(err, unix.EAGAIN) {
		return errWouldBlock
	}
	return err
}

// familySize is the size of the address family, with which every address begins.
const familySize = 2

// readAddress copies a socket address from the memory of a process.
func readAddress(pid int, at uintptr, size uint64) ([]byte, error) {
	if size < familySize || size > unix.SizeofSockaddrAny {
		return nil, unix.EINVAL
	}
	return readMemory(pid, at, size)
}

// readMemory copies bytes from the memory of a process.
func readMemory(pid int, at uintptr, size uint64) ([]byte, error) {
	data := make([]byte, size)
	local := unix.Iovec{Base: &data[0]}
	local.SetLen(len(data))
	n, err := unix.ProcessVMReadv(pid, []unix.Iovec{local}, []unix.RemoteIovec{{Base: at, Len: len(data)}}, 0)
	if err == nil && n != len(data) {
		err = unix.EFAULT
	}
	return data, err
}

// descriptorOf returns a duplicate of a descriptor of the process that has a thread.
func descriptorOf(tid, fd int) (int, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
	if err != nil {
		return -1, unix.ESRCH
	}
	_, rest, _ := strings.Cut(string(status), "\nTgid:")
	text, _, _ := strings.Cut(rest, "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		return -1, unix.ESRCH
	}
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(pidfd) //nolint:errcheck // nothing is lost with it
	return unix.PidfdGetfd(pidfd, fd, 0)
}

func isUnix(address []byte) bool { return address[0] == unix.AF_UNIX && address[1] == 0 }

// socketPath returns the path in an address; abstract addresses and other families have none.
func socketPath(address []byte) (string, bool) {
	if !isUnix(address) || len(address) == familySize || address[familySize] == 0 {
		return "", false
	}
	path, _, _ := bytes.Cut(address[familySize:], []byte{0})
	return string(path), true
}

func unixAddress(path string) []byte {
	return append(append([]byte{unix.AF_UNIX, 0}, path...), 0)
}

// openSocket opens the file at a path as a process sees it, and checks that the workload
// may connect to it. All processes have one root; /proc/self is each one's own.
func (b *socketBroker) openSocket(pid int, path string) (int, error) {
	at := unix.AT_FDCWD
	if rest, ok := strings.CutPrefix(path, "/proc/self/"); ok {
		path = fmt.Sprintf("/proc/%d/%s", pid, rest)
	}
	if !filepath.IsAbs(path) {
		cwd, err := unix.Open(fmt.Sprintf("/proc/%d/cwd", pid), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return -1, err
		}
		defer unix.Close(cwd) //nolint:errcheck // nothing is lost with it
		at = cwd
	}
	fd, err := unix.Openat(at, path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if !b.mayConnect(fd) {
		unix.Close(fd) //nolint:errcheck // nothing is lost with it
		return -1, unix.EACCES
	}
	return fd, nil
}

// mayConnect reports whether an open file is in one of the directories. The path alone
// does not tell: a directory of the host may be mounted below one of them.
func (b *socketBroker) mayConnect(fd int) bool {
	mount, err := mountIDAt(fd, "", unix.AT_EMPTY_PATH)
	if err != nil {
		return false
	}
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return false
	}
	for _, dir := range b.below {
		if dir.mount == mount && strings.HasPrefix(path, dir.path+"/") {
			return true
		}
	}
	return false
}
