package guestproto

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/croft-run/croft/fault"
)

// WriteMessage writes data with its length, four bytes, big endian, in front.
func WriteMessage(w io.Writer, data []byte) error {
	_, err := w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), data...)) // both are short
	return err
}

// ReadMessage reads what WriteMessage wrote, and refuses more than most bytes.
func ReadMessage(r io.Reader, most uint32) ([]byte, error) {
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

// NewConn makes a net.Conn of a stream, without addresses and deadlines: ttrpc needs neither.
func NewConn(s io.ReadWriteCloser) net.Conn {
	if c, ok := s.(net.Conn); ok {
		return c
	}
	return streamConn{s}
}

type streamConn struct{ io.ReadWriteCloser }

// LocalAddr is a name for logs.
func (streamConn) LocalAddr() net.Addr { return streamAddr{} }

// RemoteAddr is a name for logs.
func (streamConn) RemoteAddr() net.Addr { return streamAddr{} }

// SetDeadline is not supported.
func (streamConn) SetDeadline(time.Time) error { return errors.ErrUnsupported }

// SetReadDeadline is not supported.
func (streamConn) SetReadDeadline(time.Time) error { return errors.ErrUnsupported }

// SetWriteDeadline is not supported.
func (streamConn) SetWriteDeadline(time.Time) error { return errors.ErrUnsupported }

type streamAddr struct{}

// Network is a name for logs.
func (streamAddr) Network() string { return "stdio" }

func (streamAddr) String() string { return "stdio" }
