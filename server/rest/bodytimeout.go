package rest

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

const (
	// defaultBodyTimeout bounds a pause of a body. The whole body has no time limit.
	defaultBodyTimeout = time.Minute

	// drainTimeout bounds reading the rest of a body after the answer, so that a
	// client that is still sending can read the answer.
	drainTimeout = 2 * time.Second
)

// closeAfterAnswer closes the connection soon after the answer, even if the client
// still sends its body.
func closeAfterAnswer(w http.ResponseWriter) {
	w.Header().Set("Connection", "close")
	boundDrain(w)
}

// boundDrain bounds how long the HTTP server reads what is left of a body. It sets
// its own bounds for the next request.
func boundDrain(w http.ResponseWriter) {
	// Without a connection there is nothing to bound.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(drainTimeout))
}

// watchBody returns the request with a body that fails when it pauses for too
// long, and what to call when the request is answered.
func watchBody(w http.ResponseWriter, r *http.Request, timeout time.Duration) (*http.Request, func()) {
	if r.Body == nil || r.Body == http.NoBody || r.Header.Get("Upgrade") != "" {
		return r, func() {}
	}
	b := &watchedBody{ReadCloser: r.Body, conn: http.NewResponseController(w), timeout: timeout}
	b.timer = time.AfterFunc(timeout, b.expire)
	b.timer.Stop()
	r = r.WithContext(r.Context())
	r.Body = b
	return r, func() {
		if !b.hasEnded() {
			boundDrain(w)
		}
	}
}

// A watchedBody fails a read that gets no data in time. It sets a read deadline only
// then, because a remaining deadline would end later requests of the connection.
type watchedBody struct {
	io.ReadCloser
	conn    *http.ResponseController
	timeout time.Duration
	timer   *time.Timer

	mu      sync.Mutex
	reading int  // reads under way: one that was given up, and one that drains; guarded by mu
	ended   bool // guarded by mu
	expired bool // a read was ended; guarded by mu
}

func (b *watchedBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	b.reading++
	b.mu.Unlock()
	b.timer.Reset(b.timeout)
	n, err := b.ReadCloser.Read(p)
	b.timer.Stop()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reading--
	b.ended = b.ended || errors.Is(err, io.EOF)
	return n, err
}

func (b *watchedBody) hasEnded() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ended
}

// isExpired reports whether the body paused for too long.
func (b *watchedBody) isExpired() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.expired
}

// expire ends the read under way, if there is still one.
func (b *watchedBody) expire() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reading > 0 {
		b.expired = true
		_ = b.conn.SetReadDeadline(time.Now()) // without a connection nothing blocks
	}
}
