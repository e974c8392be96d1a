package app

import (
	"context"
	"net"
)

// A pipeListener accepts connections within the process, over net.Pipe.
type pipeListener struct {
	conns chan net.Conn
	over  context.Context
	end   context.CancelFunc
}

func newPipeListener(ctx context.Context) *pipeListener {
	over, end := context.WithCancel(context.WithoutCancel(ctx))
	return &pipeListener{make(chan net.Conn), over, end}
}

// Accept waits for a connection.
func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.over.Done():
		return nil, net.ErrClosed
	}
}

// Close ends Accept and dial.
func (l *pipeListener) Close() error { l.end(); return nil }

// Addr returns a placeholder: a net.Pipe has no address.
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Net: "pipe"} }

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-l.over.Done():
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
