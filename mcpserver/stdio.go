package mcpserver

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/quote"
)

// A stdio is the transport of one client over a pair of streams, one message to a
// line.
//
// The library would look at every byte of an answer four times on its way out:
// once for each level that an answer is nested in. Here the large parts of an
// answer stay aside (aside), are encoded once, and take their places in the line
// when it is written.
type stdio struct {
	in    *bufio.Reader
	lines chan line
	ended chan struct{} // closed by Close
	once  sync.Once
	queue []jsonrpc.Message // of a batch; for Read alone
	lane  *lane
	turn  *turnover
	watch sync.WaitGroup
	stop  context.CancelFunc // ends the watch

	mu      sync.Mutex
	out     io.Writer // +checklocks:mu
	begun   bool      // +checklocks:mu; a part of a line was written, and the rest will be
	waiting []byte    // +checklocks:mu; lines that follow it

	bufM sync.Mutex
	buf  []byte // +checklocks:bufM; of the line that is written, kept for the next

	mark  string // what no text of others can contain
	heldM sync.Mutex
	held  map[string]large // +checklocks:heldM; by the number of the answer
	last  int              // +checklocks:heldM
}

// large is what of an answer stays aside.
type large struct {
	text string
	data json.RawMessage // nil is none
}

type line struct {
	data []byte
	err  error
}

// maxKeptLine is the size of the largest buffer that is kept for the next line.
const maxKeptLine = 512 << 10

func newStdio(in io.Reader, out io.Writer, l *lane) *stdio {
	widen(out)
	return &stdio{
		lane: l,
		in:   bufio.NewReaderSize(in, 16<<10), lines: make(chan line), ended: make(chan struct{}),
		out: out, mark: "croft:" + rand.Text() + ":", held: map[string]large{},
	}
}

// Connect begins to read. A read of a stream can't be given up, so the one that
// waits when the connection is closed ends with the stream.
func (s *stdio) Connect(ctx context.Context) (mcp.Connection, error) {
	watched, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.turn = newTurnover(func() { s.read(ctx) })
	s.stop = stop
	s.watch.Go(func() { s.turn.watch(watched) })
	go s.read(ctx)
	return s, nil
}

// read reads messages, and answers those that are its own, until the stream ends
// or somebody else reads.
func (s *stdio) read(ctx context.Context) {
	for {
		data, err := readLine(s.in)
		if len(data) == 0 && err == nil {
			continue
		}
		if err == nil {
			call, over := s.lane.take(ctx, data)
			if over && call != nil {
				s.turn.begin()
				s.run(call)
				if !s.turn.end() {
					return
				}
			}
			if over {
				continue
			}
		}
		select {
		case s.lines <- line{data, err}:
		case <-s.ended:
			return
		}
		if err != nil {
			return
		}
	}
}

var laneBuffers = sync.Pool{New: func() any { return new([]byte) }}

// run runs a call of the lane and writes its answer. A client that can't be
// written to is gone.
func (s *stdio) run(call *laneCall) {
	buf := laneBuffers.Get().(*[]byte)
	begun := false
	out, err := call.run((*buf)[:0], func(part []byte) bool {
		first := s.begin(part)
		begun = begun || first
		return first
	})
	if err == nil {
		err = s.put(out, begun)
	}
	if err != nil {
		_ = s.Close() // it never fails
	}
	if cap(out) <= maxKeptLine {
		*buf = out
	}
	laneBuffers.Put(buf)
}

// tooLong stands for a line that is longer than messages may be. It is no message.
var tooLong = []byte("too long")

