package lsp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/croft-run/croft/fault"
)

// Bounds of the connection with a server.
const (
	maxMessage = 64 << 20
	maxHeader  = 4 << 10
	maxQueued  = 32 << 20 // bytes waiting to be written
)

// A message is a request, a notification or a response.
type message struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

// An rpcError is an error response of a server.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *rpcError) Error() string { return e.Message }

// Error codes. After the first two the request is sent again: the content was modified, or
// the server cancelled by itself.
const (
	codeContentModified = -32801
	codeServerCancelled = -32802
	codeMethodNotFound  = -32601
)

// readMessage reads one frame: headers, an empty line, and a body of Content-Length bytes.
func readMessage(r *bufio.Reader) ([]byte, error) {
	length, read := -1, 0
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			if errors.Is(err, bufio.ErrBufferFull) {
				err = fmt.Errorf("a header of more than %d bytes: %w", maxHeader, fault.InvalidArgument)
			}
			return nil, err
		}
		if read += len(line); read > maxHeader {
			return nil, fmt.Errorf("headers of more than %d bytes: %w", maxHeader, fault.InvalidArgument)
		}
		text := strings.TrimRight(string(line), "\r\n")
		if text == "" {
			break
		}
		name, value, ok := strings.Cut(text, ":")
		if !ok {
			return nil, fmt.Errorf("header %q: %w", text, fault.InvalidArgument)
		}
		if strings.EqualFold(strings.TrimSpace(name), "Content-Length") {
			if length, err = strconv.Atoi(strings.TrimSpace(value)); err != nil || length < 0 || length > maxMessage {
				return nil, fmt.Errorf("length %q: %w: 0 to %d are allowed", value, fault.InvalidArgument, maxMessage)
			}
		}
	}
	if length < 0 {
		return nil, fmt.Errorf("a message without its length: %w", fault.InvalidArgument)
	}
	var body bytes.Buffer // grows with the data, not with Content-Length
	if _, err := io.CopyN(&body, r, int64(length)); err != nil {
		return nil, err
	}
	return body.Bytes(), nil
}

// encodeFrame encodes a message with its header.
func encodeFrame(m message) ([]byte, error) {
	m.Version = "2.0"
	data, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	return append(fmt.Appendf(nil, "Content-Length: %d\r\n\r\n", len(data)), data...), nil
}

// A conn is the JSON-RPC connection with one server. Outgoing messages are queued, because
// a server that hangs does not read, and writers must not block.
type conn struct {
	w      io.Writer
	handle func(method string, params json.RawMessage) (any, error) // handles requests and notifications of the server

	outMu  sync.Mutex
	queue  [][]byte      // guarded by outMu
	queued int           // bytes not yet written; guarded by outMu
	outErr error         // set once writing has failed; guarded by outMu
	wake   chan struct{} // signals a new message in the queue

	mu      sync.Mutex
	next    int64
	pending map[string]chan message // guarded by mu
	err     error                   // why reading ended; guarded by mu
	done    chan struct{}
}

func newConn(w io.Writer, handle func(string, json.RawMessage) (any, error)) *conn {
	return &conn{w: w, handle: handle, wake: make(chan struct{}, 1), pending: map[string]chan message{}, done: make(chan struct{})}
}

