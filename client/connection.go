package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"

	"github.com/coder/websocket"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/shellwire"
	"github.com/croft-run/croft/workspace/driver"
)

// A connection is the WebSocket of one command, with its streams and result.
type connection struct {
	s    *shell
	conn *shellwire.Conn

	live   context.Context // context of the connection
	hangUp context.CancelFunc

	stdin   *shellwire.Window
	outputs map[string]*shellwire.Buffer
	source  *upload // standard input; nil without it

	startedOnce sync.Once
	started     chan struct{} // closed when the message started arrives
	session     atomic.Pointer[driver.SessionInfo]

	mu             sync.Mutex
	callbackErrors []string // guarded by mu; errors of callbacks

	ended  chan struct{}   // closed after the last callback
	over   context.Context // canceled after ended is closed; for context.AfterFunc
	result *driver.Result  // set before ended is closed
	err    error           // set before ended is closed
}

// dial opens a WebSocket to a route.
func (c *Client) dial(ctx context.Context, path string, q url.Values) (*websocket.Conn, error) {
	if err := checkName(path); err != nil {
		return nil, err
	}
	target := c.base + path
	if len(q) > 0 {
		target += "?" + q.Encode()
	}
	ws, res, err := websocket.Dial(ctx, target, &websocket.DialOptions{ //nolint:bodyclose // websocket.Dial closes the body
		HTTPClient: c.http,
		HTTPHeader: http.Header{"Authorization": {"Bearer " + c.cfg.Token}},
	})
	if err == nil {
		return ws, nil
	}
	if res != nil && res.StatusCode != http.StatusSwitchingProtocols {
		if refusal := c.answerError(res); fault.Of(refusal) != fault.Unavailable || fault.CauseOf(refusal) != "" {
			return nil, refusal
		}
	}
	return nil, c.transportError(ctx, err)
}

// sendCommand opens a connection and sends a command. An error means that nothing was
// sent.
func (s *shell) sendCommand(ctx context.Context, typ shellwire.Type, cmd driver.Command) (*connection, error) {
	if cmd.Interactive && cmd.Stdin != nil {
		return nil, fmt.Errorf("client: %s: %w: stdin is either a reader or interactive", typ, fault.InvalidArgument)
	}
	ws, err := s.c.dial(ctx, workspacePath(s.id, "/exec"), nil)
	if err != nil {
		return nil, evictedError(err)
	}
	x := &connection{
		s: s, conn: shellwire.NewConn(ws, shellwire.MaxAnswer), stdin: shellwire.NewWindow(),
		outputs: map[string]*shellwire.Buffer{}, started: make(chan struct{}), ended: make(chan struct{}),
	}
	var over context.CancelFunc
	x.over, over = context.WithCancel(context.WithoutCancel(ctx))
	x.live, x.hangUp = context.WithCancel(context.WithoutCancel(ctx))
	if err = s.add(x); err == nil {
		err = x.sendRequest(ctx, typ, cmd)
	}
	if err != nil {
		s.remove(x)
		x.hangUp()
		over()
		x.conn.Abort()
		return nil, err
	}
	go x.runConnection(cmd, over)
	return x, nil
}

// sendRequest sends the first message.
func (x *connection) sendRequest(ctx context.Context, typ shellwire.Type, cmd driver.Command) error {
	wire := shellwire.Encode(cmd)
	m := shellwire.Message{Type: typ, Command: &wire}
	if cmd.Stdin != nil {
		m.Streams = append(m.Streams, shellwire.Stdin)
		x.source = newUpload(x.live, "stdin", cmd.Stdin, 0)
	}
	for name, call := range streamCallbacks(cmd) {
		if call != nil {
			m.Streams = append(m.Streams, name)
			x.outputs[name] = shellwire.NewBuffer()
		}
	}
	if err := x.conn.Send(ctx, m); err != nil {
		return x.s.c.transportError(ctx, err)
	}
	return nil
}

func streamCallbacks(cmd driver.Command) map[string]func([]byte) error {
	return map[string]func([]byte) error{shellwire.Stdout: cmd.OnStdout, shellwire.Stderr: cmd.OnStderr}
}

