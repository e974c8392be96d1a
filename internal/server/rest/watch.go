package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// heartbeat is the interval of the comments that keep an idle stream alive.
const heartbeat = 15 * time.Second

func (s fileRoutes) watchOp() huma.Operation {
	op := shown(s.op(http.MethodGet, onePath+"/watch", "watch", "Changes at and below a path, as server-sent events"))
	op.Description = "Events are \"changes\", with a batch of them; \"error\", with a Problem, after which the stream ends; " +
		"and \"end\". What happens after the headers of the answer have arrived is reported."
	op.Responses["200"] = &huma.Response{Description: "a stream of events", Content: map[string]*huma.MediaType{
		"text/event-stream": {Schema: &huma.Schema{Type: huma.TypeString}},
	}}
	return op
}

type watchInput struct {
	Target
	Path      string `query:"path"`
	Recursive bool   `query:"recursive"`
	Debounce  string `query:"debounce" doc:"changes within it are one batch; 50ms where absent"`
}

func (s fileRoutes) watchPath(ctx context.Context, ws *workspace.Workspace, in *watchInput) (*huma.StreamResponse, error) {
	debounce, err := parseDuration("debounce", in.Debounce)
	if err != nil {
		return nil, err
	}
	watcher, err := ws.Watch(ctx, in.Path, &driver.WatchOptions{Recursive: in.Recursive, Debounce: debounce})
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		defer watcher.Close() //nolint:errcheck // the client is gone
		_, w := humago.Unwrap(hc)
		events := &eventWriter{w: w, flush: http.NewResponseController(w)}
		s.watchLoop(ctx, watcher, events)
	}}, nil
}

// watchLoop sends batches until the client disconnects, the watch ends or the server
// drains.
func (s fileRoutes) watchLoop(ctx context.Context, watcher driver.Watcher, events *eventWriter) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-s.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	defer func() { cancel(); <-ended }()

	events.writeHeaders()
	for events.err == nil {
		beat, stop := context.WithTimeout(ctx, heartbeat)
		batch, err := watcher.Next(beat)
		stop()
		switch {
		case err == nil:
			events.send("changes", batch)
		case ctx.Err() != nil, errors.Is(err, io.EOF):
			events.send("end", struct{}{})
			return
		case beat.Err() != nil && fault.Of(err) == fault.DeadlineExceeded:
			events.comment("alive")
		default:
			events.send("error", s.newProblem(ctx, requestInfo{http.MethodGet, onePath + "/watch"}, err))
			return
		}
	}
}

// eventWriter writes server-sent events and keeps the first error.
type eventWriter struct {
	w     http.ResponseWriter
	flush *http.ResponseController
	err   error
}

func (e *eventWriter) writeHeaders() {
	h := e.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	e.w.WriteHeader(http.StatusOK)
	e.comment("watching")
}

func (e *eventWriter) comment(text string) { e.write(": " + text + "\n\n") }

func (e *eventWriter) send(event string, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		e.err = err
		return
	}
	e.write(fmt.Sprintf("event: %s\ndata: %s\n\n", event, data))
}

func (e *eventWriter) write(text string) {
	if e.err != nil {
		return
	}
	if _, e.err = io.WriteString(e.w, text); e.err == nil {
		e.err = e.flush.Flush()
	}
}
