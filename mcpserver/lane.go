package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/croft-run/croft/internal/quote"
	"github.com/croft-run/croft/tool"
)

// A lane answers calls of tools past the library. The library hands a call over
// four times before it is handled and decodes it three times, which costs more
// than most calls do. Here the goroutine that reads a call runs it. One that takes
// its time has another read on meanwhile (turnover).
//
// What the lane does not know it leaves to the library: everything that is no
// call of a tool, what comes before the greeting, what newer versions of the
// protocol add to each request, and calls that may have to be approved.
type lane struct {
	server  *Server
	served  *served
	session atomic.Pointer[mcp.ServerSession]

	mu      sync.Mutex
	running map[string]context.CancelFunc // +checklocks:mu; by the id of the call, as it was written
}

// A laneCall is a call that the lane has taken.
type laneCall struct {
	id   json.RawMessage
	call toolCall
	req  *mcp.CallToolRequest
	ctx  context.Context
	done func()
}

// callMessage is what is read of a message.
type callMessage struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  struct {
		Meta      mcp.Meta        `json:"_meta"`
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
		RequestID json.RawMessage `json:"requestId"`
	} `json:"params"`
}

// split reads a message of the usual form, without a decoder; false, and m as it
// was, where there is anything else in it.
func (m *callMessage) split(line []byte) bool {
	var room [8]quote.Member
	var now callMessage
	list, ok := quote.Members(room[:0], line)
	for i := 0; ok && i < len(list); i++ {
		switch v := list[i].Value; list[i].Key {
		case "jsonrpc":
			now.Version, ok = quote.String(v)
		case "id":
			now.ID = v
		case "method":
			now.Method, ok = quote.String(v)
		case "params":
			ok = now.splitParams(v)
		default:
			ok = false
		}
	}
	if ok {
		*m = now
	}
	return ok
}

func (m *callMessage) splitParams(params []byte) bool {
	var room [8]quote.Member
	list, ok := quote.Members(room[:0], params)
	for i := 0; ok && i < len(list); i++ {
		switch v := list[i].Value; list[i].Key {
		case "name":
			m.Params.Name, ok = quote.String(v)
		case "arguments":
			m.Params.Arguments = v
		default:
			ok = false
		}
	}
	return ok
}

const (
	callMethod   = "tools/call"
	cancelMethod = "notifications/cancelled"
	laneVersion  = "2025-11-25" // the latest version of the protocol that the lane knows
)

// Texts that a message must have for the lane to look at it, and one that it must
// not have: it is in the names of what newer versions add to requests.
var (
	callMark   = []byte(`"` + callMethod + `"`)
	cancelMark = []byte(`"` + cancelMethod + `"`)
	newerMark  = []byte(`io.modelcontextprotocol/`)
)

// take returns the call of a message, nil where the library has to see it. over
// reports that nobody else needs to.
func (l *lane) take(ctx context.Context, line []byte) (call *laneCall, over bool) {
	calls := bytes.Contains(line, callMark)
	if !calls && !bytes.Contains(line, cancelMark) || bytes.Contains(line, newerMark) {
		return nil, false
	}
	ss := l.session.Load()
	if ss == nil || l.server.opts.Env.Approval != nil {
		return nil, false
	}
	greeting := ss.InitializeParams()
	if greeting == nil || greeting.ProtocolVersion > laneVersion {
		return nil, false
	}
	var m callMessage
	if !m.split(line) && json.Unmarshal(line, &m) != nil || m.Version != "2.0" {
		return nil, false
	}
	if m.Method == cancelMethod {
		return nil, l.cancel(string(m.Params.RequestID))
	}
	known, ok := l.served.calls.Load(m.Params.Name)
	if m.Method != callMethod || !ok || !validID(m.ID) {
		return nil, false
	}
	call = &laneCall{id: m.ID, call: known.(toolCall), req: &mcp.CallToolRequest{
		Session: ss, Params: &mcp.CallToolParamsRaw{Meta: m.Params.Meta, Name: m.Params.Name, Arguments: m.Params.Arguments},
	}}
	return call, l.begin(ctx, call)
}

