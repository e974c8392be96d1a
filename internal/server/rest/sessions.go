package rest

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/croft-run/croft/internal/shellwire"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

const (
	sessionsPath = onePath + "/sessions"
	sessionPath  = sessionsPath + "/{sid}"
)

func (s processRoutes) sessions() {
	onWorkspace(s, s.op(http.MethodPost, sessionsPath, "start-session", "Start a command as a background session"), startSession)
	onWorkspace(s, shown(s.op(http.MethodGet, sessionsPath, "list-sessions", "List sessions, recently ended ones included")), listSessions)
	onSession(s, shown(s.op(http.MethodGet, sessionPath, "show-session", "State of a session; after its end, the result without output")), showSession)
	onSession(s, s.op(http.MethodDelete, sessionPath, "forget-session", "Delete a session, and kill its processes"), forgetSession)
	onSession(s, s.op(http.MethodPost, sessionPath+"/poll", "poll-session", "Output that no poll returned before"), pollSession)
	onSession(s, shown(s.op(http.MethodGet, sessionPath+"/log", "read-log", "A part of a log, from any offset; moves no cursor")), readLog)
	onSession(s, s.followOp(), s.followLog)
	input := s.op(http.MethodPost, sessionPath+"/stdin", "write-stdin", "Write the body to standard input; waits while the pipe is full")
	input.RequestBody = &huma.RequestBody{Required: true, Content: octetResponse("").Content}
	input.MaxBodyBytes = 0 // it is a stream
	onSession(s, input, writeStdin)
	onSession(s, s.op(http.MethodPost, sessionPath+"/stdin/close", "close-stdin", "End standard input; on a terminal, send end-of-file"), closeStdin)
	onSession(s, s.op(http.MethodPost, sessionPath+"/resize", "resize-session", "Tell a terminal its new size"), resizeSession)
	onSession(s, s.op(http.MethodPost, sessionPath+"/signal", "signal-session", "Send a signal to the foreground group"), signalSession)
	onSession(s, s.op(http.MethodPost, sessionPath+"/kill", "kill-session", "End the whole tree: SIGTERM, then SIGKILL after grace"), killSession)
	onSession(s, shown(s.op(http.MethodGet, sessionPath+"/wait", "wait-session", "Wait for the end and answer with the result, output included")), s.waitSession)
	onSession(s, s.attachOp(), s.attachSession)
}

// SessionTarget addresses a session; the inputs of its routes embed it.
type SessionTarget struct {
	Target
	Session string `path:"sid" doc:"id of the session"`
}

func (t SessionTarget) session() string { return t.Session }

// onSession is handle for a route that takes a session.
func onSession[I any, P interface {
	targeted[I]
	session() string
}, O any](s routes, op huma.Operation, f func(context.Context, *workspace.Session, *I) (*O, error)) {
	onWorkspace[I, P](s, op, func(ctx context.Context, ws *workspace.Workspace, in *I) (*O, error) {
		session, err := ws.Attach(ctx, P(in).session())
		if err != nil {
			return nil, err
		}
		return f(ctx, session, in)
	})
}

type startInput struct {
	Target
	Body shellwire.Exec
}

// startSession starts a session that does not end with a connection.
func startSession(ctx context.Context, ws *workspace.Workspace, in *startInput) (*body[driver.SessionInfo], error) {
	cmd, err := in.Body.Decode()
	if err != nil {
		return nil, err
	}
	// A session that is not detached ends with the context of Start. Without the request's
	// cancellation, it ends when the server releases the workspace.
	session, err := ws.Start(context.WithoutCancel(ctx), cmd)
	if err != nil {
		return nil, err
	}
	return reply(session.State(ctx))
}

// Sessions is the answer of GET /v1/workspaces/{id}/sessions.
type Sessions struct {
	Sessions []driver.SessionInfo `json:"sessions"`
}

func listSessions(ctx context.Context, ws *workspace.Workspace, _ *Target) (*body[Sessions], error) {
	list, err := ws.Sessions(ctx)
	if list == nil {
		list = []driver.SessionInfo{}
	}
	return &body[Sessions]{Sessions{list}}, err
}

func showSession(ctx context.Context, session *workspace.Session, _ *SessionTarget) (*body[driver.SessionInfo], error) {
	return reply(session.State(ctx))
}

func forgetSession(ctx context.Context, session *workspace.Session, _ *SessionTarget) (*none, error) {
	return nil, session.Close(ctx)
}

type pollInput struct {
	SessionTarget
	Limit int64 `query:"limit" doc:"maximum number of bytes; 0 is 64 KiB"`
}