// runConnection starts the goroutines of a connection: one receives, one sends standard
// input, and one for each stream calls the callback.
func (x *connection) runConnection(cmd driver.Command, over context.CancelFunc) {
	defer over()
	defer close(x.ended)
	defer x.s.remove(x)
	var calls sync.WaitGroup
	for name, buffer := range x.outputs {
		calls.Go(func() { x.deliverStream(name, buffer, streamCallbacks(cmd)[name]) })
	}
	if x.source != nil {
		// A blocked reader can't be interrupted: its goroutine is left behind, and
		// ends when the read returns.
		go x.sendStdin()
	}
	x.receiveMessages()
	for _, buffer := range x.outputs {
		buffer.End(nil)
	}
	calls.Wait()
	x.hangUp()
	if x.source != nil {
		x.source.stop(x.live) //nolint:errcheck // sendStdin has recorded the error
	}
	x.conn.Abort()
}

// receiveMessages handles the server's messages until the connection ends.
func (x *connection) receiveMessages() {
	for {
		m, stream, data, err := x.conn.Receive(x.live)
		if err != nil {
			return
		}
		if stream != "" {
			if b := x.outputs[stream]; b == nil || b.Put(data) != nil {
				return
			}
			continue
		}
		switch m.Type {
		case shellwire.TypeStarted:
			x.session.Store(m.Session)
			x.startedOnce.Do(func() { close(x.started) })
		case shellwire.TypeAck:
			x.stdin.Give(m.Bytes)
		case shellwire.TypeExit:
			x.result = m.Result
		case shellwire.TypeError:
			if m.Error != nil {
				x.err = m.Error.Err()
			}
		}
	}
}

// deliverStream passes a stream to its callback, and acknowledges consumed data.
func (x *connection) deliverStream(stream string, buffer *shellwire.Buffer, callback func([]byte) error) {
	data := make([]byte, shellwire.ChunkSize)
	for {
		n, err := buffer.Read(data)
		if err != nil {
			return
		}
		if err := callRecovered(callback, data[:n]); err != nil {
			x.addCallbackError(stream, err)
		}
		x.conn.Send(x.live, shellwire.Message{Type: shellwire.TypeAck, Stream: stream, Bytes: n}) //nolint:errcheck // receiveMessages notices a broken connection
	}
}

// callRecovered calls a callback; a panic becomes its error.
func callRecovered(callback func([]byte) error, data []byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return callback(data)
}

// maxCallbackErrors bounds the callback errors in a result.
const maxCallbackErrors = 16

func (x *connection) addCallbackError(stream string, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.callbackErrors) < maxCallbackErrors {
		x.callbackErrors = append(x.callbackErrors, fmt.Sprintf("%s: %.500s", stream, err.Error()))
	}
}

// completeResult adds the errors of the callbacks, which run in this process, to a result.
func (x *connection) completeResult(res driver.Result) driver.Result {
	x.mu.Lock()
	defer x.mu.Unlock()
	res.CallbackErrors = append(res.CallbackErrors, x.callbackErrors...)
	return res
}

// sendStdin sends standard input.
func (x *connection) sendStdin() {
	data := make([]byte, shellwire.ChunkSize)
	for {
		n, err := x.source.Read(data)
		for rest := data[:n]; len(rest) > 0; {
			k, terr := x.stdin.Take(x.live, len(rest))
			if terr != nil || x.conn.SendData(x.live, shellwire.Stdin, rest[:k]) != nil {
				return
			}
			rest = rest[k:]
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrClosedPipe) {
			x.addCallbackError("stdin", err)
		}
		x.conn.Send(x.live, shellwire.Message{Type: shellwire.TypeEOF}) //nolint:errcheck // receiveMessages notices a broken connection
		return
	}
}

// cancelCommand asks the server to end the command. The server still sends the result.
func (x *connection) cancelCommand(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
	defer cancel()
	if x.conn.Send(ctx, shellwire.Message{Type: shellwire.TypeCancel}) != nil {
		x.hangUp()
	}
}

// abort ends the connection, and waits for the last callback.
func (x *connection) abort() {
	x.hangUp()
	<-x.ended
}
