package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/guestproto"
)

// Where the engine is on another host, no directory of this one can be mounted, so all
// bytes go through the engine: the Config is the first message on the guest's standard
// input, the report the first on its standard output; both streams are then the connection
// of the host that started the guest. Other hosts connect by a second process in the
// container, "croft-guest connect", which copies its standard input and output to and from
// an abstract socket of the guest.

// maxReport is far more bytes than any report has.
const maxReport = 64 << 10

// StartStdio configures a croft-guest at the other end of a stream, its standard input and
// output, and connects to it. It takes conn over.
func StartStdio(ctx context.Context, conn io.ReadWriteCloser, cfg guestproto.Config) (*Client, error) {
	c, err := startStdio(ctx, conn, cfg)
	if err != nil {
		conn.Close()
	}
	return c, err
}

func startStdio(ctx context.Context, conn io.ReadWriteCloser, cfg guestproto.Config) (*Client, error) {
	if err := Configure(ctx, conn, cfg); err != nil {
		return nil, err
	}
	return NewClient(ctx, guestproto.NewConn(conn), cfg.Version, cfg.Workspace)
}

// Configure configures a croft-guest at the other end of a stream, and waits until it serves.
// It closes conn if ctx ends meanwhile.
func Configure(ctx context.Context, conn io.ReadWriteCloser, cfg guestproto.Config) error {
	data, err := cfg.Encode()
	if err != nil {
		return err
	}
	return requestReport(ctx, conn, data)
}

// requestReport sends the first message and reads the report, which is "ok" or an error.
func requestReport(ctx context.Context, conn io.ReadWriteCloser, message []byte) error {
	stop := context.AfterFunc(ctx, func() { conn.Close() }) // unblocks the calls below
	var data []byte
	err := guestproto.WriteMessage(conn, message)
	if err == nil {
		data, err = guestproto.ReadMessage(conn, maxReport)
	}
	if !stop() {
		return fmt.Errorf("guest: wait for the report: %w", ctx.Err())
	}
	var w fault.Wire
	switch {
	case err != nil:
		return fmt.Errorf("guest: croft-guest ended before it served: %w: %w", fault.Unavailable, err)
	case string(data) == "ok":
		return nil
	case json.Unmarshal(data, &w) == nil && w.Code != "":
		return fmt.Errorf("guest: start: %w: %w", fault.Failed, w.Err())
	}
	return fmt.Errorf("guest: start: %w: unexpected report %q", fault.Failed, data)
}

// EndStdio ends a guest on another machine through "croft-guest end" or "croft-guest
// remove", at the other end of its standard input and output. It closes conn.
func EndStdio(ctx context.Context, conn io.ReadWriteCloser, token string) error {
	return errors.Join(requestReport(ctx, conn, []byte(token)), conn.Close())
}

// DialStdio connects to a guest through "croft-guest connect", at the other end of its
// standard input and output. It takes conn over.
func DialStdio(ctx context.Context, conn io.ReadWriteCloser, token, version, workspace string) (*Client, error) {
	if _, err := io.WriteString(conn, token); err != nil {
		return nil, errors.Join(fmt.Errorf("guest of %s: connect: %w: %w", workspace, fault.Evicted, err), conn.Close())
	}
	return NewClient(ctx, guestproto.NewConn(conn), version, workspace)
}
