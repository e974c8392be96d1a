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

func (s *Server) sessionRoutes() {
	handle(s, s.op(http.MethodPost, sessionsPath, "start-session", "Start a command and answer at once; it lives on until it ends or is ended"), s.startSession)
	handle(s, s.op(http.MethodGet, sessionsPath, "list-sessions", "Sessions, those that ended and are remembered included"), s.listSessions)
	handle(s, s.op(http.MethodGet, sessionPath, "show-session", "How a session stands; its result, without output, once it ended"), s.showSession)
	handle(s, s.op(http.MethodDelete, sessionPath, "forget-session", "Forget a session, killing what still runs"), s.forgetSession)
	handle(s, s.op(http.MethodPost, sessionPath+"/poll", "poll-session", "Output that no poll returned before"), s.pollSession)
	handle(s, s.op(http.MethodGet, sessionPath+"/log", "read-log", "A part of a log, from any offset; moves no cursor"), s.readLog)
	handle(s, s.followOp(), s.followLog)
	input := s.op(http.MethodPost, sessionPath+"/stdin", "write-stdin", "Write the body to standard input; waits while the pipe is full")
	input.RequestBody = &huma.RequestBody{Required: true, Content: octets("").Content}
	input.MaxBodyBytes = 0 // it is a stream
	handle(s, input, s.writeStdin)
	handle(s, s.op(http.MethodPost, sessionPath+"/stdin/close", "close-stdin", "End standard input; on a terminal, send end-of-file"), s.closeStdin)
	handle(s, s.op(http.MethodPost, sessionPath+"/resize", "resize-session", "Tell a terminal its new size"), s.resizeSession)
	handle(s, s.op(http.MethodPost, sessionPath+"/signal", "signal-session", "Send a signal to the foreground group"), s.signalSession)
	handle(s, s.op(http.MethodPost, sessionPath+"/kill", "kill-session", "End the whole tree: SIGTERM, then SIGKILL after grace"), s.killSession)
	handle(s, s.op(http.MethodGet, sessionPath+"/wait", "wait-session", "Wait for the end and answer with the result, output included"), s.waitSession)
	handle(s, s.attachOp(), s.attach)
}

// SessionTarget addresses a session; the inputs of its routes embed it.
type SessionTarget struct {
	Target
	Session string `path:"sid" doc:"id of the session"`
}

// session returns the session that a request is about.
func (s *Server) session(ctx context.Context, t SessionTarget) (*workspace.Session, error) {
	ws, err := s.workspace(ctx, t.Target)
	if err != nil {
		return nil, err
	}
	return ws.Attach(ctx, t.Session)
}

type startInput struct {
	Target
	Body shellwire.Exec
}

// startSession starts a command that no connection holds.
func (s *Server) startSession(ctx context.Context, in *startInput) (*body[driver.SessionInfo], error) {
	cmd, err := in.Body.Decode()
	if err != nil {
		return nil, err
	}
	ws, err := s.workspace(ctx, in.Target)
	if err != nil {
		return nil, err
	}
	// The context of Start is what a session that is not detached ends with: here
	// that is not the request, but the hold that the server has on the workspace.
	session, err := ws.Start(context.WithoutCancel(ctx), cmd)
	if err != nil {
		return nil, err
	}
	info, err := session.State(ctx)
	return &body[driver.SessionInfo]{info}, err
}

// Sessions is the answer of GET /v1/workspaces/{id}/sessions.
type Sessions struct {
	Sessions []driver.SessionInfo `json:"sessions"`
}

func (s *Server) listSessions(ctx context.Context, in *Target) (*body[Sessions], error) {
	ws, err := s.workspace(ctx, *in)
	if err != nil {
		return nil, err
	}
	list, err := ws.Sessions(ctx)
	if list == nil {
		list = []driver.SessionInfo{}
	}
	return &body[Sessions]{Sessions{list}}, err
}

func (s *Server) showSession(ctx context.Context, in *SessionTarget) (*body[driver.SessionInfo], error) {
	session, err := s.session(ctx, *in)
	if err != nil {
		return nil, err
	}
	info, err := session.State(ctx)
	return &body[driver.SessionInfo]{info}, err
}

func (s *Server) forgetSession(ctx context.Context, in *SessionTarget) (*none, error) {
	session, err := s.session(ctx, *in)
	if err != nil {
		return nil, err
	}
	return nil, session.Close(ctx)
}

type pollInput struct {
	SessionTarget
	Limit int64 `query:"limit" doc:"at most so many bytes; 0 is 64 KiB"`
}

func (s *Server) pollSession(ctx context.Context, in *pollInput) (*body[driver.Poll], error) {
	session, err := s.session(ctx, in.SessionTarget)
	if err != nil {
		return nil, err
	}
	poll, err := session.Poll(ctx, in.Limit)
	return &body[driver.Poll]{poll}, err
}