func pollSession(ctx context.Context, session *workspace.Session, in *pollInput) (*body[driver.Poll], error) {
	return reply(session.Poll(ctx, in.Limit))
}

type logInput struct {
	SessionTarget
	Stream string `query:"stream" doc:"stdout or stderr; default stdout"`
	Offset int64  `query:"offset" doc:"first byte"`
	Limit  int64  `query:"limit" doc:"maximum number of bytes; 0 is 64 KiB"`
}

func streamOf(name string) driver.Stream {
	if name == "" {
		return driver.Stdout
	}
	return driver.Stream(name)
}

func readLog(ctx context.Context, session *workspace.Session, in *logInput) (*body[driver.LogChunk], error) {
	return reply(session.Log(ctx, streamOf(in.Stream), in.Offset, in.Limit))
}

func (s processRoutes) followOp() huma.Operation {
	op := shown(s.op(http.MethodGet, sessionPath+"/follow", "follow-log", "Stream a log and new output until the command ends"))
	op.Responses["200"] = octetResponse("the output")
	return op
}

type followInput struct {
	SessionTarget
	Stream string `query:"stream" doc:"stdout or stderr; default stdout"`
	Offset int64  `query:"offset" doc:"first byte"`
}

func (s processRoutes) followLog(ctx context.Context, session *workspace.Session, in *followInput) (*huma.StreamResponse, error) {
	// Errors of the request are answered before the stream begins.
	if _, err := session.Log(ctx, streamOf(in.Stream), in.Offset, 1); err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		ctx, cancel := s.untilDrain(ctx)
		defer cancel()
		_, w := humago.Unwrap(hc)
		w.Header().Set("Content-Type", "application/octet-stream")
		setDownload(w.Header(), session.ID()+".log")
		w.WriteHeader(http.StatusOK)
		flush := http.NewResponseController(w)
		flush.Flush() //nolint:errcheck // the next write fails, too, if the client is gone
		err := session.Follow(ctx, streamOf(in.Stream), in.Offset, func(chunk driver.LogChunk) error {
			if _, err := w.Write(chunk.Data); err != nil {
				return err
			}
			return flush.Flush()
		})
		if err != nil {
			panic(http.ErrAbortHandler) // abort, so that the client does not take a part for the whole
		}
	}}, nil
}

type stdinInput struct {
	SessionTarget
	streamBody
}

func writeStdin(ctx context.Context, session *workspace.Session, in *stdinInput) (*none, error) {
	buf := make([]byte, shellwire.ChunkSize)
	for {
		n, err := clientBody{in.stream}.Read(buf)
		if n > 0 {
			if err := session.Write(ctx, buf[:n]); err != nil {
				return nil, err
			}
		}
		if err == io.EOF { //nolint:errorlint // clientBody returns it bare
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func closeStdin(ctx context.Context, session *workspace.Session, _ *SessionTarget) (*none, error) {
	return nil, session.CloseStdin(ctx)
}

type resizeInput struct {
	SessionTarget
	Body driver.Size
}

func resizeSession(ctx context.Context, session *workspace.Session, in *resizeInput) (*none, error) {
	return nil, session.Resize(ctx, in.Body)
}

// Signal is the body of POST .../signal.
type Signal struct {
	Signal string `json:"signal" doc:"its name, such as SIGINT"`
}

type signalInput struct {
	SessionTarget
	Body Signal
}

func signalSession(ctx context.Context, session *workspace.Session, in *signalInput) (*none, error) {
	return nil, session.Signal(ctx, in.Body.Signal)
}

type killInput struct {
	SessionTarget
	Grace string `query:"grace" doc:"a duration such as 5s; default SIGKILL at once"`
}

func killSession(ctx context.Context, session *workspace.Session, in *killInput) (*none, error) {
	grace, err := parseDuration("grace", in.Grace)
	if err != nil {
		return nil, err
	}
	return nil, session.Kill(ctx, grace)
}

type waitInput struct {
	SessionTarget
	Timeout string `query:"timeout" doc:"time-out, with deadline exceeded; the command continues"`
}

func (s processRoutes) waitSession(ctx context.Context, session *workspace.Session, in *waitInput) (*body[driver.Result], error) {
	limit, err := parseDuration("timeout", in.Timeout)
	if err != nil {
		return nil, err
	}
	ctx, cancel := s.untilDrain(ctx)
	defer cancel()
	if limit > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, limit)
		defer stop()
	}
	return reply(session.Wait(ctx))
}

// requestTimeout bounds how long a new connection may take to send its request.
const requestTimeout = 30 * time.Second
