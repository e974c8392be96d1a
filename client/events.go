package client

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// Level says whether a level of isolation works on the server's host.
type Level struct {
	Provider string           `json:"provider"`
	Level    driver.Isolation `json:"level"`
	Works    bool             `json:"works"`
	Proof    string           `json:"proof,omitempty" doc:"what was tried, where it works"`
	Reason   string           `json:"reason,omitempty" doc:"why it does not work, where it does not"`
	Lacks    []string         `json:"lacks,omitempty" doc:"limitations: what it does not prevent, and what does not work with it"`
}

// Diagnosis is what the server's host gives.
type Diagnosis struct {
	Version   string         `json:"version"`
	Levels    []Level        `json:"levels"`
	Providers []ProviderInfo `json:"providers"`
}

// Doctor has the server try what its host gives.
func (c *Client) Doctor(ctx context.Context) (Diagnosis, error) {
	return get[Diagnosis](ctx, c, request{method: http.MethodGet, path: "/v1/doctor"})
}

// EventFilter chooses events; a zero field matches all.
type EventFilter struct {
	Kinds     []string // a kind, or all below one: "lifecycle.*"
	Workspace string   // id or name
	Session   string
	After     string // sequence number of the event to start after; "" sends only new events, "0" all that the server keeps
	Follow    bool   // keep the stream open for new events
}

// Events calls f with each event of the server's stream until the stream ends, f returns an
// error, or ctx ends.
func (c *Client) Events(ctx context.Context, filter EventFilter, f func(event.Event) error) error {
	q := url.Values{"kind": filter.Kinds}
	setParam(q, "workspace", filter.Workspace)
	setParam(q, "session", filter.Session)
	setParam(q, "after", filter.After)
	if !filter.Follow {
		q.Set("follow", "false")
	}
	res, err := c.send(ctx, request{method: http.MethodGet, path: "/events", query: q})
	if err != nil {
		return err
	}
	defer res.Body.Close()
	lines := bufio.NewReaderSize(res.Body, 64<<10)
	named := false // the SSE message has an "event:" line: the server ends the stream with one
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			if !filter.Follow && len(line) == 0 && ctx.Err() == nil {
				return nil // the server sent all the events that it keeps
			}
			return c.transportError(ctx, err)
		}
		line = bytes.TrimRight(line, "\r\n")
		switch text := string(line); {
		case text == "":
			named = false
		case strings.HasPrefix(text, "event: "):
			named = true
		case strings.HasPrefix(text, "data: ") && named:
			return fmt.Errorf("client: events: %w: server %s ended the stream", fault.Unavailable, c.base)
		case strings.HasPrefix(text, "data: "):
			e, err := event.Unmarshal(line[len("data: "):])
			if err == nil {
				err = f(e)
			}
			if err != nil {
				return err
			}
		}
	}
}
