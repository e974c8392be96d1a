package shellwire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/coder/websocket"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// Sizes of messages.
const (
	WindowSize = 256 << 10 // unacknowledged bytes of a stream, at most
	ChunkSize  = 32 << 10  // bytes of one data message, at most

	MaxRequest = 16 << 20  // bytes of a message to the server
	MaxAnswer  = 256 << 20 // bytes of a message from the server: the largest is a result with its output
)

// A Type is the type of a control message.
type Type string

// Types of control messages.
const (
	TypeRun     Type = "run"     // first: run the command in the foreground
	TypeStart   Type = "start"   // first: start it as a session
	TypeStarted Type = "started" // the session was started
	TypeAck     Type = "ack"     // bytes of a stream were consumed
	TypeEOF     Type = "eof"     // standard input ends
	TypeCancel  Type = "cancel"  // end the command and send its result
	TypeExit    Type = "exit"    // last: the result
	TypeError   Type = "error"   // last: why there is no result
	TypeResize  Type = "resize"  // the terminal has another size
)

// A Message is a control message.
type Message struct {
	Type    Type                `json:"type"`
	Command *Exec               `json:"command,omitempty"`
	Streams []string            `json:"streams,omitempty"` // of run and start: the streams of the connection
	Session *driver.SessionInfo `json:"session,omitempty"`
	Stream  string              `json:"stream,omitempty"` // of ack
	Bytes   int                 `json:"bytes,omitempty"`  // of ack
	Size    *driver.Size        `json:"size,omitempty"`   // of resize
	Result  *driver.Result      `json:"result,omitempty"`
	Error   *fault.Wire         `json:"error,omitempty"`
}

// Names of streams in messages, by the byte that begins a data message.
const (
	Stdin  = "stdin"
	Stdout = string(driver.Stdout)
	Stderr = string(driver.Stderr)
)

var streamNames = []string{Stdin, Stdout, Stderr}

// A Conn sends and receives messages. Any number of goroutines may send; one receives.
// A context that ends during a call closes the connection.
type Conn struct{ ws *websocket.Conn }

// NewConn returns a Conn over a WebSocket, with messages of at most limit bytes.
func NewConn(ws *websocket.Conn, limit int64) *Conn {
	ws.SetReadLimit(limit)
	return &Conn{ws}
}

// Send sends a control message.
func (c *Conn) Send(ctx context.Context, m Message) error {
	data, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode a message: %w: %w", fault.Internal, err)
	}
	return c.ws.Write(ctx, websocket.MessageText, data)
}

// SendData sends a part of a stream, at most ChunkSize of it.
func (c *Conn) SendData(ctx context.Context, stream string, data []byte) error {
	for i, name := range streamNames {
		if name == stream {
			return c.ws.Write(ctx, websocket.MessageBinary, append([]byte{byte(i)}, data...))
		}
	}
	return fmt.Errorf("stream %q: %w", stream, fault.Internal)
}

// Receive waits for a message: a control message, or data of a stream.
func (c *Conn) Receive(ctx context.Context) (m Message, stream string, data []byte, err error) {
	typ, data, err := c.ws.Read(ctx)
	if err != nil {
		return m, "", nil, err
	}
	if typ == websocket.MessageText {
		if err := json.Unmarshal(data, &m); err != nil {
			return m, "", nil, fmt.Errorf("a control message: %w: %w", fault.InvalidArgument, err)
		}
		return m, "", nil, nil
	}
	if len(data) == 0 || int(data[0]) >= len(streamNames) {
		return m, "", nil, fmt.Errorf("a data message: %w: its first byte names no stream", fault.InvalidArgument)
	}
	return m, streamNames[data[0]], data[1:], nil
}

// Close closes the connection with a closing handshake.
func (c *Conn) Close() { c.ws.Close(websocket.StatusNormalClosure, "") } //nolint:errcheck // the other side may be gone

// Abort closes the connection without a handshake.
func (c *Conn) Abort() { c.ws.CloseNow() } //nolint:errcheck // as above

// Ended reports whether an error of Receive is a normal close of the other side.
func Ended(err error) bool {
	var ce websocket.CloseError
	return errors.As(err, &ce) && ce.Code == websocket.StatusNormalClosure
}
