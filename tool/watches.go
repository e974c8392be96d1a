package tool

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"sync"
	"time"

	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// Limits of a watch.
const (
	maxWatchEvents = 1024
	dropEvents     = 102      // the oldest events are dropped in batches of this size
	maxWatchLine   = 64 << 10 // bytes of a line that are matched
)

// watches are the watched commands of one workspace.
type watches struct {
	mu   sync.Mutex
	list map[string]*watch // guarded by mu; by session
	stop []context.CancelFunc
	wg   sync.WaitGroup
}

func newWatches() *watches { return &watches{list: map[string]*watch{}} }

// Close stops the watches, not the commands: those end with the workspace.
func (s *watches) Close(context.Context) error {
	s.mu.Lock()
	for _, stop := range s.stop {
		stop()
	}
	s.mu.Unlock()
	s.wg.Wait()
	return nil
}

func (s *watches) get(id string) *watch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list[id]
}

// start watches a command.
func (s *watches) start(ctx context.Context, session *workspace.Session, patterns []*regexp.Regexp, idle time.Duration) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w := &watch{session: session, patterns: patterns, idle: idle, done: make(chan struct{}), active: make(chan struct{}, 1)}
	w.addEvent(watchEvent{Kind: "started"})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list[session.ID()] = w
	s.stop = append(s.stop, cancel)
	s.wg.Go(func() { w.run(ctx) })
}

// A watch follows one command.
type watch struct {
	session  *workspace.Session
	patterns []*regexp.Regexp
	idle     time.Duration
	active   chan struct{} // signals output
	done     chan struct{} // closed after the exit event

	mu      sync.Mutex
	events  []watchEvent // guarded by mu
	next    int          // guarded by mu
	dropped int          // guarded by mu
}

type watchEvent struct {
	ID      int    `json:"id"`
	Time    string `json:"time"`
	Kind    string `json:"kind" jsonschema:"started, error, idle_timeout or exited"`
	Pattern string `json:"pattern,omitempty"`
	Line    string `json:"line,omitempty"`
	Exit    int    `json:"exit,omitempty"`
	Note    string `json:"note,omitempty"`
}

func (e watchEvent) text() string {
	switch e.Kind {
	case "error":
		return fmt.Sprintf("error  (matched %q)  %s", e.Pattern, e.Line)
	case "exited":
		return fmt.Sprintf("exited  exit=%d", e.Exit)
	case "idle_timeout":
		return "idle_timeout  " + e.Note
	}
	return e.Kind
}

func (w *watch) addEvent(e watchEvent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next++
	e.ID, e.Time = w.next, time.Now().UTC().Format(time.RFC3339)
	if len(w.events) >= maxWatchEvents {
		w.events = append([]watchEvent(nil), w.events[dropEvents:]...)
		w.dropped += dropEvents
	}
	w.events = append(w.events, e)
}

func (w *watch) eventsSince(id int) ([]watchEvent, int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := []watchEvent{}
	for _, e := range w.events {
		if e.ID > id {
			out = append(out, e)
		}
	}
	return out, w.dropped
}

// wait waits for the exit event of a command that has exited.
func (w *watch) wait(ctx context.Context) {
	select {
	case <-w.done:
	case <-ctx.Done():
	}
}

// run follows both streams and the idle timer until the command has exited.
func (w *watch) run(ctx context.Context) {
	defer close(w.done)
	var wg sync.WaitGroup
	ended, end := context.WithCancel(ctx)
	defer end()
	wg.Go(func() { w.followStream(ctx, driver.Stdout, func([]byte) {}) })
	wg.Go(func() {
		var l lineScanner
		w.followStream(ctx, driver.Stderr, func(p []byte) { l.write(p, w.matchLine) })
		l.flush(w.matchLine)
	})
	var clock sync.WaitGroup
	if w.idle > 0 {
		clock.Go(func() { w.watchIdle(ended) })
	}
	wg.Wait()
	res, err := w.session.Wait(ctx)
	end()
	clock.Wait()
	if err == nil {
		w.addEvent(watchEvent{Kind: "exited", Exit: res.ExitCode})
	}
}

// followStream passes the chunks of a stream to f. An error is ignored: run sees the end of
// the session.
func (w *watch) followStream(ctx context.Context, stream driver.Stream, f func([]byte)) {
	_ = w.session.Follow(ctx, stream, 0, func(c driver.LogChunk) error {
		select {
		case w.active <- struct{}{}:
		default:
		}
		f(c.Data)
		return nil
	})
}

// matchLine records an error event for a line that matches a pattern; the first match
// counts.
func (w *watch) matchLine(line []byte) {
	for _, re := range w.patterns {
		if re.Match(line) {
			w.addEvent(watchEvent{Kind: "error", Pattern: re.String(), Line: string(line)})
			return
		}
	}
}

// watchIdle kills a command that has been silent for too long.
func (w *watch) watchIdle(ctx context.Context) {
	timer := time.NewTimer(w.idle)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.active:
			timer.Reset(w.idle)
		case <-timer.C:
			s := int(w.idle.Seconds())
			w.addEvent(watchEvent{Kind: "idle_timeout", Note: fmt.Sprintf("no output for %ds (configured idle_timeout=%ds)", s, s)})
			_ = w.session.Kill(ctx, 0) // run sees the end of the session
			return
		}
	}
}

// A lineScanner splits a stream into lines and keeps only the start of a very long one.
type lineScanner struct{ rest []byte }

func (l *lineScanner) write(p []byte, f func([]byte)) {
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		part := p
		if i >= 0 {
			part = p[:i]
		}
		l.rest = append(l.rest, part[:min(len(part), maxWatchLine-len(l.rest))]...)
		if i < 0 {
			return
		}
		l.flush(f)
		p = p[i+1:]
	}
}

func (l *lineScanner) flush(f func([]byte)) {
	if len(l.rest) > 0 {
		f(bytes.TrimSuffix(l.rest, []byte("\r")))
	}
	l.rest = l.rest[:0]
}