// readLoop reads messages until r ends.
func (c *conn) readLoop(r io.Reader) {
	br := bufio.NewReaderSize(r, maxHeader)
	var err error
	for {
		var data []byte
		if data, err = readMessage(br); err != nil {
			break
		}
		var m message
		if err = json.Unmarshal(data, &m); err != nil {
			err = fmt.Errorf("a message that is not JSON: %w: %w", fault.InvalidArgument, err)
			break
		}
		c.dispatch(m)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
	close(c.done)
}

// dispatch handles one message. Requests of the server are answered at once: they ask for
// settings and the like, and never block.
func (c *conn) dispatch(m message) {
	if m.Method == "" {
		c.mu.Lock()
		waiting := c.pending[string(m.ID)]
		delete(c.pending, string(m.ID))
		c.mu.Unlock()
		if waiting != nil {
			waiting <- m
		}
		return
	}
	result, err := c.handle(m.Method, m.Params)
	if len(m.ID) == 0 {
		return
	}
	reply := message{ID: m.ID}
	if err != nil {
		reply.Error = &rpcError{Code: codeMethodNotFound, Message: err.Error()}
	} else if reply.Result, err = json.Marshal(result); err != nil {
		reply.Error = &rpcError{Code: codeMethodNotFound, Message: err.Error()}
	}
	_ = c.enqueue(reply) // readLoop sees the end of a server that can't be written to
}

// enqueue adds a message to the queue.
func (c *conn) enqueue(m message) error {
	data, err := encodeFrame(m)
	if err != nil {
		return err
	}
	c.outMu.Lock()
	defer c.outMu.Unlock()
	if c.outErr == nil && c.queued > maxQueued {
		c.outErr = fmt.Errorf("the server does not read: %d bytes are queued", c.queued)
	}
	if c.outErr != nil {
		return c.outErr
	}
	c.queue, c.queued = append(c.queue, data), c.queued+len(data)
	select {
	case c.wake <- struct{}{}:
	default: // already signalled
	}
	return nil
}

// writeLoop writes the queue, until the server ends or a write fails.
func (c *conn) writeLoop() {
	for {
		select {
		case <-c.wake:
		case <-c.done:
			return
		}
		for data := c.nextQueued(); data != nil; data = c.nextQueued() {
			_, err := c.w.Write(data)
			c.outMu.Lock()
			c.queued -= len(data)
			if err != nil {
				c.outErr = err
			}
			c.outMu.Unlock()
			if err != nil {
				return
			}
		}
	}
}

func (c *conn) nextQueued() []byte {
	c.outMu.Lock()
	defer c.outMu.Unlock()
	if len(c.queue) == 0 {
		return nil
	}
	data := c.queue[0]
	c.queue = c.queue[1:]
	return data
}

// notify sends a notification.
func (c *conn) notify(method string, params any) error {
	data, err := json.Marshal(params)
	if err != nil {
		return fmt.Errorf("lsp: %s: %w: %w", method, fault.Internal, err)
	}
	if err := c.enqueue(message{Method: method, Params: data}); err != nil {
		return c.diedError(method, err)
	}
	return nil
}

// call sends a request and waits for the response. When ctx ends, it sends a cancellation.
func (c *conn) call(ctx context.Context, method string, params, result any) error {
	data, err := json.Marshal(params)
	if err != nil {
		return fmt.Errorf("lsp: %s: %w: %w", method, fault.Internal, err)
	}
	c.mu.Lock()
	c.next++
	id := strconv.FormatInt(c.next, 10)
	answer := make(chan message, 1)
	c.pending[id] = answer
	c.mu.Unlock()
	if err := c.enqueue(message{ID: json.RawMessage(id), Method: method, Params: data}); err != nil {
		return c.diedError(method, err)
	}
	select {
	case m := <-answer:
		return decodeAnswer(method, m, result)
	case <-c.done:
		return c.diedError(method, c.endReason())
	case <-ctx.Done():
		c.mu.Lock()
		delete(c.pending, id)
		c.mu.Unlock()
		_ = c.notify("$/cancelRequest", map[string]json.RawMessage{"id": json.RawMessage(id)})
		return fmt.Errorf("lsp: %s: %w", method, ctx.Err())
	}
}

func decodeAnswer(method string, m message, result any) error {
	if m.Error != nil {
		return fmt.Errorf("lsp: %s: %w", method, m.Error)
	}
	if result == nil || len(m.Result) == 0 {
		return nil
	}
	if err := json.Unmarshal(m.Result, result); err != nil {
		return fmt.Errorf("lsp: %s: unexpected response: %w: %w", method, fault.Unavailable, err)
	}
	return nil
}

// errDied is the error of a server that has exited.
var errDied = errors.New("the language server ended")

func (c *conn) endReason() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil || errors.Is(c.err, io.EOF) {
		return errDied
	}
	return fmt.Errorf("%w: %w", errDied, c.err)
}

func (c *conn) diedError(method string, err error) error {
	if !errors.Is(err, errDied) {
		err = fmt.Errorf("%w: %w", errDied, err)
	}
	return fmt.Errorf("lsp: %s: %w: %w", method, fault.Unavailable, err)
}
