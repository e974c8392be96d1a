package guest

import (
	"context"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/duplex"
	"github.com/croft-run/croft/internal/host/guestproto/guestpb"
)

// dialPort connects to a port of the workload.
func (c *Client) dialPort(ctx context.Context, port int) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("guest of %s: dial: %w", c.workspace, err)
	}
	if port < 1 || port > 65535 {
		return nil, fmt.Errorf("guest of %s: dial port %d: %w: a port is 1 to 65535", c.workspace, port, fault.InvalidArgument)
	}
	if err := c.checkConnected(); err != nil {
		return nil, err
	}
	type answer struct {
		id  int64
		err error
	}
	answered := make(chan answer, 1)
	go func() { // ends with the call, which the guest bounds, or with the connection
		resp, err := c.relay.Dial(background(), &guestpb.RelayRequest{Client: c.name, Port: int32(port)})
		answered <- answer{resp.GetId(), err}
	}()
	select {
	case a := <-answered:
		if a.err != nil {
			return nil, c.callError("dial", a.err)
		}
		near, far := duplex.Pipe()
		c.relays.Go(func() { c.carryConn(a.id, far) })
		return near, nil
	case <-ctx.Done():
		c.relays.Go(func() { // the guest may be connected by now
			if a := <-answered; a.err == nil {
				c.closeConn(a.id)
			}
		})
		return nil, fmt.Errorf("guest of %s: dial port %d: %w", c.workspace, port, ctx.Err())
	}
}

// lingerTime is how long written bytes may take to reach the workload after Close.
const lingerTime = 10 * time.Second

// carryConn forwards a dialed connection in both directions until both have ended. far is
// the other end of the connection that the caller has.
func (c *Client) carryConn(id int64, far *duplex.Conn) {
	defer c.closeConn(id)
	var writes sync.WaitGroup
	written, done := make(chan struct{}), make(chan struct{})
	writes.Go(func() {
		defer close(written)
		if !c.relayInbound(background(), id, far) {
			far.CloseRead() //nolint:errcheck // it always answers nil
		}
	})
	writes.Go(func() { // ends the calls below, and those of the caller
		select {
		case <-done:
		case <-c.gone:
			far.Abort(c.resetError())
		case <-far.PeerClosed():
			select {
			case <-written:
			case <-c.gone:
			case <-time.After(lingerTime):
			}
			c.closeConn(id)
		}
	})
	if !c.relayOutbound(background(), id, far) {
		far.Abort(c.resetError())
	}
	<-written
	close(done)
	writes.Wait()
}

func (c *Client) resetError() error {
	return fmt.Errorf("guest of %s: %w: %w", c.workspace, fault.Unavailable, syscall.ECONNRESET)
}

func (c *Client) closeConn(id int64) {
	c.relay.Close(background(), &guestpb.RelayRequest{Id: id}) //nolint:errcheck // the connection ends with the guest
}
