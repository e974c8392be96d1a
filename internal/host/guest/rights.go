package guest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/internal/host/guestproto/guestpb"
)

type groupKey struct{}

// WithGroup makes the next command that is run with ctx run in a cgroup of its own: files
// are what the guest needs for it, by the names in guestproto (CommandJoin and others). The
// caller closes them when the call has returned.
func WithGroup(ctx context.Context, files map[string]*os.File) context.Context {
	return context.WithValue(ctx, groupKey{}, files)
}

// sendGroup makes the descriptors of the command's cgroup go with the next bytes to the
// guest, so that they are there when the command is.
func (c *Client) sendGroup(ctx context.Context, pb *guestpb.Command) error {
	files, _ := ctx.Value(groupKey{}).(map[string]*os.File)
	if len(files) == 0 {
		return nil
	}
	if c.rights == nil {
		return fmt.Errorf("guest of %s: a cgroup for one command: %w: the connection takes no descriptors", c.workspace, fault.Unsupported)
	}
	pb.Group = make(map[string]string, len(files))
	list := make([]*os.File, 0, len(files))
	for what, f := range files {
		var st unix.Stat_t
		if err := unix.Fstat(int(f.Fd()), &st); err != nil {
			return fmt.Errorf("guest of %s: a cgroup for one command: %w: %w", c.workspace, fault.Unavailable, err)
		}
		pb.Group[what] = guestproto.FileKey(uint64(st.Dev), st.Ino) //nolint:unconvert // the type differs between systems
		list = append(list, f)
	}
	if err := c.rights.attach(list); err != nil {
		return fmt.Errorf("guest of %s: a cgroup for one command: %w: %w", c.workspace, fault.Unavailable, err)
	}
	return nil
}

// A rightsConn is a Unix connection that sends descriptors with its bytes.
type rightsConn struct {
	*net.UnixConn

	mu      sync.Mutex
	pending []int // copies that go with the next bytes
	closed  bool
}

// newRightsConn returns nil for a connection of another kind.
func newRightsConn(conn net.Conn) *rightsConn {
	u, ok := conn.(*net.UnixConn)
	if !ok {
		return nil
	}
	return &rightsConn{UnixConn: u}
}

// attach makes copies of descriptors go with the next bytes.
func (c *rightsConn) attach(files []*os.File) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	for _, f := range files {
		fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return err // those before it go along, and the guest drops them
		}
		c.pending = append(c.pending, fd)
	}
	return nil
}

func (c *rightsConn) takePending() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	fds := c.pending
	c.pending = nil
	return fds
}

// Write is called by one goroutine at a time.
func (c *rightsConn) Write(p []byte) (int, error) {
	fds := c.takePending()
	if len(fds) == 0 || len(p) == 0 {
		return c.UnixConn.Write(p)
	}
	defer closeDescriptors(fds) //nolint:errcheck // nothing was written to them
	n, _, err := c.WriteMsgUnix(p, unix.UnixRights(fds...), nil)
	if n = max(n, 0); err != nil || n == len(p) { // -1 with an error, which io.Writer does not allow
		return n, err
	}
	more, err := c.UnixConn.Write(p[n:])
	return n + more, err
}

func (c *rightsConn) Close() error {
	err := c.UnixConn.Close()
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	return errors.Join(err, closeDescriptors(c.takePending()))
}

func closeDescriptors(fds []int) error {
	var errs error
	for _, fd := range fds {
		errs = errors.Join(errs, unix.Close(fd))
	}
	return errs
}
