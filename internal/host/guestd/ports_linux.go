package guestd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/internal/host/process"
	"github.com/croft-run/croft/workspace/driver"
)

// A portDialer connects to ports on which the workload listens.
//
// A guest in a network namespace of its own reaches no port but those of the workload, and
// that of the relay, which is refused: through it, the client of a port would send requests
// as the workload, with the credentials that the egress proxy adds.
//
// A guest without isolation shares the loopback with the host. There a port counts as the
// workload's if every socket that could accept the connection belongs to a descendant of
// the guest. That is checked before and after the connect: a listener that was replaced
// meanwhile has another inode.
type portDialer struct{ cfg *guestproto.Config }

// portTimeout bounds a connect to a program that does not accept connections.
const portTimeout = 10 * time.Second

// A loopback is an address to connect to, and the local addresses in /proc/net/tcp and
// /proc/net/tcp6 of listeners that accept connections to it. Both architectures of the
// guest are little-endian.
type loopback struct {
	host      string
	listeners []string
}

var loopbacks = []loopback{
	{"127.0.0.1", []string{"00000000", "0100007F", strings.Repeat("0", 32), "0000000000000000FFFF00000100007F"}},
	{"::1", []string{strings.Repeat("0", 32), "00000000000000000000000001000000"}},
}

func (d *portDialer) dial(ctx context.Context, port int) (net.Conn, error) {
	switch {
	case d.cfg.Confine.NoNetwork:
		return nil, fmt.Errorf("port %d: %w: processes of the workspace can't listen on ports", port, fault.Unsupported)
	case port < 1 || port > 65535:
		return nil, fmt.Errorf("port %d: %w: a port is 1 to 65535", port, fault.InvalidArgument)
	case port == d.cfg.RelayPort, slices.ContainsFunc(d.cfg.Forwards, func(at string) bool { return strings.HasSuffix(at, fmt.Sprintf(":%d", port)) }):
		return nil, errRefused(port)
	}
	ctx, cancel := context.WithTimeout(ctx, portTimeout)
	defer cancel()
	for _, at := range loopbacks {
		conn, err := d.dialAt(ctx, at, port)
		switch {
		case err == nil:
			return conn, nil
		case errors.Is(err, unix.ECONNREFUSED), errors.Is(err, unix.EADDRNOTAVAIL), errors.Is(err, unix.EAFNOSUPPORT), errors.Is(err, unix.ENETUNREACH): // the last three without IPv6
			continue
		case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
			return nil, fmt.Errorf("port %d: %w: the program that listens accepts no connection", port, fault.DeadlineExceeded)
		}
		return nil, fmt.Errorf("port %d: %w: %w", port, fault.Unavailable, err)
	}
	return nil, errRefused(port)
}

func errRefused(port int) error {
	return fault.WithCause(fmt.Errorf("port %d: %w: no process of the workspace listens on it", port, fault.Unavailable), fault.CauseRefused)
}

// dialAt connects to a port of one address.
func (d *portDialer) dialAt(ctx context.Context, at loopback, port int) (net.Conn, error) {
	shared := d.cfg.Level == driver.IsolationNone
	var before []string
	if shared {
		var err error
		if before, err = ownListeners(at, port); err != nil {
			return nil, err
		}
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(at.host, strconv.Itoa(port)))
	if err != nil || !shared {
		return conn, err
	}
	after, err := ownListeners(at, port)
	if err == nil && !slices.Equal(before, after) {
		err = unix.ECONNREFUSED
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// ownListeners returns the inodes, sorted, of the sockets that accept connections to a port
// of an address. It is ECONNREFUSED if there is none, or one that no descendant of this
// process has.
func ownListeners(at loopback, port int) ([]string, error) {
	inodes, err := listeners(at, port)
	if err != nil {
		return nil, err
	}
	if len(inodes) == 0 {
		return nil, unix.ECONNREFUSED
	}
	missing := slices.Clone(inodes)
	for _, pid := range process.Descendants() {
		for _, inode := range socketsOf(pid) {
			missing = slices.DeleteFunc(missing, func(m string) bool { return m == inode })
		}
	}
	if len(missing) > 0 {
		return nil, unix.ECONNREFUSED
	}
	return inodes, nil
}

// listeners returns the inodes, sorted, of the sockets that accept connections to a port of
// an address.
func listeners(at loopback, port int) ([]string, error) {
	var inodes []string
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		data, err := os.ReadFile(table)
		if errors.Is(err, os.ErrNotExist) { // without IPv6
			continue
		}
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(data)) {
			f := strings.Fields(line) // sl local_address rem_address st queues timer retransmits uid timeout inode
			if len(f) < 10 || f[3] != "0A" {
				continue
			}
			if host, hex, _ := strings.Cut(f[1], ":"); slices.Contains(at.listeners, host) && hex == fmt.Sprintf("%04X", port) {
				inodes = append(inodes, f[9])
			}
		}
	}
	slices.Sort(inodes)
	return inodes, nil
}

// socketsOf returns the inodes of the sockets that a process has open.
func socketsOf(pid int) []string {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // it has ended, or belongs to another user
	}
	var inodes []string
	for _, e := range entries {
		target, err := os.Readlink(dir + "/" + e.Name())
		if inode, ok := strings.CutPrefix(target, "socket:["); ok && err == nil {
			inodes = append(inodes, strings.TrimSuffix(inode, "]"))
		}
	}
	return inodes
}
