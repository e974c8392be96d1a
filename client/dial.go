package client

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/duplex"
	"github.com/croft-run/croft/internal/shellwire"
)

// A portConn is the WebSocket of a connection to a port.
type portConn struct {
	hangUp context.CancelFunc
	ended  chan struct{} // closed when nothing of the connection is left
}

// abort ends the connection and waits for its end.
func (p *portConn) abort() {
	p.hangUp()
	<-p.ended
}

// dialPort connects to a port of the workspace.
func (s *shell) dialPort(ctx context.Context, port int) (net.Conn, error) {
	if port < 1 || port > 65535 {
		return nil, fmt.Errorf("client: dial port %d: %w: a port is 1 to 65535", port, fault.InvalidArgument)
	}
	ws, err := s.c.dial(ctx, workspacePath(s.id, "/ports/"+strconv.Itoa(port)), nil)
	if err != nil {
		return nil, evictedError(err)
	}
	p := &portConn{ended: make(chan struct{})}
	ctx, p.hangUp = context.WithCancel(context.WithoutCancel(ctx))
	if err := s.add(p); err != nil {
		p.hangUp()
		ws.CloseNow() //nolint:errcheck // nothing was sent
		return nil, err
	}
	near, far := duplex.Pipe()
	go func() {
		defer close(p.ended)
		defer p.hangUp()
		defer s.remove(p)
		if err := shellwire.Tunnel(ctx, ws, far, far.PeerClosed()); err != nil {
			far.Abort(err)
		}
		far.Close() //nolint:errcheck // it always answers nil
	}()
	return near, nil
}
