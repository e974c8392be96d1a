package rest

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/workspace/driver"
)

const eventsPath = "/events"

func (s *Server) eventRoutes() {
	op := s.op(http.MethodGet, eventsPath, "events", "What happens in workspaces, as server-sent events")
	op.Description = "The data of each is an Event, its id the sequence. A client that comes back with Last-Event-ID goes on where it was; " +
		"what happens after the headers have arrived is sent; what is no longer kept is told of by an event of the kind event.dropped, and so is what a slow client missed."
	op.Responses["200"] = &huma.Response{Description: "a stream of events", Content: map[string]*huma.MediaType{
		"text/event-stream": {Schema: s.schemaOf(event.Event{})},
	}}
	handle(s, op, s.streamEvents)
}

type eventsInput struct {
	Kinds     []string `query:"kind,explode" doc:"only these; lifecycle.* is all below lifecycle"`
	Workspace string   `query:"workspace" doc:"only those of this one, by id or name"`
	Session   string   `query:"session" doc:"only those on behalf of this one"`
	After     string   `query:"after" doc:"begin after this sequence: 0 is with all that is kept; with what comes from now on where absent"`
	Follow    bool     `query:"follow" default:"true" doc:"false ends the answer with what is kept"`
	LastID    string   `header:"Last-Event-ID" doc:"instead of after, as browsers send it"`
}

func (in *eventsInput) eventFilter() event.Filter {
	f := event.Filter{Workspace: in.Workspace, Session: in.Session}
	for _, k := range in.Kinds {
		f.Kinds = append(f.Kinds, event.Kind(k))
	}
	return f
}

// startSequence returns where to begin; ok is false where that is now.
func (in *eventsInput) startSequence() (seq uint64, ok bool, err error) {
	text, param := in.LastID, "Last-Event-ID"
	if text == "" {
		text, param = in.After, "after"
	}
	if text == "" {
		return 0, false, nil
	}
	if seq, err = strconv.ParseUint(text, 10, 64); err != nil {
		return 0, false, badParameter(param, "%q is no sequence of an event", text)
	}
	return seq, true, nil
}

func (s *Server) streamEvents(ctx context.Context, in *eventsInput) (*huma.StreamResponse, error) {
	seq, replay, err := in.startSequence()
	if err != nil {
		return nil, err
	}
	filter := in.eventFilter()
	if filter.Workspace != "" && !driver.ValidID(filter.Workspace) {
		r, err := s.lookupRecord(ctx, Target{ID: filter.Workspace})
		if err != nil {
			return nil, err
		}
		filter.Workspace = r.ID
	}
	opts := &event.SubscribeOptions{}
	if replay {
		opts.Replay, opts.After = s.cfg.Recent, seq
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		_, w := humago.Unwrap(hc)
		out := &eventWriter{w: w, flush: http.NewResponseController(w)}
		if !in.Follow {
			out.writeHeaders()
			s.sendRecent(out, filter, seq)
			return
		}
		sub := s.cfg.Events.Subscribe(filter, opts)
		defer sub.Close()
		out.writeHeaders() // what happens from here on is sent
		s.sendEvents(ctx, out, sub)
	}}, nil
}

// sendRecent sends what is kept after a sequence.
func (s *Server) sendRecent(out *eventWriter, filter event.Filter, seq uint64) {
	kept, missing := s.cfg.Recent.Since(seq)
	if missing > 0 {
		out.comment(fmt.Sprintf("%d are no longer kept", missing))
	}
	for _, e := range kept {
		if filter.Match(e) {
			out.writeEvent(e)
		}
	}
}

// sendEvents sends what comes until the client goes or the server drains.
func (s *Server) sendEvents(ctx context.Context, out *eventWriter, sub *event.Subscription) {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for out.err == nil {
		select {
		case e, ok := <-sub.C():
			if !ok {
				return
			}
			out.writeEvent(e)
		case <-beat.C:
			out.comment("alive")
		case <-ctx.Done():
			return
		case <-s.done:
			out.send("end", struct{}{})
			return
		}
	}
}

// writeEvent writes one event, without a name, so that a browser's onmessage gets it.
func (e *eventWriter) writeEvent(ev event.Event) {
	e.write(fmt.Sprintf("id: %d\ndata: %s\n\n", ev.Sequence, event.Marshal(ev)))
}
