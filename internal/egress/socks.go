package egress

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"time"

	"github.com/croft-run/croft/fault"
)

// SOCKS version 5, RFC 1928, without authentication: only the workspace reaches the listener.
const (
	socksVersion = 5
	socksConnect = 1
)

// Replies of SOCKS.
const (
	socksOK          = 0
	socksFailure     = 1
	socksNotAllowed  = 2
	socksUnreachable = 4
	socksRefused     = 5
	socksExpired     = 6
	socksCommand     = 7
	socksAddress     = 8
	socksNoMethod    = 0xff
)

// serveSOCKS serves a connection of SOCKS5.
func (c *client) serveSOCKS(ctx context.Context) {
	_ = c.conn.SetReadDeadline(deadline(c.p.opts.HeaderTimeout))
	t, host, err := c.greetSOCKS()
	if err != nil {
		if why := (*refusal)(nil); errors.As(err, &why) {
			c.refuseTunnel(&requestRecord{began: time.Now(), host: host, protocol: protoSOCKS, method: methodTunnel}, why, c.answerSOCKS)
			c.linger()
		}
		return
	}
	_ = c.conn.SetReadDeadline(time.Time{})
	c.serveTunnel(ctx, t, protoSOCKS, c.answerSOCKS)
}

// greetSOCKS reads the greeting, answers it, and reads the request.
func (c *client) greetSOCKS() (target, string, error) {
	ok, err := readSOCKSGreeting(c.br)
	if err != nil {
		return target{}, "", err
	}
	_ = c.conn.SetWriteDeadline(deadline(c.p.opts.HeaderTimeout))
	if !ok {
		_, _ = c.conn.Write([]byte{socksVersion, socksNoMethod})
		return target{}, "", io.EOF
	}
	if _, err := c.conn.Write([]byte{socksVersion, 0}); err != nil {
		return target{}, "", err
	}
	return readSOCKSRequest(c.br)
}

// readSOCKSGreeting reports whether the client accepts no authentication.
func readSOCKSGreeting(r io.Reader) (bool, error) {
	var b [255]byte
	if _, err := io.ReadFull(r, b[:2]); err != nil {
		return false, err
	}
	if b[0] != socksVersion {
		return false, io.EOF
	}
	methods := b[:b[1]]
	if _, err := io.ReadFull(r, methods); err != nil {
		return false, err
	}
	for _, m := range methods {
		if m == 0 {
			return true, nil
		}
	}
	return false, nil
}

// readSOCKSRequest reads the target of a request. The string is the host as it was received,
// for the event of a refusal.
func readSOCKSRequest(r io.Reader) (target, string, error) {
	var b [256]byte
	if _, err := io.ReadFull(r, b[:4]); err != nil {
		return target{}, "", err
	}
	version, command, kind := b[0], b[1], b[3]
	if version != socksVersion {
		return target{}, "", io.EOF
	}
	host := ""
	switch kind {
	case 1, 4:
		n := 4
		if kind == 4 {
			n = 16
		}
		if _, err := io.ReadFull(r, b[:n]); err != nil {
			return target{}, "", err
		}
		a, _ := netip.AddrFromSlice(b[:n])
		host = a.String()
	case 3:
		if _, err := io.ReadFull(r, b[:1]); err != nil {
			return target{}, "", err
		}
		name := b[:b[0]]
		if _, err := io.ReadFull(r, name); err != nil {
			return target{}, "", err
		}
		host = string(name)
	default:
		return target{}, "", &refusal{code: fault.InvalidArgument, reason: "the kind of address is not known", reply: socksAddress}
	}
	if _, err := io.ReadFull(r, b[:2]); err != nil {
		return target{}, host, err
	}
	if command != socksConnect {
		return target{}, host, &refusal{code: fault.InvalidArgument, reason: "SOCKS supports only the command CONNECT here", reply: socksCommand}
	}
	t, err := parseTarget(host, int(binary.BigEndian.Uint16(b[:2])))
	if err != nil {
		return target{}, host, asRefusal(err)
	}
	return t, host, nil
}

func (c *client) answerSOCKS(_ *requestRecord, why *refusal) (int, error) {
	return 0, c.replySOCKS(why)
}

// replySOCKS writes the reply; nil is success.
func (c *client) replySOCKS(why *refusal) error {
	_ = c.conn.SetWriteDeadline(deadline(c.p.opts.HeaderTimeout))
	_, err := c.conn.Write([]byte{socksVersion, socksReply(why), 0, 1, 0, 0, 0, 0, 0, 0})
	return err
}

func socksReply(why *refusal) byte {
	if why == nil {
		return socksOK
	}
	switch {
	case why.reply != 0:
		return why.reply
	case why.code == fault.PermissionDenied:
		return socksNotAllowed
	case why.code == fault.DeadlineExceeded:
		return socksExpired
	case why.code == fault.Unavailable:
		return socksUnreachable
	}
	return socksFailure
}
