package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/secret"
)

// A Recorder sends requests and writes the exchanges to a tape. It is safe for use by
// several goroutines.
type Recorder struct {
	next        http.RoundTripper
	credentials credentials

	mu  sync.Mutex
	out io.Writer // guarded by mu
	err error     // guarded by mu; the first write error
}

// NewRecorder returns a recorder that sends requests through next and writes to out.
func NewRecorder(next http.RoundTripper, out io.Writer) *Recorder {
	return &Recorder{next: next, out: out}
}

// Err returns the first error in writing the tape. A write error does not fail a request.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// RoundTrip sends and records. The exchange is written when the body of the answer was
// read to its end; an answer that was not read to its end is not recorded.
func (r *Recorder) RoundTrip(req *http.Request) (*http.Response, error) { return r.roundTrip(req, nil) }

// In returns the recorder for a run with the given directories, which are replaced by
// placeholders. [Tape.In] expands them.
func (r *Recorder) In(dirs ...string) http.RoundTripper {
	return roundTripFunc(func(req *http.Request) (*http.Response, error) { return r.roundTrip(req, dirs) })
}

func (r *Recorder) roundTrip(req *http.Request, dirs []string) (*http.Response, error) {
	body, err := readBody(req)
	if err != nil {
		return nil, err
	}
	hidden := r.credentials.scrubberFor(req)
	key, norm := Key(req, knownKeyForms().Bytes(hidden.Bytes(body)), dirs...)
	// A compressed answer could neither be read by people nor replayed in parts.
	req.Header.Del("Accept-Encoding")
	resp, err := r.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	shown := *req.URL
	shown.RawQuery = publicQuery(req.URL)
	shown.User = nil
	e := Exchange{Version: Version, Key: key, Method: req.Method, URL: hidden.String(shown.String()), Status: resp.StatusCode, Header: replayedHeaders(resp.Header)}
	if json.Valid(norm) {
		e.Request = norm
	}
	resp.Body = &recordingBody{body: resp.Body, e: e, r: r, dirs: dirs, scrubber: hidden, last: time.Now()}
	return resp, nil
}

// replayedHeaders returns the response headers that clients need.
func replayedHeaders(h http.Header) http.Header {
	kept := http.Header{}
	for _, name := range []string{"Content-Type", "Retry-After", "X-Should-Retry"} {
		if v := h.Values(name); len(v) > 0 {
			kept[name] = v
		}
	}
	return kept
}

// recordingBody is the body of an answer that is recorded as it is read.
type recordingBody struct {
	body     io.ReadCloser
	e        Exchange
	r        *Recorder
	dirs     []string
	scrubber *secret.Scrubber
	last     time.Time
	part     []byte // incomplete event
	done     bool
}

func (t *recordingBody) Read(b []byte) (int, error) {
	n, err := t.body.Read(b)
	if n > 0 {
		t.part = append(t.part, b[:n]...)
		for i := bytes.Index(t.part, eventEnd); i >= 0; i = bytes.Index(t.part, eventEnd) {
			t.addChunk(i + len(eventEnd))
		}
	}
	if errors.Is(err, io.EOF) && !t.done {
		t.done = true
		if len(t.part) > 0 {
			t.addChunk(len(t.part))
		}
		t.r.writeExchange(t.e)
	}
	return n, err
}

func (t *recordingBody) Close() error { return t.body.Close() }

// eventEnd separates the events of a stream.
var eventEnd = []byte("\n\n")

// addChunk records the first n bytes of part.
func (t *recordingBody) addChunk(n int) {
	now := time.Now()
	c := Chunk{After: now.Sub(t.last).Milliseconds()}
	if b := t.scrubber.Bytes(t.part[:n]); utf8.Valid(b) {
		c.Text = insertPlaceholders(string(b), t.dirs)
	} else {
		c.Binary = bytes.Clone(b)
	}
	t.e.Chunks, t.last, t.part = append(t.e.Chunks, c), now, t.part[n:]
}

func (r *Recorder) writeExchange(e Exchange) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(e)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		_, err = r.out.Write(b.Bytes())
	}
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("replay: write the tape: %w: %w", fault.Of(err), err)
	}
}
