package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/coder/websocket"
	"github.com/danielgtaylor/huma/v2"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/shellwire"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

func (s *Server) attachOp() huma.Operation {
	op := s.op(http.MethodGet, sessionPath+"/attach", "attach-session", "A session as a terminal: a WebSocket with its output and its input")
	op.Description = "Binary messages are what the command writes (standard output and, without a terminal, nothing else) and what is typed. " +
		"Text messages are {\"type\": \"resize\", \"size\": {\"rows\", \"cols\"}} and {\"type\": \"eof\"} to the server, and " +
		"{\"type\": \"exit\", \"result\": ...} or {\"type\": \"error\", \"error\": ...} from it, as the last. " +
		"The session goes on when the connection ends, and any number may attach to it."
	return switching(op)
}

type attachInput struct {
	SessionTarget
	Offset int64 `query:"offset" doc:"of the output, where to begin"`
	Tail   int64 `query:"tail" doc:"begin so many bytes before the end instead; -1 is all that comes from now on"`
}

func (s *Server) attach(ctx context.Context, session *workspace.Session, in *attachInput) (*huma.StreamResponse, error) {
	offset := in.Offset
	if in.Tail != 0 {
		chunk, err := session.Log(ctx, driver.Stdout, 0, 1)
		if err != nil {
			return nil, err
		}
		offset = max(0, chunk.Size-max(0, in.Tail))
	}
	if _, err := session.Log(ctx, driver.Stdout, offset, 1); err != nil {
		return nil, err
	}
	return s.upgrade(func(ctx context.Context, cancel context.CancelFunc, c *websocket.Conn) {
		c.SetReadLimit(shellwire.MaxRequest)
		s.terminal(ctx, cancel, c, session, offset)
	}), nil
}

// terminal copies between a session and a connection until one of them ends.
func (s *Server) terminal(ctx context.Context, cancel context.CancelFunc, c *websocket.Conn, session *workspace.Session, offset int64) {
	typed := make(chan error, 1)
	go func() {
		err := typing(ctx, c, session)
		cancel()
		typed <- err
	}()
	err := session.Follow(ctx, driver.Stdout, offset, func(chunk driver.LogChunk) error {
		return c.Write(ctx, websocket.MessageBinary, chunk.Data)
	})
	last := shellwire.Message{Type: shellwire.TypeExit}
	if err == nil {
		var res driver.Result
		if res, err = session.Wait(ctx); err == nil {
			res.Stdout, res.Stderr = nil, nil
			last.Result = &res
		}
	}
	if ctx.Err() == nil {
		if err != nil {
			wire := s.problem(requestInfo{http.MethodGet, sessionPath + "/attach"}, err).Wire
			last = shellwire.Message{Type: shellwire.TypeError, Error: &wire}
		}
		if data, err := json.Marshal(last); err == nil && c.Write(ctx, websocket.MessageText, data) == nil {
			c.Close(websocket.StatusNormalClosure, "") //nolint:errcheck // the client may be gone
		}
	}
	cancel()
	if err := <-typed; fault.Of(err) == fault.InvalidArgument {
		c.Close(websocket.StatusPolicyViolation, err.Error()[:min(len(err.Error()), 120)]) //nolint:errcheck // as above
	}
}

// typing hands on what the client sends until it is gone.
func typing(ctx context.Context, c *websocket.Conn, session *workspace.Session) error {
	for {
		typ, data, err := c.Read(ctx)
		if err != nil {
			return err
		}
		if typ == websocket.MessageBinary {
			// A command that reads no more is no reason to stop showing it.
			if err := session.Write(ctx, data); err != nil && ctx.Err() != nil {
				return err
			}
			continue
		}
		var m shellwire.Message
		if err := json.Unmarshal(data, &m); err != nil {
			return fmt.Errorf("a control message: %w: %w", fault.InvalidArgument, err)
		}
		switch {
		case m.Type == shellwire.TypeResize && m.Size != nil:
			session.Resize(ctx, *m.Size) //nolint:errcheck // a command that ended has no size
		case m.Type == shellwire.TypeEOF:
			session.CloseStdin(ctx) //nolint:errcheck // as above
		default:
			return fmt.Errorf("control message %q: %w: there are resize and eof", m.Type, fault.InvalidArgument)
		}
	}
}
