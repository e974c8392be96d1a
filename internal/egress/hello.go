package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
)

// A hello is a TLS ClientHello.
type hello struct {
	name string // the server name, "" if there is none
	ech  bool   // it may have another name, encrypted
	raw  []byte // all bytes that were read, to forward
}

// recordHandshake is the first byte of a TLS hello.
const recordHandshake = 0x16

// maxHello bounds the bytes that are read for a hello.
const maxHello = 64 << 10

// echExtensions are the TLS extensions that encrypt the server name: RFC 9849 (ECH), its
// drafts, and their predecessors.
var echExtensions = []uint16{0xfe0d, 0xffce, 0xfe08, 0xfe09, 0xfe0a}

var errHelloSeen = errors.New("hello seen")

// readHello reads a ClientHello by crypto/tls, which supports one in many records, and stops
// it before it answers.
func readHello(ctx context.Context, r io.Reader) (hello, error) {
	var h hello
	tape := &recordingConn{r: io.LimitReader(r, maxHello)}
	seen := false
	conn := tls.Server(tape, &tls.Config{
		MinVersion: tls.VersionTLS10, // nothing is negotiated: the server checks versions
		GetConfigForClient: func(info *tls.ClientHelloInfo) (*tls.Config, error) {
			seen = true
			h.name = strings.ToLower(info.ServerName)
			h.ech = slices.ContainsFunc(info.Extensions, func(x uint16) bool { return slices.Contains(echExtensions, x) })
			return nil, errHelloSeen
		},
	})
	err := conn.HandshakeContext(ctx)
	h.raw = tape.buf.Bytes()
	if seen {
		return h, nil
	}
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &record), len(h.raw) > 0 && h.raw[0] != recordHandshake:
		return h, &refusal{code: fault.PermissionDenied, reason: "it is not TLS"}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return h, &refusal{code: fault.Canceled, reason: "the client ended it before it began"}
	}
	return h, &refusal{code: fault.PermissionDenied, reason: "its TLS hello is malformed or did not come in time"}
}

// checkName compares the server name in a hello with the requested host. For an address the
// name must be absent, or one that the policy allows.
func (h hello) checkName(t target, rs *rules) error {
	switch {
	case h.ech:
		return &refusal{code: fault.PermissionDenied, reason: "its TLS hello has an encrypted part that may hide another server name (ECH); turn that off in the client"}
	case t.name != "" && h.name == "":
		return &refusal{code: fault.PermissionDenied, reason: "its TLS hello has no server name"}
	case t.name != "" && h.name != t.name:
		return &refusal{code: fault.PermissionDenied, reason: "its TLS hello asks for another server name"}
	case t.name == "" && h.name != "":
		named, err := parseTarget(h.name, t.port)
		if err != nil || !rs.checkRequest(named, methodTunnel).allowed {
			return &refusal{code: fault.PermissionDenied, reason: "its TLS hello asks for a server name that no rule allows"}
		}
	}
	return nil
}

// unrecognizedNameAlert is the TLS alert for a server name that is not served.
var unrecognizedNameAlert = []byte{21, 3, 1, 0, 2, 2, 112}

// recordingConn is a connection that records what is read and discards what is written.
type recordingConn struct {
	r   io.Reader
	buf bytes.Buffer
}

func (t *recordingConn) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	t.buf.Write(p[:n])
	return n, err
}

func (*recordingConn) Write(p []byte) (int, error)      { return len(p), nil }
func (*recordingConn) Close() error                     { return nil }
func (*recordingConn) LocalAddr() net.Addr              { return nil }
func (*recordingConn) RemoteAddr() net.Addr             { return nil }
func (*recordingConn) SetDeadline(time.Time) error      { return nil }
func (*recordingConn) SetReadDeadline(time.Time) error  { return nil }
func (*recordingConn) SetWriteDeadline(time.Time) error { return nil }

// replayConn is a connection whose first bytes were already read, and are read again from r.
type replayConn struct {
	net.Conn
	r io.Reader
}

func (r *replayConn) Read(p []byte) (int, error) { return r.r.Read(p) }