// validID reports whether an id is a string or a number. It is sent back as it is.
func validID(id json.RawMessage) bool {
	return len(id) > 0 && utf8.Valid(id) && (id[0] == '"' || id[0] == '-' || id[0] >= '0' && id[0] <= '9')
}

// begin notes a call; false where one of the same id runs.
func (l *lane) begin(ctx context.Context, call *laneCall) bool {
	ctx, cancel := context.WithCancel(ctx)
	id := string(call.id)
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, dup := l.running[id]; dup {
		cancel()
		return false
	}
	if l.running == nil {
		l.running = map[string]context.CancelFunc{}
	}
	l.running[id] = cancel
	call.ctx, call.done = ctx, func() {
		cancel()
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.running, id)
	}
	return true
}

// cancel ends a call; false where it is none of the lane's.
func (l *lane) cancel(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	cancel, ok := l.running[id]
	if ok {
		cancel()
	}
	return ok
}

// run runs a call and appends the line that answers it to buf. A text that comes
// as JSON is put in its place right away. What there is of a large one is given to
// send, before the call is over; where that takes it, run returns the rest.
func (c *laneCall) run(buf []byte, send func(part []byte) bool) ([]byte, error) {
	from := len(buf)
	buf = append(append(append(buf, `{"jsonrpc":"2.0","id":`...), c.id...), `,"result":{"content":[{"type":"text","text":`...)
	text := len(buf)
	sent := false
	res, question, err := c.call(c.ctx, c.req, outlet{&buf, func() {
		if send(buf) {
			buf, sent = buf[:0], true
		}
	}})
	c.done()                                 // from here on the client may use the id again
	if sent && (err != nil || !res.Quoted) { // a defect: the text was sure to be the answer
		return append(buf[:0], `"}],"isError":true}}`+"\n"...), nil
	}
	if err == nil && question == nil {
		if !res.Quoted {
			buf = quote.Append(buf[:text], res.Text)
		}
		return appendResult(buf, res, !wantsText(c.req.ClientInfo()))
	}
	buf = buf[:from]
	if question == nil {
		question, err = result(res, err)
	}
	if err != nil {
		return appendFailure(buf, c.id, err)
	}
	return appendAnswer(buf, c.id, question)
}

// appendResult appends the rest of the line of what a tool answered, after its text.
func appendResult(buf []byte, res tool.Result, withData bool) ([]byte, error) {
	buf = append(buf, '}')
	if res.Handle != "" {
		link, err := wholeAnswer(res.Handle).MarshalJSON()
		if err != nil {
			return nil, err
		}
		buf = append(append(buf, ','), link...)
	}
	buf = append(buf, ']')
	switch {
	case res.Beside != nil:
		buf = append(append(append(buf, `,"_meta":{"`+dataMeta+`":`...), res.Beside...), '}')
	case withData && len(res.Structured) > 0:
		buf = append(append(buf, `,"structuredContent":`...), res.Structured...)
	}
	return append(buf, "}}\n"...), nil
}

// appendAnswer appends the line of any other answer.
func appendAnswer(buf []byte, id json.RawMessage, res *mcp.CallToolResult) ([]byte, error) {
	data, err := json.Marshal(res)
	if err != nil {
		return nil, err
	}
	buf = append(append(append(buf, `{"jsonrpc":"2.0","id":`...), id...), `,"result":`...)
	return append(append(buf, data...), "}\n"...), nil
}

// appendFailure appends the line of an error that is not the model's to read.
func appendFailure(buf []byte, id json.RawMessage, err error) ([]byte, error) {
	var wire *jsonrpc.Error
	if !errors.As(err, &wire) {
		wire = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: err.Error()}
	}
	data, merr := json.Marshal(wire)
	if merr != nil {
		return nil, merr
	}
	buf = append(append(append(buf, `{"jsonrpc":"2.0","id":`...), id...), `,"error":`...)
	return append(append(buf, data...), "}\n"...), nil
}
