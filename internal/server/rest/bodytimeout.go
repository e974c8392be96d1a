package rest

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

const (
	// defaultBodyTimeout bounds how long the body of a request may pause. The whole body
	// has no time limit.
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

// boundDrain sets a read deadline for the rest of the body, which net/http reads after the
// handler returns. net/http resets the deadline for the next request of the connection.
func boundDrain(w http.ResponseWriter) {
	// It fails only without a connection, as in tests; then reads can't block.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(drainTimeout))
}

// watchBody returns the request with a body whose reads fail after a pause of timeout, and
// a function to call when the request is answered.
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

// A watchedBody is a body whose reads fail if no data arrives within timeout. It sets the
// connection's read deadline only at that time, because a deadline that stays set would
// end later requests of the connection.
type watchedBody struct {
	io.ReadCloser
	conn    *http.ResponseController
	timeout time.Duration
	timer   *time.Timer

	mu      sync.Mutex
	reading int  // guarded by mu; reads under way: the handler may still read while drainBody reads
	ended   bool // guarded by mu; a read returned io.EOF
	expired bool // guarded by mu; a read was ended by the timeout
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
		_ = b.conn.SetReadDeadline(time.Now()) // it fails only without a connection; then reads can't block
	}
}
