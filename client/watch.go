package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// watcher reads a stream of server-sent events.
type watcher struct {
	c       *Client
	cancel  context.CancelFunc
	batches chan driver.Changes
	done    chan struct{} // closed when the reading goroutine has ended
	err     error         // why the goroutine ended; set before done is closed

	closing sync.Once
	closed  chan struct{}
}

func (f *files) watch(ctx context.Context, name string, opts *driver.WatchOptions) (driver.Watcher, error) {
	p := pathQuery(name).flag("recursive", opts.Recursive)
	if opts.Debounce != 0 {
		p.Set("debounce", opts.Debounce.String())
	}
	// ctx bounds the request. The stream, which outlives this call, has its own context.
	stream, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	res, err := f.c.send(stream, request{method: http.MethodGet, path: workspacePath(f.id, "/watch"), query: p.Values})
	if err == nil && !stop() {
		res.Body.Close()
		err = ctx.Err()
	}
	if err != nil {
		cancel()
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, evictedError(err)
	}
	w := &watcher{c: f.c, cancel: cancel, batches: make(chan driver.Changes), done: make(chan struct{}), closed: make(chan struct{})}
	go w.readEvents(res.Body)
	return w, nil
}

// readEvents hands batches on until the stream ends.
func (w *watcher) readEvents(body io.ReadCloser) {
	defer close(w.done)
	defer body.Close()
	lines := bufio.NewReader(body)
	var name string
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			w.err = fmt.Errorf("client: watch: %w: server %s: the stream broke", fault.Unavailable, w.c.base)
			return
		}
		line = strings.TrimRight(line, "\r\n")
		if event, ok := strings.CutPrefix(line, "event: "); ok {
			name = event
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		if w.err = w.handleEvent(name, data); w.err != nil {
			return
		}
	}
}

// handleEvent handles one event and returns what ends the stream.
func (w *watcher) handleEvent(name, data string) error {
	switch name {
	case "changes":
		var batch driver.Changes
		if err := json.Unmarshal([]byte(data), &batch); err != nil {
			return fmt.Errorf("client: watch: %w: %w", fault.Unavailable, err)
		}
		select {
		case w.batches <- batch:
			return nil
		case <-w.closed:
			return io.EOF
		}
	case "error":
		var p struct {
			Error fault.Wire `json:"error"`
		}
		if err := json.Unmarshal([]byte(data), &p); err != nil {
			return fmt.Errorf("client: watch: %w: %w", fault.Unavailable, err)
		}
		return p.Error.Err()
	case "end":
		return fmt.Errorf("client: watch: %w: server %s ended the stream", fault.Unavailable, w.c.base)
	}
	return nil
}

// Next waits for a batch.
func (w *watcher) Next(ctx context.Context) (driver.Changes, error) {
	select {
	case <-w.closed:
		return driver.Changes{}, io.EOF
	default:
	}
	select {
	case batch := <-w.batches:
		return batch, nil
	case <-w.closed:
		return driver.Changes{}, io.EOF
	case <-ctx.Done():
		return driver.Changes{}, ctx.Err()
	case <-w.done:
	}
	select {
	case <-w.closed: // the stream ended because Close was called
		return driver.Changes{}, io.EOF
	default:
	}
	if errors.Is(w.err, io.EOF) {
		return driver.Changes{}, io.EOF
	}
	return driver.Changes{}, w.err
}

// Close ends the stream and waits for its reader.
func (w *watcher) Close() error {
	w.closing.Do(func() {
		close(w.closed)
		w.cancel()
	})
	<-w.done
	return nil
}
