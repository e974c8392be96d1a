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

// A stdio is the transport of one client over a pair of streams, one message per line.
// Unlike the SDK's, it survives an invalid or too long line, and it writes a result
// without scanning its JSON again.
type stdio struct {
	in    io.Reader
	read  chan received
	ended chan struct{} // closed by Close
	once  sync.Once
	scrub func(string) string // for errors, which quote the message

	mu  sync.Mutex
	out io.Writer // guarded by mu
}

type received struct {
	msg jsonrpc.Message
	err error
}

func newStdio(in io.Reader, out io.Writer, scrub func(string) string) *stdio {
	return &stdio{in: in, scrub: scrub, read: make(chan received), ended: make(chan struct{}), out: out}
}

// Connect starts the reading goroutine. A blocked read can't be interrupted: after
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

// readMessages returns the messages of the next line. An invalid line is answered with
// a parse error.
func (s *stdio) readMessages(r *bufio.Reader) ([]jsonrpc.Message, error) {
	data, err := readLine(r)
	if err != nil {
		return nil, err
	}
	list, err := decodeMessages(data)
	if err != nil {
		refusal := &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: fmt.Sprintf("%.300s", s.scrub(err.Error()))}
		return nil, s.writeLine(json.Marshal(map[string]any{"jsonrpc": "2.0", "id": nil, "error": refusal}))
	}
	return list, nil
}

// readLine reads a line; the last one may lack its newline. A line of more than
// maxMessage bytes is truncated to maxMessage+1.
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

// decodeMessages decodes the messages of a line: none, one, or a batch of older
// versions of the protocol. The SDK bounds the depth of each.
func decodeMessages(data []byte) ([]jsonrpc.Message, error) {
	long := len(data) > maxMessage
	data = bytes.TrimSpace(data)
	list := []json.RawMessage{data}
	switch {
	case len(data) == 0:
		return nil, nil
	case long || !json.Valid(data):
		return nil, fmt.Errorf("mcpserver: read a message: %w: it is not JSON, too deeply nested, or longer than %d bytes", fault.InvalidArgument, maxMessage)
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

// Close ends the connection; the caller closes the streams.
func (s *stdio) Close() error {
	s.once.Do(func() { close(s.ended) })
	return nil
}

// SessionID is empty: there is one session.
func (s *stdio) SessionID() string { return "" }
