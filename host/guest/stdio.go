package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/host/guestproto"
)

// Where the engine is on another host, nothing of this one can be mounted, and so
// all that the guest has of it comes through the engine: its Config is the first
// thing on its standard input, its report the first on its standard output, and
// both are then its connection to the host that started it. Others reach it by a
// second program in the container, which passes standard input and output on to a
// socket that has no place in any file system.

// maxReport is far more than any report needs.
const maxReport = 64 << 10

// StartStdio tells a guest at the other end of its standard input and output what it
// is, and speaks to it there as soon as it serves. It takes conn over.
func StartStdio(ctx context.Context, conn io.ReadWriteCloser, cfg guestproto.Config) (*Client, error) {
	c, err := startStdio(ctx, conn, cfg)
	if err != nil {
		conn.Close()
	}
	return c, err
}

func startStdio(ctx context.Context, conn io.ReadWriteCloser, cfg guestproto.Config) (*Client, error) {
	data, err := cfg.Encode()
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() }) // which ends what waits below
	err = guestproto.WriteMessage(conn, data)
	if err == nil {
		data, err = guestproto.ReadMessage(conn, maxReport)
	}
	if !stop() {
		return nil, fmt.Errorf("guest: wait for it to start: %w", ctx.Err())
	}
	var w fault.Wire
	switch {
	case err != nil:
		return nil, fmt.Errorf("guest: it ended before it could serve: %w: %w", fault.Unavailable, err)
	case string(data) == "ok":
		return NewClient(ctx, guestproto.NewConn(conn), cfg.Version, cfg.Workspace)
	case json.Unmarshal(data, &w) == nil && w.Code != "":
		return nil, fmt.Errorf("guest: start: %w: %w", fault.Failed, w.Err())
	}
	return nil, fmt.Errorf("guest: start: %w: it said %q", fault.Failed, data)
}

// DialStdio speaks to a guest through a program of ConnectVerb, at the other end of its
// standard input and output. It takes conn over.
func DialStdio(ctx context.Context, conn io.ReadWriteCloser, token, version, workspace string) (*Client, error) {
	if _, err := io.WriteString(conn, token); err != nil {
		return nil, errors.Join(fmt.Errorf("guest of %s does not answer: %w: %w", workspace, fault.Evicted, err), conn.Close())
	}
	return NewClient(ctx, guestproto.NewConn(conn), version, workspace)
}
