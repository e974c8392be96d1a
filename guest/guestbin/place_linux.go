package guestbin

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// place writes the program to memory that is sealed: it needs no directory, and
// ends with the last process that uses it. The descriptor stays open for the
// life of this process.
func place(data []byte) (string, error) {
	fd, err := unix.MemfdCreate(Name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_EXEC)
	if err != nil { // a kernel before 6.3 does not know MFD_EXEC
		fd, err = unix.MemfdCreate(Name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return "", err
	}
	f := os.NewFile(uintptr(fd), Name)
	if _, err := f.Write(data); err != nil {
		f.Close()
		return "", err
	}
	if err := f.Chmod(0o555); err != nil {
		f.Close()
		return "", err
	}
	const all = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, all); err != nil {
		f.Close()
		return "", err
	}
	kept = f
	return fmt.Sprintf("/proc/self/fd/%d", f.Fd()), nil
}

// kept keeps the descriptor from the garbage collector.
var kept *os.File
