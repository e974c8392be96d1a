package shellwire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/coder/websocket"

	"github.com/croft-run/croft/fault"
)

// A HalfConn is a connection whose two directions can be ended one by one.
type HalfConn interface {
	net.Conn
	CloseWrite() error
}

const (
	tunnelChunk      = 64 << 10 // bytes of a message that Tunnel sends, at most
	maxTunnelMessage = 1 << 20  // bytes of a message that it accepts

	lingerTime = 10 * time.Second // how long bytes may take to be sent after abandoned
)

// A tunnel carries the bytes of a connection over a WebSocket.
type tunnel struct {
	ws   *websocket.Conn
	conn HalfConn

	eof  chan struct{} // closed when the other side has ended its direction
	done chan struct{} // closed when nothing is received any more
	err  error         // set before done is closed: why
}

// Tunnel carries the bytes of conn over a WebSocket, whose other side runs Tunnel, too. A
// binary message is data. Two text messages are possible: TypeEOF ends one direction,
// TypeError says that the connection broke. Tunnel returns nil when both directions have
// ended, and an error when the connection or the WebSocket breaks, ctx ends, or abandoned
// is closed. The caller closes conn.
func Tunnel(ctx context.Context, ws *websocket.Conn, conn HalfConn, abandoned <-chan struct{}) error {
	defer ws.CloseNow() //nolint:errcheck // it is closed already, or the other side is gone
	ws.SetReadLimit(maxTunnelMessage)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })() //nolint:errcheck // it ends Read and Write
	t := &tunnel{ws: ws, conn: conn, eof: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(t.done)
		t.err = t.receive(ctx)
		cancel()
	}()
	go func() { // a side that takes no bytes does not hold an abandoned connection
		select {
		case <-ctx.Done():
			return
		case <-abandoned:
		}
		select {
		case <-ctx.Done():
		case <-time.After(lingerTime):
			cancel()
		}
	}()
	if err := t.send(ctx); err != nil {
		t.ws.Close(websocket.StatusInternalError, "") //nolint:errcheck // the other side may be gone
		<-t.done
		return t.endError(err)
	}
	select {
	case <-t.eof:
	case <-t.done:
	case <-abandoned:
	}
	t.ws.Close(websocket.StatusNormalClosure, "") //nolint:errcheck // the other side may be gone
	<-t.done
	return t.endError(nil)
}

// endError returns nil if the other side has ended its direction and err is nil.
func (t *tunnel) endError(err error) error {
	select {
	case <-t.eof:
		return err
	default:
		return t.err
	}
}

// send sends what it reads from conn, and then TypeEOF or TypeError.
func (t *tunnel) send(ctx context.Context) error {
	buf := make([]byte, tunnelChunk)
	for {
		n, rerr := t.conn.Read(buf)
		if n > 0 {
			if err := t.ws.Write(ctx, websocket.MessageBinary, buf[:n]); err != nil {
				return err
			}
		}
		if rerr == nil {
			continue
		}
		m := Message{Type: TypeEOF}
		if !errors.Is(rerr, io.EOF) {
			wire := fault.Encode(fault.Default(rerr, fault.Unavailable))
			m = Message{Type: TypeError, Error: &wire}
		}
		data, err := json.Marshal(m)
		if err == nil {
			err = t.ws.Write(ctx, websocket.MessageText, data)
		}
		if m.Type == TypeError {
			return rerr
		}
		return err
	}
}

// receive writes what it receives to conn, until the WebSocket ends.
func (t *tunnel) receive(ctx context.Context) error {
	var broken error // conn takes no more data
	for {
		typ, data, err := t.ws.Read(ctx)
		if err != nil {
			return fmt.Errorf("the connection ended: %w: %w", fault.Unavailable, err)
		}
		if typ == websocket.MessageBinary {
			if broken == nil && len(data) > 0 {
				_, broken = t.conn.Write(data)
			}
			continue
		}
		var m Message
		if err := json.Unmarshal(data, &m); err != nil {
			return fmt.Errorf("a control message: %w: %w", fault.InvalidArgument, err)
		}
		switch {
		case m.Type == TypeEOF:
			select {
			case <-t.eof:
			default:
				t.conn.CloseWrite() //nolint:errcheck // the other direction shows that conn is broken
				close(t.eof)
			}
		case m.Type == TypeError && m.Error != nil:
			return m.Error.Err()
		default:
			return fmt.Errorf("a control message: %w: it is neither eof nor error", fault.InvalidArgument)
		}
	}
}
