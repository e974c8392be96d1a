package guest

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/croft-run/croft/fault"
)

// Where the engine is on another host, nothing of this one can be mounted, and so
// all that the guest has of it comes through the engine: its Config is the first
// thing on its standard input, its report the first on its standard output, and
// both are then its connection to the host that started it. Others reach it by a
// second program in the container, which passes standard input and output on to a
// socket that has no place in any file system.

// Verbs of a guest whose host is reached through its engine.
const (
	StdioVerb   = "stdio"   // the guest; its one argument is a directory that it can add to, and nobody list
	ConnectVerb = "connect" // passes standard input and output on to the guest
)

// maxReport is far more than any report needs.
const maxReport = 64 << 10

// writeMessage writes data after its length.
func writeMessage(w io.Writer, data []byte) error {
	_, err := w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), data...)) // both are short
	return err
}

// readMessage reads what writeMessage wrote, of at most so many bytes.
func readMessage(r io.Reader, most uint32) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > most {
		return nil, fmt.Errorf("a message of %d bytes: %w: at most %d are expected", n, fault.InvalidArgument, most)
	}
	data := make([]byte, n)
	_, err := io.ReadFull(r, data)
	return data, err
}

// Converse tells a guest at the other end of its standard input and output what it
// is, and speaks to it there as soon as it serves. It takes conn over.
func Converse(ctx context.Context, conn io.ReadWriteCloser, cfg Config) (*Client, error) {
	c, err := converse(ctx, conn, cfg)
	if err != nil {
		conn.Close()
	}
	return c, err
}

func converse(ctx context.Context, conn io.ReadWriteCloser, cfg Config) (*Client, error) {
	data, err := cfg.Encode()
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() }) // which ends what waits below
	err = writeMessage(conn, data)
	if err == nil {
		data, err = readMessage(conn, maxReport)
	}
	if !stop() {
		return nil, fmt.Errorf("guest: wait for it to start: %w", ctx.Err())
	}
	var w fault.Wire
	switch {
	case err != nil:
		return nil, fmt.Errorf("guest: it ended before it could serve: %w: %w", fault.Unavailable, err)
	case string(data) == "ok":
		return NewClient(ctx, asConn(conn), cfg.Version, cfg.Workspace)
	case json.Unmarshal(data, &w) == nil && w.Code != "":
		return nil, fmt.Errorf("guest: start: %w: %w", fault.Failed, w.Err())
	}
	return nil, fmt.Errorf("guest: start: %w: it said %q", fault.Failed, data)
}

// Reach speaks to a guest through a program of ConnectVerb, at the other end of its
// standard input and output. It takes conn over.
func Reach(ctx context.Context, conn io.ReadWriteCloser, token, version, workspace string) (*Client, error) {
	if _, err := io.WriteString(conn, token); err != nil {
		return nil, errors.Join(fmt.Errorf("guest of %s does not answer: %w: %w", workspace, fault.Evicted, err), conn.Close())
	}
	return NewClient(ctx, asConn(conn), version, workspace)
}

// asConn makes a stream a connection, without addresses and deadlines: ttrpc uses
// neither.
func asConn(s io.ReadWriteCloser) net.Conn {
	if c, ok := s.(net.Conn); ok {
		return c
	}
	return streamConn{s}
}

type streamConn struct{ io.ReadWriteCloser }

// LocalAddr is for people.
func (streamConn) LocalAddr() net.Addr { return streamAddr{} }

// RemoteAddr is for people.
func (streamConn) RemoteAddr() net.Addr { return streamAddr{} }

// SetDeadline is not to be had.
func (streamConn) SetDeadline(time.Time) error { return errors.ErrUnsupported }

// SetReadDeadline is not to be had.
func (streamConn) SetReadDeadline(time.Time) error { return errors.ErrUnsupported }

// SetWriteDeadline is not to be had.
func (streamConn) SetWriteDeadline(time.Time) error { return errors.ErrUnsupported }

type streamAddr struct{}

// Network is for people.
func (streamAddr) Network() string { return "stdio" }

func (streamAddr) String() string { return "stdio" }
