package rest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/coder/websocket"
	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/server/advice"
	"github.com/croft-run/croft/internal/server/httpguard"
	"github.com/croft-run/croft/internal/shellwire"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

func (s processRoutes) connectOp() huma.Operation {
	op := s.op(http.MethodGet, execPath, "connect", "Run or start a command over a WebSocket with its streams")
	op.Description = "The first message is text, {\"type\": \"run\" or \"start\", \"command\": ..., \"streams\": [...]}. Text messages are control, " +
		"binary messages are data: a byte for the stream (0 stdin, 1 stdout, 2 stderr) and its bytes. Each side acknowledges " +
		"consumed data ({\"type\": \"ack\", \"stream\", \"bytes\"}), and sends at most 256 KiB of unacknowledged data of a stream. " +
		"The client may send \"eof\" and \"cancel\"; the server ends with \"exit\" or \"error\". " +
		"A command that is not detached ends with its connection."
	return withScope(websocketOp(op), auth.Run)
}

// websocketOp documents a route that becomes a WebSocket.
func websocketOp(op huma.Operation) huma.Operation {
	op.Responses["101"] = &huma.Response{Description: "the connection becomes a WebSocket"}
	return op
}

// upgradeToWebSocket upgrades a request and runs f with the WebSocket. The context of f
// ends when the server drains; f cancels it when the client is gone.
func (s processRoutes) upgradeToWebSocket(f func(ctx context.Context, cancel context.CancelFunc, ws *websocket.Conn)) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		r, w := humago.Unwrap(hc)
		if !s.trackConnection() {
			s.writeError(w, r, fmt.Errorf("request: %w: the server shuts down", fault.Unavailable))
			return
		}
		defer s.upgraded.Done()
		if r.Header.Get("Upgrade") == "" {
			s.writeError(w, r, fmt.Errorf("request: %w: this route is a WebSocket: send the headers Connection: Upgrade and Upgrade: websocket", fault.InvalidArgument))
			return
		}
		conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true}) // checkRequest has checked the origin
		if err != nil {
			s.log.Warn("upgrade", "path", r.URL.Path, "error", err)
			return
		}
		defer conn.CloseNow() //nolint:errcheck // it is closed already, or the client is gone
		ctx, cancel := s.untilDrain(context.WithoutCancel(r.Context()))
		defer cancel()
		defer context.AfterFunc(r.Context(), func() {
			if errors.Is(context.Cause(r.Context()), httpguard.ErrKeyEnded) {
				cancel()
			}
		})()
		f(ctx, cancel, conn)
	}}
}

// trackConnection counts a hijacked connection; it is false if the server drains.
func (s processRoutes) trackConnection() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.draining {
		s.upgraded.Add(1)
	}
	return !s.draining
}

func (s processRoutes) connectCommand(_ context.Context, ws *workspace.Workspace, _ *Target) (*huma.StreamResponse, error) {
	return s.upgradeToWebSocket(func(ctx context.Context, cancel context.CancelFunc, c *websocket.Conn) {
		x := &exchange{s: s.Server, ws: ws, conn: shellwire.NewConn(c, shellwire.MaxRequest), cancel: cancel}
		x.serve(ctx)
	}), nil
}

// An exchange is one command on one connection.
type exchange struct {
	s      *Server
	ws     *workspace.Workspace
	conn   *shellwire.Conn
	cancel context.CancelFunc // ends the command

	live    context.Context // context of the connection, which outlives a canceled command
	stdin   *shellwire.Buffer
	windows map[string]*shellwire.Window
}

// serve reads the request, runs the command and sends its result. The command runs
// under ctx, which ends when the client disconnects or sends cancel.
func (x *exchange) serve(ctx context.Context) {
	live, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	defer hangUp()
	x.live = live
	first, err := x.readRequest()
	if err != nil {
		x.sendWireError(advice.Encode(err))
		return
	}
	cmd, err := x.buildCommand(first)
	if err != nil {
		x.sendWireError(advice.Encode(err))
		return
	}
	received := make(chan struct{})
	go func() {
		defer close(received)
		x.receiveMessages()
		x.cancel() // the client is gone
		hangUp()
	}()
	defer func() { <-received }()
	if first.Type == shellwire.TypeStart {
		x.start(ctx, cmd)
	} else {
		x.run(ctx, cmd)
	}
}

func (x *exchange) readRequest() (shellwire.Message, error) {
	ctx, cancel := context.WithTimeout(x.live, requestTimeout)
	defer cancel()
	m, _, _, err := x.conn.Receive(ctx)
	if err == nil && (m.Command == nil || m.Type != shellwire.TypeRun && m.Type != shellwire.TypeStart) {
		err = fmt.Errorf("connection: %w: the first message is {\"type\": \"run\" or \"start\", \"command\": ...}", fault.InvalidArgument)
	}
	return m, err
}

