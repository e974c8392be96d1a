package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/coder/websocket"
	"github.com/danielgtaylor/huma/v2"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/shellwire"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

func (s processRoutes) attachOp() huma.Operation {
	op := s.op(http.MethodGet, sessionPath+"/attach", "attach-session", "Attach to a session as a terminal, over a WebSocket")
	op.Description = "Binary messages are the command's output (standard output only) and the user's input. " +
		"Text messages are {\"type\": \"resize\", \"size\": {\"rows\", \"cols\"}} and {\"type\": \"eof\"} to the server, and " +
		"{\"type\": \"exit\", \"result\": ...} or {\"type\": \"error\", \"error\": ...} from it, as the last. " +
		"The session keeps running when the connection ends. Several clients may attach to it."
	return withScope(websocketOp(op), auth.Run)
}

type attachInput struct {
	SessionTarget
	Offset int64 `query:"offset" doc:"of the output, where to begin"`
	Tail   int64 `query:"tail" doc:"begin this many bytes before the end instead; -1 is only new output"`
}

func (s processRoutes) attachSession(ctx context.Context, session *workspace.Session, in *attachInput) (*huma.StreamResponse, error) {
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
	return s.upgradeToWebSocket(func(ctx context.Context, cancel context.CancelFunc, c *websocket.Conn) {
		c.SetReadLimit(shellwire.MaxRequest)
		s.copyTerminal(ctx, cancel, c, session, offset)
	}), nil
}

// copyTerminal copies between a session and a connection until either ends.
func (s processRoutes) copyTerminal(
	ctx context.Context, cancel context.CancelFunc, c *websocket.Conn, session *workspace.Session, offset int64,
) {
	typed := make(chan error, 1)
	go func() {
		err := forwardInput(ctx, c, session)
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
			wire := s.newProblem(ctx, requestInfo{http.MethodGet, sessionPath + "/attach"}, err).Wire
			last = shellwire.Message{Type: shellwire.TypeError, Error: &wire}
		}
		if data, err := json.Marshal(last); err == nil && c.Write(ctx, websocket.MessageText, data) == nil {
			c.Close(websocket.StatusNormalClosure, "") //nolint:errcheck // the client may be gone
		}
	}
	cancel()
	if err := <-typed; fault.Of(err) == fault.InvalidArgument {
		c.Close(websocket.StatusPolicyViolation, err.Error()[:min(len(err.Error()), 120)]) //nolint:errcheck // the client may be gone
	}
}

// forwardInput passes the client's messages to the session until the client is gone.
func forwardInput(ctx context.Context, c *websocket.Conn, session *workspace.Session) error {
	for {
		typ, data, err := c.Read(ctx)
		if err != nil {
			return err
		}
		if typ == websocket.MessageBinary {
			// If the command no longer reads, its output is still shown.
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
			session.CloseStdin(ctx) //nolint:errcheck // a command that ended has no standard input
		default:
			return fmt.Errorf("control message %q: %w: send resize or eof", m.Type, fault.InvalidArgument)
		}
	}
}
