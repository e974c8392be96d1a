package mcpserver

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// pipeSize is how much of an answer a pipe takes before the client has read any.
const pipeSize = 512 << 10

// widen has a pipe take large answers at once, where the system lets it.
func widen(out io.Writer) {
	f, ok := out.(*os.File)
	if !ok {
		return
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Control(func(fd uintptr) { // where it can't be, an answer goes in parts
		_, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, pipeSize)
	})
}
