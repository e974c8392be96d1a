package guestd

import "golang.org/x/sys/unix"

// System calls that newer architectures lack: those with a mode, by the index of that
// argument, and open(2).
var legacyModeCalls = map[uint32]uint32{unix.SYS_CHMOD: 1, unix.SYS_CREAT: 1}

const legacyOpen = unix.SYS_OPEN

// legacyMknod is mknod(2) without a directory.
const legacyMknod = unix.SYS_MKNOD
