package guestd

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/internal/host/guestproto"
)

// serveMain is croft-guest as the guest of the workspace in dir, in this process: the
// configuration comes over standard input, the report goes to standard output, and both are
// closed. It is for machines that end the descendants of a program with the program.
func serveMain(dir string) int {
	conn, err := takeStdio()
	if err != nil {
		fmt.Fprintln(os.Stderr, "croft-guest:", err)
		return 1
	}
	g, err := startServing(dir, conn)
	return g.reportAndServe(err, func(report []byte) error {
		werr := guestproto.WriteMessage(conn, report)
		conn.Close()
		return werr
	})
}

func startServing(dir string, conn net.Conn) (*daemon, error) {
	config, err := guestproto.ReadMessage(conn, maxConfig)
	if err != nil {
		return nil, setupError("read the configuration", err)
	}
	d, err := newMachineStart(dir, config)
	if err != nil {
		return nil, err
	}
	defer d.closeAll()
	if err := d.openFiles(); err != nil {
		return nil, err
	}
	// Duplicates, as numbers: an os.File would close its descriptor when it is garbage
	// collected.
	for i, name := range []string{"listen", "log", "lock"} {
		fd, err := unix.FcntlInt(d.extra[fdFirst-fdConfig+i].Fd(), unix.F_DUPFD_CLOEXEC, fdFirst)
		if err != nil {
			return nil, setupError("keep the descriptor "+name, err)
		}
		d.cfg.Descriptors[name] = fd
	}
	if err := writeAtStart(d.lock, strconv.Itoa(os.Getpid())); err != nil {
		return nil, setupError("write the process id", err)
	}
	os.Clearenv()
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return nil, setupError("become undumpable", err)
	}
	return startDaemon(d.cfg)
}

// tunnelMain copies messages from standard input to the guest's socket, and bytes back. It
// ends if no message has come for guestproto.TunnelTimeout: the machine may keep it after
// its host is gone.
func tunnelMain(dir string) int {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil { // the token passes through
		return 1
	}
	err := os.Chdir(dir) // the address of a Unix socket holds only 108 bytes
	var conn net.Conn
	if err == nil {
		conn, err = net.Dial("unix", guestproto.MachineSocket) //nolint:noctx // it is there, or it is not
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "croft-guest:", err)
		return 1
	}
	alive := time.AfterFunc(guestproto.TunnelTimeout, func() { os.Exit(1) })
	go func() {
		buf := make([]byte, guestproto.MaxChunk)
		for {
			n, err := conn.Read(buf)
			if n > 0 {
				if _, werr := os.Stdout.Write(buf[:n]); werr != nil {
					os.Exit(1)
				}
			}
			if err != nil {
				os.Exit(0) // nothing can be answered any more
			}
		}
	}()
	for {
		message, err := guestproto.ReadMessage(os.Stdin, guestproto.MaxTunnelMessage)
		if err != nil {
			return 0
		}
		alive.Reset(guestproto.TunnelTimeout)
		if _, err := conn.Write(message); err != nil {
			return 0
		}
	}
}
