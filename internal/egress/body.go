package egress

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// body is the body of an outgoing request. The transport reads it in its own goroutine,
// possibly after the response has begun; stopReading waits until it has stopped.
type body struct {
	c     *client
	src   io.ReadCloser
	watch *disconnectWatch
	n     atomic.Int64
	ended atomic.Bool // reads fail from now on

	mu     sync.Mutex // held while reading
	expect bool       // the client waits for 100 Continue
	done   bool       // all was read
}

var errEnded = errors.New("egress: the request has ended")

func newBody(c *client, req *http.Request, w *disconnectWatch) *body {
	b := &body{c: c, src: req.Body, watch: w, expect: req.Header.Get("Expect") != "" && req.ContentLength != 0}
	if req.ContentLength == 0 {
		b.done = true
		w.start()
	}
	return b
}

func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended.Load() {
		return 0, errEnded
	}
	if b.done {
		return 0, io.EOF
	}
	if b.expect && !b.sendContinue() {
		return 0, errEnded
	}
	_ = b.c.conn.SetReadDeadline(deadline(b.c.p.opts.IdleTimeout))
	if b.ended.Load() { // stopReading may have set its deadline before the one above
		return 0, errEnded
	}
	n, err := b.src.Read(p)
	b.n.Add(int64(n))
	if err == io.EOF {
		b.done = true
		_ = b.c.conn.SetReadDeadline(time.Time{})
		b.watch.start()
	}
	return n, err
}

// sendContinue sends 100 Continue, unless the response has begun.
func (b *body) sendContinue() bool {
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	if b.c.answering {
		return false
	}
	b.expect = false
	_ = b.c.conn.SetWriteDeadline(deadline(b.c.p.opts.HeaderTimeout))
	_, err := io.WriteString(b.c.conn, "HTTP/1.1 100 Continue\r\n\r\n")
	return err == nil
}

// Close does nothing: stopReading ends the body.
func (b *body) Close() error { return nil }

func (b *body) bytesSent() int64 { return b.n.Load() }

// drainBody reads the rest of an unused body, if it is small, and reports whether the
// connection can serve another request.
func (b *body) drainBody() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done {
		return true
	}
	b.ended.Store(true)
	if b.expect {
		return false
	}
	_ = b.c.conn.SetReadDeadline(deadline(time.Second))
	n, err := io.CopyN(io.Discard, b.src, 256<<10)
	b.n.Add(n)
	b.done = errors.Is(err, io.EOF)
	return b.done
}

// stopReading stops the transport's reads and reports whether the body was read completely.
func (b *body) stopReading() bool {
	b.ended.Store(true)
	if !b.mu.TryLock() {
		_ = b.c.conn.SetReadDeadline(time.Unix(1, 0)) // wakes the reader
		b.mu.Lock()
	}
	defer b.mu.Unlock()
	return b.done
}

// disconnectWatch detects that the client disconnects before the response.
type disconnectWatch struct {
	c    *client
	gone func()

	mu       sync.Mutex
	done     chan struct{} // closed when the goroutine ends; nil before it starts
	stopping atomic.Bool
}

// start begins to watch. No other code may read from the client until stop.
func (w *disconnectWatch) start() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done != nil || w.stopping.Load() {
		return
	}
	w.done = make(chan struct{})
	go func() {
		defer close(w.done)
		if _, err := w.c.br.Peek(1); err != nil && !w.stopping.Load() {
			w.gone()
		}
	}()
}

// stop ends watching and waits for it.
func (w *disconnectWatch) stop() {
	w.stopping.Store(true)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done == nil {
		return
	}
	_ = w.c.conn.SetReadDeadline(time.Unix(1, 0))
	<-w.done
	_ = w.c.conn.SetReadDeadline(time.Time{})
}