// buildCommand returns the command, with the streams that the client requested.
func (x *exchange) buildCommand(m shellwire.Message) (driver.Command, error) {
	cmd, err := m.Command.Decode()
	if err != nil {
		return cmd, err
	}
	x.windows = map[string]*shellwire.Window{}
	for _, name := range m.Streams {
		switch name {
		case shellwire.Stdin:
			x.stdin = shellwire.NewBuffer()
			cmd.Stdin = ackedStdin{x}
		case shellwire.Stdout:
			cmd.OnStdout = x.outputCallback(name)
		case shellwire.Stderr:
			cmd.OnStderr = x.outputCallback(name)
		default:
			return cmd, fmt.Errorf("connection: %w: unknown stream %q; give stdin, stdout or stderr", fault.InvalidArgument, name)
		}
	}
	return cmd, nil
}

// outputCallback returns the callback of a stream. It waits for the client's
// acknowledgements. After the client is gone, the output of a detached command is only
// in its log.
func (x *exchange) outputCallback(stream string) func([]byte) error {
	w := shellwire.NewWindow()
	x.windows[stream] = w
	return func(data []byte) error {
		for len(data) > 0 {
			n, err := w.Take(x.live, len(data))
			if err != nil || x.conn.SendData(x.live, stream, data[:n]) != nil {
				return nil
			}
			data = data[n:]
		}
		return nil
	}
}

// ackedStdin is standard input; it acknowledges what the command has read.
type ackedStdin struct{ x *exchange }

func (a ackedStdin) Read(p []byte) (int, error) {
	n, err := a.x.stdin.Read(p)
	if n > 0 {
		a.x.conn.Send(a.x.live, shellwire.Message{Type: shellwire.TypeAck, Stream: shellwire.Stdin, Bytes: n}) //nolint:errcheck // receiveMessages notices a broken connection
	}
	return n, err
}

// receiveMessages handles the client's messages until the client is gone.
func (x *exchange) receiveMessages() {
	if x.stdin != nil {
		defer x.stdin.End(fmt.Errorf("the connection ended: %w", fault.Canceled))
	}
	for {
		m, stream, data, err := x.conn.Receive(x.live)
		if err != nil || !x.handleMessage(m, stream, data) {
			return
		}
	}
}

// handleMessage handles a message, and reports whether it was valid.
func (x *exchange) handleMessage(m shellwire.Message, stream string, data []byte) bool {
	switch {
	case stream == shellwire.Stdin:
		return x.stdin != nil && x.stdin.Put(data) == nil
	case stream != "":
		return false
	case m.Type == shellwire.TypeAck && x.windows[m.Stream] != nil:
		x.windows[m.Stream].Give(m.Bytes)
	case m.Type == shellwire.TypeEOF && x.stdin != nil:
		x.stdin.End(io.EOF)
	case m.Type == shellwire.TypeCancel:
		x.cancel()
	default:
		return false
	}
	return true
}

func (x *exchange) run(ctx context.Context, cmd driver.Command) {
	res, err := x.ws.Run(ctx, cmd)
	if err != nil {
		x.sendError(err)
		return
	}
	x.sendLast(shellwire.Message{Type: shellwire.TypeExit, Result: &res})
}

// start starts a session, which ends with ctx unless it is detached, and waits for its
// end.
func (x *exchange) start(ctx context.Context, cmd driver.Command) {
	session, err := x.ws.Start(ctx, cmd)
	if err != nil {
		x.sendError(err)
		return
	}
	info, err := session.State(x.live)
	if err != nil {
		x.sendError(err)
		return
	}
	if x.conn.Send(x.live, shellwire.Message{Type: shellwire.TypeStarted, Session: &info}) != nil {
		x.cancel()
	}
	waiting := ctx
	if !cmd.Detached {
		// The session ends with ctx; wait for its result.
		var stop context.CancelFunc
		waiting, stop = delayEnd(ctx)
		defer stop()
	}
	res, err := session.Wait(waiting)
	if err != nil {
		x.sendError(err)
		return
	}
	res.Stdout, res.Stderr = nil, nil
	x.sendLast(shellwire.Message{Type: shellwire.TypeExit, Result: &res})
}

// delayEnd returns a context that ends some time after ctx.
func delayEnd(ctx context.Context) (context.Context, context.CancelFunc) {
	later, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-later.Done():
		case <-time.After(requestTimeout):
			cancel()
		}
	})
	return later, func() { stop(); cancel() }
}

func (x *exchange) sendError(err error) {
	x.sendWireError(x.s.newProblem(x.live, requestInfo{http.MethodGet, execPath}, err).Wire)
}

func (x *exchange) sendWireError(wire fault.Wire) {
	x.sendLast(shellwire.Message{Type: shellwire.TypeError, Error: &wire})
}

// sendLast sends the last message and closes the connection, without waiting for a
// client that does not answer.
func (x *exchange) sendLast(m shellwire.Message) {
	ctx, cancel := context.WithTimeout(x.live, requestTimeout)
	defer cancel()
	if x.conn.Send(ctx, m) == nil {
		x.conn.Close()
	} else {
		x.conn.Abort()
	}
}
