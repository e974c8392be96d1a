package rest

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/workspace/driver"
)

const eventsPath = "/events"

func (s eventRoutes) register() {
	op := shown(s.op(http.MethodGet, eventsPath, "events", "Events of workspaces, as server-sent events"))
	op.Description = "The data of each is an Event, its id the sequence. A client that reconnects with Last-Event-ID continues there. " +
		"All events after the headers of the answer are sent. An event of kind event.dropped counts events that are no longer kept, or that a slow client missed."
	op.Responses["200"] = &huma.Response{Description: "a stream of events", Content: map[string]*huma.MediaType{
		"text/event-stream": {Schema: s.schemaOf(event.Event{})},
	}}
	handle(s, op, s.streamEvents)
}

type eventsInput struct {
	Kinds     []string `query:"kind,explode" doc:"only these kinds; lifecycle.* matches all kinds below lifecycle"`
	Workspace string   `query:"workspace" doc:"only events of this workspace, by id or name"`
	Session   string   `query:"session" doc:"only events of this session"`
	After     string   `query:"after" doc:"begin after this sequence; 0 is all kept events; default only new events"`
	Follow    bool     `query:"follow" default:"true" doc:"false ends the answer after the kept events"`
	LastID    string   `header:"Last-Event-ID" doc:"instead of after, as browsers send it"`
}

func (in *eventsInput) eventFilter() event.Filter {
	f := event.Filter{Workspace: in.Workspace, Session: in.Session}
	for _, k := range in.Kinds {
		f.Kinds = append(f.Kinds, event.Kind(k))
	}
	return f
}

// startSequence returns the sequence to begin after; ok is false for only new events.
func (in *eventsInput) startSequence() (seq uint64, ok bool, err error) {
	text, param := in.LastID, "Last-Event-ID"
	if text == "" {
		text, param = in.After, "after"
	}
	if text == "" {
		return 0, false, nil
	}
	if seq, err = strconv.ParseUint(text, 10, 64); err != nil {
		return 0, false, badParameter(param, "%q is not a sequence number", text)
	}
	return seq, true, nil
}

func (s eventRoutes) streamEvents(ctx context.Context, in *eventsInput) (*huma.StreamResponse, error) {
	seq, replay, err := in.startSequence()
	if err != nil {
		return nil, err
	}
	filter := in.eventFilter()
	if p, ok := auth.From(ctx); ok && !p.Operator() {
		filter.Tenant = &p.Tenant
	}
	if err := filter.Check(); err != nil {
		return nil, err
	}
	if filter.Workspace != "" && !driver.ValidID(filter.Workspace) {
		r, err := s.lookupRecord(ctx, Target{ID: filter.Workspace})
		if err != nil {
			return nil, err
		}
		filter.Workspace = r.ID
	}
	if filter, err = sharedFilter(ctx, filter); err != nil {
		return nil, err
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
		out.writeHeaders() // all events from here on are sent
		s.sendEvents(ctx, out, sub)
	}}, nil
}

// sendRecent sends the kept events after a sequence.
func (s eventRoutes) sendRecent(out *eventWriter, filter event.Filter, seq uint64) {
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

// sendEvents sends new events until the client disconnects or the server drains.
func (s eventRoutes) sendEvents(ctx context.Context, out *eventWriter, sub *event.Subscription) {
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
