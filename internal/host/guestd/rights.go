package guestd

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/internal/host/process"
)

// maxRights bounds the descriptors that came and that no command has taken yet. One message
// has at most rightsPerRead of them.
const (
	maxRights     = 128
	rightsPerRead = 16
)

// A rightsStore keeps descriptors that hosts sent by SCM_RIGHTS, until the command that
// names them takes them.
type rightsStore struct {
	mu    sync.Mutex
	files []keyedFile // the oldest first
}

type keyedFile struct {
	key  string
	file *os.File
}

// add keeps a descriptor, and closes the oldest one beyond maxRights.
func (s *rightsStore) add(fd int) {
	f := os.NewFile(uintptr(fd), "received")
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		f.Close()
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.files) >= maxRights {
		s.files[0].file.Close()
		s.files = s.files[1:]
	}
	//nolint:unconvert // the type differs between systems
	s.files = append(s.files, keyedFile{guestproto.FileKey(uint64(st.Dev), st.Ino), f})
}

// take removes a descriptor; nil if it did not come.
func (s *rightsStore) take(key string) *os.File {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.files, func(k keyedFile) bool { return k.key == key })
	if i < 0 {
		return nil
	}
	f := s.files[i].file
	s.files = slices.Delete(s.files, i, i+1)
	return f
}

// takeGroup takes the cgroup of a command; nil if it has none of its own.
func (s *rightsStore) takeGroup(named map[string]string) (*process.CommandGroup, error) {
	if len(named) == 0 {
		return nil, nil
	}
	g := new(process.CommandGroup)
	for _, what := range slices.Sorted(maps.Keys(named)) {
		f := s.take(named[what])
		if f == nil {
			g.Close()
			return nil, fmt.Errorf("guest: the cgroup of the command did not come: %w", fault.Unavailable)
		}
		switch {
		case strings.HasPrefix(what, guestproto.CommandJoin):
			g.Join = append(g.Join, f)
		case strings.HasPrefix(what, guestproto.CommandLeave):
			g.Leave = append(g.Leave, f)
		case what == guestproto.CommandMaxPIDs:
			g.MaxPIDs = f
		case what == guestproto.CommandProcs:
			g.Procs = f
		case what == guestproto.CommandEvents:
			g.Events = f
		default:
			f.Close()
		}
	}
	return g, nil
}

// A rightsListener accepts connections over which descriptors come. Connections of another
// kind are as they are.
type rightsListener struct {
	net.Listener
	store *rightsStore
}

func (l rightsListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.store.wrap(conn), nil
}

func (s *rightsStore) wrap(conn net.Conn) net.Conn {
	u, ok := conn.(*net.UnixConn)
	if !ok {
		return conn
	}
	return &rightsConn{UnixConn: u, store: s, oob: make([]byte, unix.CmsgSpace(4*rightsPerRead))}
}

// A rightsConn is a connection that keeps the descriptors that come with its bytes.
type rightsConn struct {
	*net.UnixConn
	store *rightsStore
	oob   []byte // of Read, which one goroutine calls at a time
}

func (c *rightsConn) Read(p []byte) (int, error) {
	n, m, _, _, err := c.ReadMsgUnix(p, c.oob)
	if m > 0 {
		c.keep(c.oob[:m])
	}
	if errors.Is(err, io.EOF) {
		err = io.EOF
	}
	return max(n, 0), err // -1 with an error, which io.Reader does not allow
}

func (c *rightsConn) keep(oob []byte) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return // the kernel wrote it
	}
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			continue // credentials
		}
		for _, fd := range fds {
			c.store.add(fd)
		}
	}
}
