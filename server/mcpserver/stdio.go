package mcpserver

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/croft-run/croft/fault"
)

// A stdio is the transport of one client over a pair of streams, one message per
// line. Unlike the SDK's, it keeps the session when a line is no message or is too
// long, and it writes a result without scanning its JSON again.
type stdio struct {
	in    io.Reader
	read  chan received
	ended chan struct{} // closed by Close
	once  sync.Once

	mu  sync.Mutex
	out io.Writer // guarded by mu
}

type received struct {
	msg jsonrpc.Message
	err error
}

func newStdio(in io.Reader, out io.Writer) *stdio {
	return &stdio{in: in, read: make(chan received), ended: make(chan struct{}), out: out}
}

// Connect starts to read. A blocked read of a stream can't be interrupted: after
// Close the goroutine ends with the stream.
func (s *stdio) Connect(context.Context) (mcp.Connection, error) {
	go func() {
		r := bufio.NewReader(s.in)
		for err := error(nil); err == nil; {
			var list []jsonrpc.Message
			if list, err = s.readMessages(r); err != nil {
				list = []jsonrpc.Message{nil}
			}
			for _, msg := range list {
				select {
				case s.read <- received{msg, err}:
				case <-s.ended:
					return
				}
			}
		}
	}()
	return s, nil
}

// readMessages returns the messages of the next line. One that is no message is answered.
func (s *stdio) readMessages(r *bufio.Reader) ([]jsonrpc.Message, error) {
	data, err := readLine(r)
	if err != nil {
		return nil, err
	}
	list, err := decodeMessages(data)
	if err != nil {
		refusal := &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: fmt.Sprintf("%.300s", err)}
		return nil, s.writeLine(json.Marshal(map[string]any{"jsonrpc": "2.0", "id": nil, "error": refusal}))
	}
	return list, nil
}

// readLine reads a line without its end. The last one may lack an end. Of a line of
// more than maxMessage bytes it returns one byte more than that.
func readLine(r *bufio.Reader) ([]byte, error) {
	var out []byte
	for {
		part, err := r.ReadSlice('\n')
		out = append(out, part[:min(len(part), maxMessage+1-len(out))]...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if errors.Is(err, io.EOF) && len(bytes.TrimSpace(out)) > 0 {
			err = nil
		}
		return out, err
	}
}

// decodeMessages reads the messages of a line: none, one, or a batch, which older versions
// of the protocol have. The SDK bounds the depth of each.
func decodeMessages(data []byte) ([]jsonrpc.Message, error) {
	long := len(data) > maxMessage
	data = bytes.TrimSpace(data)
	list := []json.RawMessage{data}
	switch {
	case len(data) == 0:
		return nil, nil
	case long || !json.Valid(data):
		return nil, fmt.Errorf("mcpserver: read a message: %w: it is no JSON, nested too deeply, or longer than %d bytes", fault.InvalidArgument, maxMessage)
	case data[0] == '[':
		if err := json.Unmarshal(data, &list); err != nil || len(list) == 0 {
			return nil, fmt.Errorf("mcpserver: read a batch: %w: it is empty", fault.InvalidArgument)
		}
	}
	var out []jsonrpc.Message
	for _, one := range list {
		msg, err := jsonrpc.DecodeMessage(one)
		if err != nil {
			return nil, err
		}
		out = append(out, msg)
	}
	return out, nil
}

// Read returns the next message.
func (s *stdio) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case r := <-s.read:
		return r.msg, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.ended:
		return nil, io.EOF
	}
}

// Write writes a message. A result is JSON already: jsonrpc.EncodeMessage would scan
// and copy it once more.
func (s *stdio) Write(_ context.Context, msg jsonrpc.Message) error {
	r, ok := msg.(*jsonrpc.Response)
	if !ok || r.Error != nil {
		return s.writeLine(jsonrpc.EncodeMessage(msg))
	}
	id, err := json.Marshal(r.ID.Raw())
	return s.writeLine(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, r.Result), err)
}

func (s *stdio) writeLine(data []byte, err error) error {
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err = s.out.Write(append(data, '\n'))
	return err
}

// Close ends the connection; the streams are the caller's.
func (s *stdio) Close() error {
	s.once.Do(func() { close(s.ended) })
	return nil
}

// SessionID is empty: there is one session.
func (s *stdio) SessionID() string { return "" }
