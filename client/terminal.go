package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/coder/websocket"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/shellwire"
	"github.com/croft-run/croft/workspace/driver"
)

// TerminalOptions say where a Terminal begins; zero is the beginning.
type TerminalOptions struct {
	Offset int64 // position in the output
	Tail   int64 // instead of Offset: begin so many bytes before the end; -1 begins at the end
}

// A Terminal is an attached session: its output and the user's input. The session
// continues when the terminal is closed. One goroutine receives; the other methods may
// be called concurrently.
type Terminal struct {
	c  *Client
	ws *websocket.Conn
}

// Terminal attaches to a session of a workspace.
func (c *Client) Terminal(ctx context.Context, nameOrID, session string, opts TerminalOptions) (*Terminal, error) {
	q := params{url.Values{}}.number("offset", opts.Offset).number("tail", opts.Tail)
	ws, err := c.dial(ctx, workspacePath(nameOrID, "/sessions/"+url.PathEscape(session)+"/attach"), q.Values)
	if err != nil {
		return nil, err
	}
	ws.SetReadLimit(shellwire.MaxAnswer)
	return &Terminal{c: c, ws: ws}, nil
}

// Receive waits for output. At the end of the command it returns the result, and
// no output. A context that ends closes the terminal.
func (t *Terminal) Receive(ctx context.Context) (data []byte, result *driver.Result, err error) {
	typ, data, err := t.ws.Read(ctx)
	if err != nil {
		return nil, nil, t.c.transportError(ctx, err)
	}
	if typ == websocket.MessageBinary {
		return data, nil, nil
	}
	var m shellwire.Message
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, nil, fmt.Errorf("client: terminal: %w: %w", fault.Unavailable, err)
	}
	switch {
	case m.Error != nil:
		return nil, nil, m.Error.Err()
	case m.Result != nil:
		return nil, m.Result, nil
	}
	return nil, nil, fmt.Errorf("client: terminal: %w: server %s sent a message %q that means nothing", fault.Unavailable, t.c.base, m.Type)
}

// Write sends data to the standard input of the session.
func (t *Terminal) Write(ctx context.Context, data []byte) error {
	if err := t.ws.Write(ctx, websocket.MessageBinary, data); err != nil {
		return t.c.transportError(ctx, err)
	}
	return nil
}

// Resize sets the size of the session's terminal.
func (t *Terminal) Resize(ctx context.Context, size driver.Size) error {
	return t.sendControl(ctx, shellwire.Message{Type: shellwire.TypeResize, Size: &size})
}

// EOF ends the standard input of the session.
func (t *Terminal) EOF(ctx context.Context) error {
	return t.sendControl(ctx, shellwire.Message{Type: shellwire.TypeEOF})
}

func (t *Terminal) sendControl(ctx context.Context, m shellwire.Message) error {
	data, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("client: terminal: %w: %w", fault.Internal, err)
	}
	if err := t.ws.Write(ctx, websocket.MessageText, data); err != nil {
		return t.c.transportError(ctx, err)
	}
	return nil
}

// Close closes the connection. The session continues.
func (t *Terminal) Close() { t.ws.Close(websocket.StatusNormalClosure, "") } //nolint:errcheck // the server may be gone

// Follow returns the output of a stream from offset on, and further output as the command
// writes it, until the command ends.
func (c *Client) Follow(ctx context.Context, nameOrID, session string, stream driver.Stream, offset int64) (io.ReadCloser, error) {
	q := params{url.Values{"stream": {string(stream)}}}.number("offset", offset)
	res, err := c.send(ctx, request{method: http.MethodGet, path: workspacePath(nameOrID, "/sessions/"+url.PathEscape(session)+"/follow"), query: q.Values}) //nolint:bodyclose // the caller closes it
	if err != nil {
		return nil, err
	}
	return &content{ReadCloser: res.Body, ctx: ctx, c: c}, nil
}
