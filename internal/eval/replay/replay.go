// Package replay records the HTTP traffic between an agent and its model,
// and replays it: a recorded evaluation runs again offline, the
// same way each time, and costs nothing.
//
// A [Tape] is a file of exchanges, one a line. [Recorder] is a round tripper that
// sends requests to the model and writes each exchange to a tape; [Tape.RoundTrip] answers
// from a tape, and sends nothing. [Handler] makes either a reverse proxy that
// programs can be pointed at.
//
// An exchange is found again by its request: method, host, path and body, without
// what differs from one run to the next (see [Key]). The same request may have been
// answered several times; replays give the answers in their order, and the last
// one for all that follow. A request that is not on the tape is refused with an
// error that says so, and nothing else is asked instead.
//
// Agents and models name the directories they work in, which differ from run to
// run. [Recorder.In] and [Tape.In] take those of a run: on the tape they are placeholders,
// and a replay expands them to its own. (Where a model streams a path in pieces,
// each in an event of its own, the path stays as it was recorded.)
//
// Credentials are not recorded: of a request only what makes up its key is kept, and
// of a response not the headers that carry cookies. Where a body has one in it, of
// those that requests were made with, that the environment has, or, of a request,
// that looks like one, there is a marker in its place. (One that a model streams in
// pieces is not found.)
package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"sync"

	"github.com/croft-run/croft/fault"
)

// Version is the version of tapes.
const Version = 1

// An Exchange is one request and its answer, as a tape has them.
type Exchange struct {
	Version int             `json:"version"`
	Key     string          `json:"key"`
	Method  string          `json:"method"`
	URL     string          `json:"url"`               // without its query's secrets
	Request json.RawMessage `json:"request,omitempty"` // normalised, for people; null if it is not JSON
	Status  int             `json:"status"`
	Header  http.Header     `json:"header,omitempty"`
	Chunks  []Chunk         `json:"chunks"`
}

// A Chunk is a part of a body, or an event of a stream, with its delay.
type Chunk struct {
	After  int64  `json:"afterMs"` // milliseconds after the one before
	Text   string `json:"text,omitempty"`
	Binary []byte `json:"binary,omitempty"` // if it is not UTF-8
}

func (c Chunk) bodyBytes(dirs []string) []byte {
	if c.Binary != nil {
		return c.Binary
	}
	return []byte(expandPlaceholders(c.Text, dirs))
}

// A Tape answers requests with recorded answers, without their delays. It is safe for use
// by several goroutines.
type Tape struct {
	credentials credentials

	mu   sync.Mutex
	all  map[string][]Exchange // guarded by mu
	next map[string]int        // guarded by mu; index of the next answer
}

// Open reads a tape.
func Open(name string) (*Tape, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("replay: open %s: %w", name, err)
	}
	defer f.Close()
	t, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("replay: read %s: %w", name, err)
	}
	return t, nil
}

// maxTape bounds the size of a tape.
const maxTape = 1 << 30

// Read reads a tape.
func Read(r io.Reader) (*Tape, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxTape+1))
	if err != nil {
		return nil, fmt.Errorf("replay: read a tape: %w", err)
	}
	if len(data) > maxTape {
		return nil, fmt.Errorf("replay: read a tape: %w: it has more than %d bytes", fault.ResourceExhausted, maxTape)
	}
	t := &Tape{all: map[string][]Exchange{}, next: map[string]int{}}
	n := 0
	for line := range bytes.Lines(data) {
		n++
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var e Exchange
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("replay: read a tape: %w: line %d: %w", fault.InvalidArgument, n, err)
		}
		if e.Version != Version {
			return nil, fmt.Errorf("replay: read a tape: %w: line %d has version %d, want %d", fault.InvalidArgument, n, e.Version, Version)
		}
		if e.Status < 100 || e.Status > 999 || e.Key == "" {
			return nil, fmt.Errorf("replay: read a tape: %w: line %d has status %d and key %q", fault.InvalidArgument, n, e.Status, e.Key)
		}
		t.all[e.Key] = append(t.all[e.Key], e)
	}
	return t, nil
}

// RoundTrip answers from the tape. A request that is not on it is NotFound.
func (t *Tape) RoundTrip(r *http.Request) (*http.Response, error) { return t.answer(r, nil) }

// In returns the tape for a run with the given directories, in the order of those of
// [Recorder.In].
func (t *Tape) In(dirs ...string) http.RoundTripper {
	return roundTripFunc(func(r *http.Request) (*http.Response, error) { return t.answer(r, dirs) })
}

type roundTripFunc func(*http.Request) (*http.Response, error)

func (f roundTripFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (t *Tape) answer(r *http.Request, dirs []string) (*http.Response, error) {
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	key, norm := Key(r, knownKeyForms().Bytes(t.credentials.scrubberFor(r).Bytes(body)), dirs...)
	e, ok := t.nextExchange(key)
	if !ok {
		return nil, fmt.Errorf("replay: %s %s: %w: no such request was recorded (key %s)%s", r.Method, r.URL.Redacted(), fault.NotFound, key[:12], t.nearestText(r, norm))
	}
	var parts []io.Reader // each chunk is a separate read, so that streams are streamed again
	for _, c := range e.Chunks {
		parts = append(parts, bytes.NewReader(c.bodyBytes(dirs)))
	}
	return &http.Response{Status: fmt.Sprintf("%d %s", e.Status, http.StatusText(e.Status)), StatusCode: e.Status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: e.Header.Clone(), Body: io.NopCloser(io.MultiReader(parts...)), ContentLength: -1, Request: r}, nil
}

// nextExchange returns the next answer to a request.
func (t *Tape) nextExchange(key string) (Exchange, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.all[key]
	if len(all) == 0 {
		return Exchange{}, false
	}
	i := min(t.next[key], len(all)-1)
	t.next[key]++
	return all[i], true
}

// nearestText describes how a request differs from the most similar recorded one, for the
// error.
func (t *Tape) nearestText(r *http.Request, norm []byte) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	best, at := Exchange{}, -1
	for _, all := range t.all {
		for _, e := range all {
			if u, err := url.Parse(e.URL); err != nil || e.Method != r.Method || u.Path != r.URL.Path {
				continue
			}
			if n := commonPrefix(norm, e.Request); n > at {
				best, at = e, n
			}
		}
	}
	if at < 0 {
		return "; none for this method and path was"
	}
	return fmt.Sprintf("; the nearest differs at byte %d: %q, recorded %q", at, excerpt(norm, at), excerpt(best.Request, at))
}

func commonPrefix(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

func excerpt(b []byte, at int) string { return string(b[max(0, at-20):min(len(b), at+40)]) }

// maxBody bounds the size of a request.
const maxBody = 64 << 20

// readBody reads the body of a request and replaces it by a copy.
func readBody(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err == nil {
		err = r.Body.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("replay: read the body of a request: %w: %w", fault.InvalidArgument, err)
	}
	if len(body) > maxBody {
		return nil, fmt.Errorf("replay: read the body of a request: %w: it has more than %d bytes", fault.ResourceExhausted, maxBody)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return body, nil
}
