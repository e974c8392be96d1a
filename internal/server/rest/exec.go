package rest

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/shellwire"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

const execPath = onePath + "/exec"

func (s processRoutes) shell() {
	op := s.op(http.MethodPost, execPath, "exec", "Run a command to its end, and stream its output")
	op.Description = "The answer is a stream of JSON objects, one per line (ExecEvent). It begins with the first output or with the end: " +
		"a command that can't be started is an ordinary error. If the client disconnects, the command is killed with all its processes."
	op.Responses["200"] = &huma.Response{Description: "a stream of events", Content: map[string]*huma.MediaType{
		"application/x-ndjson": {Schema: s.schemaOf(ExecEvent{})},
	}}
	onWorkspace(s, op, s.runCommand)
	onWorkspace(s, s.connectOp(), s.connectCommand)
	onWorkspace(s, s.portOp(), s.connectPort)
}

// An ExecEvent is a line of the answer of POST .../exec: output, or the end.
type ExecEvent struct {
	Event   string         `json:"event" enum:"stdout,stderr,exit,error"`
	Text    string         `json:"text,omitempty" doc:"of stdout and stderr"`
	TextB64 []byte         `json:"textB64,omitempty" doc:"the bytes, where they are not UTF-8"`
	Result  *driver.Result `json:"result,omitempty" doc:"of exit; without the output, which came before"`
	Error   *fault.Wire    `json:"error,omitempty" doc:"of error: why there is no result"`
}

type execInput struct {
	Target
	Body shellwire.Exec
}

func (s processRoutes) runCommand(ctx context.Context, ws *workspace.Workspace, in *execInput) (*huma.StreamResponse, error) {
	cmd, err := in.Body.Decode()
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		r, w := humago.Unwrap(hc)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		lines := &lineWriter{w: w, flush: http.NewResponseController(w), broken: cancel}
		cmd.OnStdout, cmd.OnStderr = lines.outputCallback("stdout"), lines.outputCallback("stderr")
		res, err := ws.Run(ctx, cmd)
		if err != nil && !lines.begun {
			s.writeError(w, r, err)
			return
		}
		if err != nil {
			wire := s.newProblem(r.Context(), requestInfo{r.Method, r.URL.Path}, err).Wire
			lines.send(ExecEvent{Event: "error", Error: &wire}) //nolint:errcheck // the client is gone
			return
		}
		res.Stdout, res.Stderr, res.StdoutDropped, res.StderrDropped = nil, nil, 0, 0
		lines.send(ExecEvent{Event: "exit", Result: &res}) //nolint:errcheck // the client is gone
	}}, nil
}

// lineWriter writes events, one per line. Both streams write to it.
type lineWriter struct {
	w      http.ResponseWriter
	flush  *http.ResponseController
	broken func() // called when a write fails because the client is gone

	mu    sync.Mutex
	begun bool
}

func (l *lineWriter) outputCallback(stream string) func([]byte) error {
	return func(data []byte) error {
		e := ExecEvent{Event: stream}
		if utf8.Valid(data) {
			e.Text = string(data)
		} else {
			e.TextB64 = data
		}
		return l.send(e)
	}
}

func (l *lineWriter) send(e any) error {
	data, err := json.Marshal(e)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.begun {
		l.begun = true
		l.w.Header().Set("Content-Type", "application/x-ndjson")
		l.w.Header().Set("Cache-Control", "no-store")
		l.w.WriteHeader(http.StatusOK)
	}
	if _, err = io.WriteString(l.w, string(data)+"\n"); err == nil {
		err = l.flush.Flush()
	}
	if err != nil {
		l.broken()
	}
	return err
}
