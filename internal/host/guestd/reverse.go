package guestd

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/internal/host/guestproto/guestpb"
)

// reverseConns are connections whose bytes a host relays with Read and Write. One kind is
// connections of the workload to an egress proxy that the guest can't reach, because it has
// only a stream to a host: the host pulls each with Next, a reverse relay. The other kind is
// connections to ports of the workload, which the host makes with Dial.
type reverseConns struct {
	waiting chan *reverseConn
	closed  chan struct{}
	dial    func(ctx context.Context, port int) (net.Conn, error)

	mu    sync.Mutex
	last  int64
	taken map[int64]*reverseConn // guarded by mu
}

// A reverseConn is one connection.
type reverseConn struct {
	conn   net.Conn
	chunk  atomic.Int64 // size of the next buffer; 0 is minChunk
	client string       // that it is assigned to
	used   bool         // bytes were read or written
	done   chan bool    // receives, when the client has finished or disconnected, whether another client may have it; nil for a connection of Dial
}

func newReverseConns() *reverseConns {
	return &reverseConns{waiting: make(chan *reverseConn), closed: make(chan struct{}), taken: map[int64]*reverseConn{}}
}

// reverseTimeout bounds the wait for a host that takes the connection.
var reverseTimeout = 10 * time.Second // tests have more

// forward offers a connection to hosts, and returns when it has ended. The caller closes it.
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

// finish ends a connection, or offers it again if no byte was exchanged.
func (o *reverseConns) finish(id int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.finishLocked(id)
}

// finishLocked is finish; the caller holds o.mu.
func (o *reverseConns) finishLocked(id int64) {
	if of := o.taken[id]; of != nil {
		delete(o.taken, id)
		if of.done == nil {
			of.conn.Close()
			return
		}
		of.done <- !of.used
	}
}

// dropClient finishes the connections of a client that has disconnected. A connection
// whose assignment never reached the client is offered again.
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
		if err := ctx.Err(); err != nil { // the client has disconnected, after dropClient
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

// Dial connects to a port of the workload.
func (o *reverseConns) Dial(ctx context.Context, r *guestpb.RelayRequest) (*guestpb.RelayResponse, error) {
	conn, err := o.dial(ctx, int(r.Port))
	if err != nil {
		return nil, err
	}
	id := o.assign(&reverseConn{conn: conn}, r.Client)
	if err := ctx.Err(); err != nil { // the client has disconnected, after dropClient
		o.finish(id)
		return nil, err
	}
	return &guestpb.RelayResponse{Id: id}, nil
}

// minChunk is the size of the buffer with which a connection waits for bytes.
const minChunk = 32 << 10

// Read waits for bytes from the workload.
func (o *reverseConns) Read(ctx context.Context, r *guestpb.RelayRequest) (*guestpb.RelayResponse, error) {
	return o.withConn(ctx, r, func(of *reverseConn) *guestpb.RelayResponse {
		// Each connection waits with a buffer: it is large only where that is filled.
		buf := make([]byte, max(minChunk, of.chunk.Load()))
		n, err := of.conn.Read(buf)
		switch {
		case n == len(buf):
			of.chunk.Store(int64(min(2*n, guestproto.RelayChunk)))
		case n < len(buf)/4:
			of.chunk.Store(int64(len(buf) / 2))
		}
		return &guestpb.RelayResponse{Data: buf[:n], End: err != nil, Broken: err != nil && !errors.Is(err, io.EOF)}
	})
}

// Write sends bytes to the workload.
func (o *reverseConns) Write(ctx context.Context, r *guestpb.RelayRequest) (*guestpb.RelayResponse, error) {
	return o.withConn(ctx, r, func(of *reverseConn) *guestpb.RelayResponse {
		_, err := of.conn.Write(r.Data)
		if half, ok := of.conn.(interface{ CloseWrite() error }); ok && r.End {
			half.CloseWrite() //nolint:errcheck // the reader sees the end of the connection
		}
		return &guestpb.RelayResponse{End: err != nil}
	})
}

// Close ends a connection.
func (o *reverseConns) Close(ctx context.Context, r *guestpb.RelayRequest) (*guestpb.RelayResponse, error) {
	return o.withConn(ctx, r, func(*reverseConn) *guestpb.RelayResponse {
		o.finish(r.Id)
		return &guestpb.RelayResponse{}
	})
}

// withConn calls do with a connection, and closes that connection if the client disconnects meanwhile.
func (o *reverseConns) withConn(ctx context.Context, r *guestpb.RelayRequest, do func(of *reverseConn) *guestpb.RelayResponse) (*guestpb.RelayResponse, error) {
	of := o.use(r.Id)
	if of == nil {
		return &guestpb.RelayResponse{End: true, Broken: true}, nil
	}
	stop := context.AfterFunc(ctx, func() { of.conn.Close() })
	defer stop()
	return do(of), nil
}