// readLine reads a line without its end. The last one may lack an end.
func readLine(r *bufio.Reader) ([]byte, error) {
	var out []byte
	long := false
	for {
		part, err := r.ReadSlice('\n')
		if long = long || len(out)+len(part) > maxMessage; long {
			out = tooLong // the rest of the line is read, and left
		} else {
			out = append(out, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(bytes.TrimSpace(out)) > 0:
			return out, nil
		default:
			return bytes.TrimSpace(out), err
		}
	}
}

// Read returns the next message. Those of a batch, which older versions of the
// protocol have, come one after the other.
func (s *stdio) Read(ctx context.Context) (jsonrpc.Message, error) {
	if len(s.queue) > 0 {
		next := s.queue[0]
		s.queue = s.queue[1:]
		return next, nil
	}
	for {
		select {
		case l := <-s.lines:
			if l.err != nil {
				return nil, l.err
			}
			msg, err := s.decode(l.data)
			if err == nil {
				return msg, nil
			}
			if err := s.refuse(err); err != nil { // it does not end the session
				return nil, err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-s.ended:
			return nil, io.EOF
		}
	}
}

// refuse answers what is no message.
func (s *stdio) refuse(cause error) error {
	text := cause.Error()
	line, err := appendFailure(nil, json.RawMessage("null"), &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: text[:min(len(text), maxRefusal)]})
	if err != nil {
		return err
	}
	return s.put(line, false)
}

// begin writes the first part of a line, whose rest is put. It reports false, and has
// written nothing, where a line has begun already.
func (s *stdio) begin(part []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun {
		return false
	}
	s.begun = true
	_, _ = s.out.Write(part) // the end of the line can't be written, either, and tells
	return true
}

// put writes a line, or the rest of the one that has begun. Where another one has
// begun this one follows it.
func (s *stdio) put(line []byte, rest bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun && !rest {
		s.waiting = append(s.waiting, line...)
		return nil
	}
	s.begun = false
	_, err := s.out.Write(line)
	if err == nil && len(s.waiting) > 0 {
		_, err = s.out.Write(s.waiting)
	}
	s.waiting = nil
	return err
}

// maxRefusal is how much is said of what is no message.
const maxRefusal = 300

func (s *stdio) decode(data []byte) (jsonrpc.Message, error) {
	if !json.Valid(data) { // nor nested so deeply that the library would run out of stack
		return nil, fmt.Errorf("mcpserver: read a message: %w: it is no JSON, nested too deeply, or longer than %d bytes", fault.InvalidArgument, maxMessage)
	}
	if data[0] != '[' {
		return jsonrpc.DecodeMessage(data)
	}
	var list []json.RawMessage
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("mcpserver: read a batch: %w: %w", fault.InvalidArgument, err)
	}
	for _, one := range list {
		msg, err := jsonrpc.DecodeMessage(one)
		if err != nil {
			return nil, err
		}
		s.queue = append(s.queue, msg)
	}
	if len(s.queue) == 0 {
		return nil, fmt.Errorf("mcpserver: read a batch: %w: it is empty", fault.InvalidArgument)
	}
	next := s.queue[0]
	s.queue = s.queue[1:]
	return next, nil
}

// aside takes the large parts out of an answer, and leaves marks in their place.
func (s *stdio) aside(r *mcp.CallToolResult) {
	text, ok := r.Content[0].(*mcp.TextContent)
	if !ok {
		return
	}
	l := large{text: text.Text}
	l.data, _ = r.StructuredContent.(json.RawMessage)
	s.heldM.Lock()
	defer s.heldM.Unlock()
	s.last++
	key := strconv.Itoa(s.last)
	s.held[key] = l
	r.Content[0] = &mcp.TextContent{Text: s.mark + "t" + key, Meta: text.Meta, Annotations: text.Annotations}
	if l.data != nil {
		r.StructuredContent = s.mark + "d" + key
	}
}

// Write writes a message as one line.
func (s *stdio) Write(ctx context.Context, msg jsonrpc.Message) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	data, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return err
	}
	s.bufM.Lock()
	defer s.bufM.Unlock()
	buf := s.fill(s.buf[:0], data)
	buf = append(buf, '\n')
	err = s.put(buf, false)
	if s.buf = buf; cap(buf) > maxKeptLine {
		s.buf = nil
	}
	return err
}

// fill appends a message to buf with what stayed aside in its places.
func (s *stdio) fill(buf, data []byte) []byte {
	mark := []byte(`"` + s.mark)
	var done []string
	for {
		i := bytes.Index(data, mark)
		if i < 0 {
			break
		}
		end := i + len(mark) + bytes.IndexByte(data[i+len(mark):], '"')
		which, key := data[i+len(mark)], string(data[i+len(mark)+1:end])
		s.heldM.Lock()
		l := s.held[key]
		s.heldM.Unlock()
		buf = append(buf, data[:i]...)
		if which == 't' {
			buf = quote.Append(buf, l.text)
		} else {
			buf = append(buf, l.data...)
		}
		data, done = data[end+1:], append(done, key)
	}
	s.heldM.Lock()
	for _, key := range done {
		delete(s.held, key)
	}
	s.heldM.Unlock()
	return append(buf, data...)
}

// Close ends the connection; the streams are the caller's.
func (s *stdio) Close() error {
	s.once.Do(func() {
		close(s.ended)
		s.stop()
	})
	s.watch.Wait()
	return nil
}

// SessionID is empty: there is one session.
func (s *stdio) SessionID() string { return "" }

type stdioKey struct{}

// lighten takes the large parts of answers aside where the client is one of
// stdio.
func lighten(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		res, err := next(ctx, method, req)
		if s, ok := ctx.Value(stdioKey{}).(*stdio); ok && err == nil {
			if r, ok := res.(*mcp.CallToolResult); ok && len(r.Content) > 0 {
				s.aside(r)
			}
		}
		return res, err
	}
}
