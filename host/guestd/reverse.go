package guestd

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/croft-run/croft/host/guestproto"
	"github.com/croft-run/croft/host/guestproto/guestpb"
)

// reverseConns are connections of the workload to the proxy where that is out of reach:
// on a host that the guest hears of over one stream alone. The host asks for each,
// and carries its bytes.
type reverseConns struct {
	waiting chan *reverseConn
	closed  chan struct{}

	mu    sync.Mutex
	last  int64
	taken map[int64]*reverseConn // guarded by mu
}

// An reverseConn is one connection.
type reverseConn struct {
	conn   net.Conn
	client string    // who took it
	used   bool      // something was read or written
	done   chan bool // told when the client is done with it, or gone: whether another may take it
}

func newReverseConns() *reverseConns {
	return &reverseConns{waiting: make(chan *reverseConn), closed: make(chan struct{}), taken: map[int64]*reverseConn{}}
}

// reverseTimeout is how long a connection waits for a host that is there to take
// it: one that is busy takes microseconds.
var reverseTimeout = 10 * time.Second // tests have more

// forward offers a connection, and returns when it is over. The caller closes it.
func (o *reverseConns) forward(conn net.Conn) {
	of := &reverseConn{conn: conn, done: make(chan bool, 1)}
	patience := time.NewTimer(reverseTimeout)
	defer patience.Stop()
	for again := true; again; {
		select {
		case o.waiting <- of:
		case <-patience.C:
			return
		case <-o.closed:
			return
		}
		select {
		case again = <-of.done:
		case <-o.closed:
			return
		}
	}
}

func (o *reverseConns) assign(of *reverseConn, client string) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last++
	of.client = client
	o.taken[o.last] = of
	return o.last
}

func (o *reverseConns) use(id int64) *reverseConn {
	o.mu.Lock()
	defer o.mu.Unlock()
	of := o.taken[id]
	if of != nil {
		of.used = true
	}
	return of
}

// finish ends a connection, or offers it again if nobody has used it.
func (o *reverseConns) finish(id int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.finishLocked(id)
}

// The caller holds o.mu.
func (o *reverseConns) finishLocked(id int64) {
	if of := o.taken[id]; of != nil {
		delete(o.taken, id)
		of.done <- !of.used
	}
}

// dropClient ends the connections of a client that is gone. What it has not even heard
// of, because the answer was lost on its way, is offered again.
func (o *reverseConns) dropClient(client string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for id, of := range o.taken {
		if of.client == client {
			o.finishLocked(id)
		}
	}
}

// Next waits for a connection.
func (o *reverseConns) Next(ctx context.Context, r *guestpb.RelayRequest) (*guestpb.RelayResponse, error) {
	select {
	case of := <-o.waiting:
		id := o.assign(of, r.Client)
		if err := ctx.Err(); err != nil { // the client went meanwhile, and is forgotten already
			o.finish(id)
			return nil, err
		}
		return &guestpb.RelayResponse{Id: id}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-o.closed:
		return &guestpb.RelayResponse{End: true}, nil
	}
}

// Read waits for what the workload sends.
func (o *reverseConns) Read(ctx context.Context, r *guestpb.RelayRequest) (*guestpb.RelayResponse, error) {
	return o.withConn(ctx, r, func(conn net.Conn) *guestpb.RelayResponse {
		buf := make([]byte, guestproto.RelayChunk)
		n, err := conn.Read(buf)
		return &guestpb.RelayResponse{Data: buf[:n], End: err != nil}
	})
}

// Write sends something to the workload.
func (o *reverseConns) Write(ctx context.Context, r *guestpb.RelayRequest) (*guestpb.RelayResponse, error) {
	return o.withConn(ctx, r, func(conn net.Conn) *guestpb.RelayResponse {
		_, err := conn.Write(r.Data)
		if half, ok := conn.(interface{ CloseWrite() error }); ok && r.End {
			half.CloseWrite() //nolint:errcheck // whoever is cut off knows
		}
		return &guestpb.RelayResponse{End: err != nil}
	})
}

// Close ends a connection.
func (o *reverseConns) Close(ctx context.Context, r *guestpb.RelayRequest) (*guestpb.RelayResponse, error) {
	return o.withConn(ctx, r, func(net.Conn) *guestpb.RelayResponse {
		o.finish(r.Id)
		return &guestpb.RelayResponse{}
	})
}

// withConn does something with a connection, which ends if the client goes
// meanwhile.
func (o *reverseConns) withConn(ctx context.Context, r *guestpb.RelayRequest, do func(conn net.Conn) *guestpb.RelayResponse) (*guestpb.RelayResponse, error) {
	of := o.use(r.Id)
	if of == nil {
		return &guestpb.RelayResponse{End: true}, nil
	}
	stop := context.AfterFunc(ctx, func() { of.conn.Close() })
	defer stop()
	return do(of.conn), nil
}
