package guestd

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/guestproto"
)

// stdioSocket is an abstract Unix socket in the container's network namespace. While the
// guest lives, no other process can bind the name; a process of the workload may connect,
// and is refused without the token.
const stdioSocket = "@croft-guest"

// stdioMain is croft-guest in a container of a remote engine: the host speaks over standard
// input and output.
func stdioMain(dir string) int {
	conn, err := takeStdio()
	if err != nil {
		fmt.Fprintln(os.Stderr, "croft-guest:", err)
		return 1
	}
	g, err := startStdio(dir, conn)
	return g.reportAndServe(err, func(report []byte) error {
		werr := guestproto.WriteMessage(conn, report)
		if err == nil && werr == nil {
			g.listen.(*tokenListener).addTrusted(conn) // startStdio made it
		}
		return werr
	})
}

// takeStdio moves standard input and output to descriptors with close-on-exec and opens
// /dev/null in their place: no process of the workload may read or write the connection.
func takeStdio() (net.Conn, error) {
	var ends [2]*os.File
	for i := range ends {
		fd, err := unix.FcntlInt(uintptr(i), unix.F_DUPFD_CLOEXEC, fdFirst)
		if err == nil {
			err = unix.SetNonblock(fd, true) // so that Close unblocks a Read
		}
		if err != nil {
			return nil, setupError("take the standard streams", err)
		}
		ends[i] = os.NewFile(uintptr(fd), "stdio")
	}
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, setupError("open "+os.DevNull, err)
	}
	defer unix.Close(null) //nolint:errcheck // it has two other numbers
	for i := range ends {
		if err := unix.Dup3(null, i, 0); err != nil {
			return nil, setupError("take the standard streams", err)
		}
	}
	return guestproto.NewConn(duplex{ends[0], ends[1]}), nil
}

// A duplex is two files, one for each direction.
type duplex struct{ in, out *os.File }

func (d duplex) Read(p []byte) (int, error)  { return d.in.Read(p) }
func (d duplex) Write(p []byte) (int, error) { return d.out.Write(p) }
func (d duplex) Close() error                { return errors.Join(d.in.Close(), d.out.Close()) }

func startStdio(dir string, conn io.Reader) (*daemon, error) {
	data, err := guestproto.ReadMessage(conn, maxConfig)
	if err != nil {
		return nil, setupError("read the configuration", err)
	}
	cfg, err := guestproto.DecodeConfig(data)
	if err != nil {
		return nil, err
	}
	if cfg.Token == "" {
		return nil, setupError("serve", fmt.Errorf("the configuration has no token, and the workload can open the socket: %w", fault.InvalidArgument))
	}
	os.Clearenv()
	// The workload has the same user. It can't list the directory, and so can't find a
	// random name in it.
	log := filepath.Join(dir, rand.Text())
	if err := os.Mkdir(log, 0o700); err != nil {
		return nil, setupError("make the directory of logs", err)
	}
	if len(cfg.CACerts) > 0 {
		if err := os.WriteFile(filepath.Join(dir, guestproto.CACertsFile), cfg.CACerts, 0o444); err != nil { // programs of every user read it
			return nil, setupError("write the CA certificates", err)
		}
	}
	cfg.Descriptors, cfg.Paths = map[string]int{}, map[string]string{"listen": stdioSocket}
	if err := openDescriptor(cfg, "log", log, unix.O_DIRECTORY|unix.O_PATH); err != nil {
		return nil, setupError("open the directory of logs", err)
	}
	return startHardened(cfg)
}

// connectMain copies standard input and output to and from the guest's socket.
func connectMain(socket string) int {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil { // the token passes through
		return 1
	}
	conn, err := net.Dial("unix", socket) //nolint:noctx // it is there, or it is not
	if err != nil {
		fmt.Fprintln(os.Stderr, "croft-guest:", err)
		return 1
	}
	return bridgeStdio(conn)
}

// bridgeStdio copies standard input and output to and from a connection.
func bridgeStdio(conn net.Conn) int {
	var both sync.WaitGroup
	both.Go(func() {
		io.Copy(conn, os.Stdin) //nolint:errcheck // the guest sees the end of the connection
		conn.Close()
	})
	both.Go(func() {
		io.Copy(os.Stdout, conn) //nolint:errcheck // likewise
		os.Exit(0)               // nothing can be answered any more
	})
	both.Wait()
	return 0
}