type logInput struct {
	SessionTarget
	Stream string `query:"stream" doc:"stdout or stderr; stdout where absent"`
	Offset int64  `query:"offset" doc:"first byte"`
	Limit  int64  `query:"limit" doc:"at most so many bytes; 0 is 64 KiB"`
}

func streamOf(name string) driver.Stream {
	if name == "" {
		return driver.Stdout
	}
	return driver.Stream(name)
}

func (s *Server) readLog(ctx context.Context, in *logInput) (*body[driver.LogChunk], error) {
	session, err := s.session(ctx, in.SessionTarget)
	if err != nil {
		return nil, err
	}
	chunk, err := session.Log(ctx, streamOf(in.Stream), in.Offset, in.Limit)
	return &body[driver.LogChunk]{chunk}, err
}

func (s *Server) followOp() huma.Operation {
	op := s.op(http.MethodGet, sessionPath+"/follow", "follow-log", "A log and then what comes, as it comes, until the command has ended")
	op.Responses["200"] = octets("the output")
	return op
}

type followInput struct {
	SessionTarget
	Stream string `query:"stream" doc:"stdout or stderr; stdout where absent"`
	Offset int64  `query:"offset" doc:"first byte"`
}

func (s *Server) followLog(ctx context.Context, in *followInput) (*huma.StreamResponse, error) {
	session, err := s.session(ctx, in.SessionTarget)
	if err != nil {
		return nil, err
	}
	// What is wrong with the request is told before the stream begins.
	if _, err := session.Log(ctx, streamOf(in.Stream), in.Offset, 1); err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		ctx, cancel := s.untilDrain(ctx)
		defer cancel()
		_, w := humago.Unwrap(hc)
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.WriteHeader(http.StatusOK)
		flush := http.NewResponseController(w)
		flush.Flush() //nolint:errcheck // the client is gone, as writing will tell
		err := session.Follow(ctx, streamOf(in.Stream), in.Offset, func(chunk driver.LogChunk) error {
			if _, err := w.Write(chunk.Data); err != nil {
				return err
			}
			return flush.Flush()
		})
		if err != nil {
			panic(http.ErrAbortHandler) // cut, so that a part is not taken for the whole
		}
	}}, nil
}

type stdinInput struct {
	SessionTarget
	stream io.Reader
}

// Resolve takes the body as a stream.
func (in *stdinInput) Resolve(ctx huma.Context) []error {
	r, _ := humago.Unwrap(ctx)
	in.stream = r.Body
	return nil
}

func (s *Server) writeStdin(ctx context.Context, in *stdinInput) (*none, error) {
	session, err := s.session(ctx, in.SessionTarget)
	if err != nil {
		return nil, err
	}
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

func (s *Server) closeStdin(ctx context.Context, in *SessionTarget) (*none, error) {
	session, err := s.session(ctx, *in)
	if err != nil {
		return nil, err
	}
	return nil, session.CloseStdin(ctx)
}

type resizeInput struct {
	SessionTarget
	Body driver.Size
}

func (s *Server) resizeSession(ctx context.Context, in *resizeInput) (*none, error) {
	session, err := s.session(ctx, in.SessionTarget)
	if err != nil {
		return nil, err
	}
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

func (s *Server) signalSession(ctx context.Context, in *signalInput) (*none, error) {
	session, err := s.session(ctx, in.SessionTarget)
	if err != nil {
		return nil, err
	}
	return nil, session.Signal(ctx, in.Body.Signal)
}

type killInput struct {
	SessionTarget
	Grace string `query:"grace" doc:"a duration such as 5s; SIGKILL at once where absent"`
}

func (s *Server) killSession(ctx context.Context, in *killInput) (*none, error) {
	grace, err := parseDuration("grace", in.Grace)
	if err != nil {
		return nil, err
	}
	session, err := s.session(ctx, in.SessionTarget)
	if err != nil {
		return nil, err
	}
	return nil, session.Kill(ctx, grace)
}

type waitInput struct {
	SessionTarget
	Timeout string `query:"timeout" doc:"give up after this long, with deadline exceeded; the command goes on"`
}

func (s *Server) waitSession(ctx context.Context, in *waitInput) (*body[driver.Result], error) {
	limit, err := parseDuration("timeout", in.Timeout)
	if err != nil {
		return nil, err
	}
	session, err := s.session(ctx, in.SessionTarget)
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
	res, err := session.Wait(ctx)
	return &body[driver.Result]{res}, err
}

// patience is how long somebody who was let in may take to say what they want.
const patience = 30 * time.Second
