package guest

import (
	"context"
	"net"
	"sync"

	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/internal/host/guestproto/guestpb"
)

// maxRelayed bounds the connections that a guest, which may be hostile, makes the host hold.
const maxRelayed = 320

// Relay forwards connections of the workload to the egress proxy, which dial reaches,
// until the connection to the guest ends. It is for guests with Config.RemoteProxy. Several
// hosts may relay for one guest; each connection goes through one of them.
func (c *Client) Relay(dial func(ctx context.Context) (net.Conn, error)) {
	c.relays.Go(func() {
		ctx, cancel := context.WithCancel(background())
		defer cancel()
		var carried sync.WaitGroup
		defer carried.Wait()
		defer cancel()
		places := make(chan struct{}, maxRelayed)
		for {
			select {
			case places <- struct{}{}:
			case <-c.gone:
				return
			}
			resp, err := c.relay.Next(ctx, &guestpb.RelayRequest{Client: c.name})
			if err != nil || resp.End {
				return
			}
			carried.Go(func() {
				defer func() { <-places }()
				c.relayConn(ctx, resp.Id, dial)
			})
		}
	})
}

// relayConn forwards one connection in both directions until both have ended.
func (c *Client) relayConn(ctx context.Context, id int64, dial func(ctx context.Context) (net.Conn, error)) {
	defer c.relay.Close(ctx, &guestpb.RelayRequest{Id: id}) //nolint:errcheck // the connection ends with the guest
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out, err := dial(ctx)
	if err != nil {
		return
	}
	defer out.Close()
	defer context.AfterFunc(ctx, func() { out.Close() })()
	var both sync.WaitGroup
	both.Go(func() {
		if !c.relayOutbound(ctx, id, out) {
			cancel()
		}
	})
	if !c.relayInbound(ctx, id, out) {
		cancel()
	}
	both.Wait()
}

// relayOutbound forwards bytes of the workload to the proxy, and reports whether it reached their end.
func (c *Client) relayOutbound(ctx context.Context, id int64, out net.Conn) bool {
	for {
		resp, err := c.relay.Read(ctx, &guestpb.RelayRequest{Id: id})
		if err != nil || len(resp.Data) == 0 && !resp.End { // a guest that keeps the protocol waits for bytes
			return false
		}
		if len(resp.Data) > 0 {
			if _, err := out.Write(resp.Data); err != nil {
				return false
			}
		}
		if resp.Broken {
			return false
		}
		if resp.End {
			half, ok := out.(interface{ CloseWrite() error })
			return ok && half.CloseWrite() == nil
		}
	}
}

// relayInbound forwards bytes of the proxy to the workload, and reports whether it reached their end.
func (c *Client) relayInbound(ctx context.Context, id int64, out net.Conn) bool {
	buf := make([]byte, guestproto.RelayChunk)
	for {
		n, rerr := out.Read(buf)
		resp, err := c.relay.Write(ctx, &guestpb.RelayRequest{Id: id, Data: buf[:n], End: rerr != nil})
		if err != nil || resp.End {
			return false
		}
		if rerr != nil {
			return true
		}
	}
}
