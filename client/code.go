package client

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// codeModule is the Code module of a workspace on the server.
func (c *Client) codeModule(ws Workspace) *driver.Interpreter {
	m := module{c, ws.ID}
	verb := func(method, route string) func(context.Context, string) error {
		return func(ctx context.Context, id string) error {
			return m.callNoAnswer(ctx, method, "/contexts/"+url.PathEscape(id)+route, params{})
		}
	}
	return &driver.Interpreter{
		Coder: &coder{m, "/code"}, Languages: ws.Languages,
		CreateContext: func(ctx context.Context, language string, opts *driver.ContextOptions) (driver.CodeContext, error) {
			return postRoute[driver.CodeContext](ctx, m, "/contexts", params{}, map[string]any{"language": language, "dir": opts.Dir, "env": opts.Env})
		},
		Contexts: func(ctx context.Context) ([]driver.CodeContext, error) {
			return callRouteField[[]driver.CodeContext](ctx, m, "/contexts", "contexts", params{})
		},
		Restart:       verb(http.MethodPost, "/restart"),
		Interrupt:     verb(http.MethodPost, "/interrupt"),
		DeleteContext: verb(http.MethodDelete, ""),
	}
}

// A coder runs code on the server.
type coder struct {
	module
	route string
}

// codeEvent is a line of the server's answer.
type codeEvent struct {
	Event  string             `json:"event"`
	Output *driver.Output     `json:"output"`
	Result *driver.CodeResult `json:"result"`
	Error  *fault.Wire        `json:"error"`
}

// RunCode runs code. If the connection breaks, the result has the cause lost.
func (x *coder) RunCode(ctx context.Context, code driver.Code) (driver.CodeResult, error) {
	began := time.Now()
	res, err := x.c.send(ctx, request{method: http.MethodPost, path: workspacePath(x.id, x.route), json: map[string]any{
		"language": code.Language, "source": code.Source, "context": code.Context, "dir": code.Dir, "env": code.Env, "timeout": code.Timeout,
	}})
	if err != nil {
		if ctx.Err() != nil {
			return driver.CodeResult{ExitCode: -1, Cause: driver.CauseCanceled, Duration: time.Since(began)}, nil
		}
		return driver.CodeResult{}, evictedError(err)
	}
	defer res.Body.Close()
	out, err := readCodeEvents(res.Body, code.OnOutput)
	if err != nil {
		return driver.CodeResult{}, evictedError(err)
	}
	if out.Cause == driver.CauseLost && ctx.Err() != nil {
		out.Cause = driver.CauseCanceled
	}
	if out.Duration == 0 {
		out.Duration = time.Since(began)
	}
	return out, nil
}

// maxOutputErrors bounds how many errors of the callback are kept.
const maxOutputErrors = 16

// readCodeEvents reads events until the end.
func readCodeEvents(r io.Reader, call func(driver.Output) error) (driver.CodeResult, error) {
	d := json.NewDecoder(bufio.NewReader(r))
	var outputs []driver.Output
	var errs []string
	for {
		var e codeEvent
		if err := d.Decode(&e); err != nil {
			return driver.CodeResult{Outputs: outputs, CallbackErrors: errs, ExitCode: -1, Cause: driver.CauseLost,
				Error: &driver.CodeError{Name: "Lost", Value: fmt.Sprintf("the connection to the server broke: %v", err)}}, nil
		}
		switch {
		case e.Event == "error" && e.Error != nil:
			return driver.CodeResult{}, e.Error.Err()
		case e.Event == "end" && e.Result != nil:
			e.Result.Outputs, e.Result.CallbackErrors = outputs, errs
			return *e.Result, nil
		case e.Event == "output" && e.Output != nil:
			outputs = appendOutput(outputs, *e.Output)
			if call == nil {
				continue
			}
			if err := call(*e.Output); err != nil && len(errs) < maxOutputErrors {
				errs = append(errs, err.Error())
			}
		}
	}
}

// appendOutput adds an output. Text is appended to the output before it if that is text
// of the same stream.
func appendOutput(list []driver.Output, o driver.Output) []driver.Output {
	if n := len(list); n > 0 && o.Data == nil && list[n-1].Data == nil && list[n-1].Kind == o.Kind {
		list[n-1].Text += o.Text
		return list
	}
	return append(list, o)
}
