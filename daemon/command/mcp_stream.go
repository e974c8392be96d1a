package command

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/croft-run/croft/fault"
)

// Of the stream on which a server speaks by itself.
const (
	streamPause   = time.Second // before it is opened again
	maxStreamLine = 64 << 20
)

// announcements passes on what the server says unasked, such as that its
// workspaces changed, until ctx ends. The library opens this stream for sessions of
// its own alone.
func announcements(ctx context.Context, transport *mcp.StreamableClientTransport, session string, pass func(jsonrpc.Message) error) {
	for last := ""; ctx.Err() == nil; {
		var err error
		if last, err = announced(ctx, transport, session, last, pass); fault.Of(err) == fault.Unsupported {
			return
		}
		select {
		case <-time.After(streamPause):
		case <-ctx.Done():
		}
	}
}

// announced reads the stream until it ends, and returns the id of the last event.
func announced(ctx context.Context, transport *mcp.StreamableClientTransport, session, last string, pass func(jsonrpc.Message) error) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, transport.Endpoint, nil)
	if err != nil {
		return last, err
	}
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Mcp-Session-Id", session)
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	res, err := transport.HTTPClient.Do(req)
	if err != nil {
		return last, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return last, fmt.Errorf("server: %w: it answered %s", fault.Unsupported, res.Status)
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, maxStreamLine)
	for lines.Scan() {
		if id, ok := bytes.CutPrefix(lines.Bytes(), []byte("id: ")); ok {
			last = string(id)
		}
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok || len(data) == 0 {
			continue
		}
		msg, err := jsonrpc.DecodeMessage(bytes.Clone(data))
		if err == nil {
			err = pass(msg)
		}
		if err != nil {
			return last, err
		}
	}
	return last, errors.Join(lines.Err(), io.EOF)
}
