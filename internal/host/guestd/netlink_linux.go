package guestd

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// No limit of memory has the receive buffers of netlink sockets, by which programs ask for
// addresses and routes. So the guest makes these sockets on behalf of the workload, and
// sets the sizes of their buffers: a workspace has at most maxNetlink, of netlinkBuffer.
//
// Seccomp can't tell what a descriptor is, so the guest sets the receive buffers of all
// sockets. Not bounded is what the kernel allocates during one call of a thread.

const (
	// maxNetlink is far above what programs use: most have such a socket for an instant.
	maxNetlink = 128
	// netlinkBuffer is half of Linux's default size; the kernel doubles what it is given.
	netlinkBuffer = 106496
)

// seccompAddFD is struct seccomp_notif_addfd; notifAddFD is the request that takes it, which
// package unix does not have.
type seccompAddFD struct {
	id                             uint64
	flags, source, target, fdFlags uint32
}

const notifAddFD = 0x40182103

// openNetlink makes the netlink socket that a notification asks for, and returns the
// workload's descriptor of it. What a socket may do depends on the rights of those who use
// it as well, so that the workload has none of the guest's by it.
func (b *socketBroker) openNetlink(n *seccompNotif) (int64, error) {
	b.netlink.Lock()
	defer b.netlink.Unlock()
	count, err := netlinkSockets()
	if err != nil {
		return 0, err
	}
	if count >= maxNetlink {
		return 0, unix.ENOBUFS
	}
	kind := int(uint32(n.args[1]))
	sock, err := unix.Socket(unix.AF_NETLINK, kind|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return 0, err
	}
	defer unix.Close(sock) //nolint:errcheck // the workload has a duplicate
	if err := unix.SetsockoptInt(sock, unix.SOL_SOCKET, unix.SO_RCVBUF, netlinkBuffer); err != nil {
		return 0, err
	}
	// Without SECCOMP_ADDFD_FLAG_SEND: if a signal of Go's runtime interrupts that, the
	// kernel has answered with descriptor 0.
	add := seccompAddFD{id: n.id, source: uint32(sock), fdFlags: uint32(kind & unix.SOCK_CLOEXEC)}
	fd, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(b.listener), notifAddFD, uintptr(unsafe.Pointer(&add)))
	if errno != 0 {
		return 0, errno
	}
	return int64(fd), nil
}

// netlinkSockets returns how many netlink sockets the network namespace has, also those
// that are in no process because they are being sent to one.
func netlinkSockets() (int, error) {
	data, err := os.ReadFile("/proc/thread-self/net/protocols")
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(data) {
		// The columns are the name, the size of an object, and the number of sockets.
		if columns := bytes.Fields(line); len(columns) > 2 && string(columns[0]) == "NETLINK" {
			return strconv.Atoi(string(columns[2]))
		}
	}
	return 0, errors.New("no line of netlink")
}

// setReceiveBuffer sets the size of a receive buffer as a notification asks for it. As the
// kernel does, it takes a size above the limit for the limit.
func (b *socketBroker) setReceiveBuffer(n *seccompNotif) error {
	const sizeOfInt = 4
	if int32(n.args[4]) < sizeOfInt { // as the kernel takes it, also a negative one
		return unix.EINVAL
	}
	value, err := readMemory(int(n.pid), uintptr(n.args[3]), sizeOfInt)
	if err != nil {
		return err
	}
	sock, err := descriptorOf(int(n.pid), int(int32(n.args[0])))
	if err != nil {
		return err
	}
	defer unix.Close(sock)                                                                    //nolint:errcheck // it is a duplicate
	if err := b.ioctl(unix.SECCOMP_IOCTL_NOTIF_ID_VALID, unsafe.Pointer(&n.id)); err != nil { // another process may have its number
		return err
	}
	family, err := unix.GetsockoptInt(sock, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil {
		return err
	}
	size := binary.NativeEndian.Uint32(value)
	if family == unix.AF_NETLINK {
		size = min(size, netlinkBuffer)
	}
	return unix.SetsockoptInt(sock, unix.SOL_SOCKET, unix.SO_RCVBUF, int(int32(size)))
}
