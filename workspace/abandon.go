package workspace

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"
)

// A trackedReader is an open file. The workspace counts as used until the reading is
// closed. Closing the handle closes it.
type trackedReader struct {
	w      *Workspace
	body   io.ReadCloser
	opened *openResource

	use  bool   // reading is a use of the workspace
	used func() // called once, when it is no longer in use
}

// trackReader registers the reader that a driver returned with the handle, within the
// call. release ends the context that the driver got, use says whether reading is a use.
func (w *Workspace) trackReader(body io.ReadCloser, release func(), use bool) *trackedReader {
	r := &trackedReader{w: w, body: body, use: use, used: func() {}}
	if use {
		w.inflight.readers.Add(1)
		r.used = sync.OnceFunc(func() { w.inflight.readers.Add(-1) })
	}
	r.opened = w.inflight.register(func() error {
		defer release()
		defer r.used()
		return body.Close()
	})
	return r
}

// Read reads until the handle is closed.
func (r *trackedReader) Read(p []byte) (int, error) {
	if err := r.w.inflight.enter(); err != nil {
		return 0, fmt.Errorf("read: %w", err)
	}
	defer r.w.inflight.exit()
	if !r.use {
		r.w.inflight.onlookers.Add(1)
		defer r.w.inflight.onlookers.Add(-1)
	}
	n, err := r.body.Read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // a wrapped EOF is a failure
		if why := r.w.inflight.closeReason(); why != nil { // closing the handle made it fail
			err = fmt.Errorf("read: %w", why)
		}
	}
	return n, err
}

// Close closes the file. Closing the handle closes it, too.
func (r *trackedReader) Close() error { return r.w.inflight.closeResource(r.opened) }

// An abandonSignal says when a call must return, whatever it waits for, and why.
type abandonSignal struct {
	gone <-chan struct{}
	why  func() error
}

// contextSignal returns the exit of a context.
func contextSignal(ctx context.Context) abandonSignal {
	return abandonSignal{ctx.Done(), func() error { return context.Cause(ctx) }}
}

// runAbandonable runs f, which may block on code outside this package (a reader or callback of
// the caller), and abandons f when x comes first: so a slow caller can't block the
// closing of a handle. f must not touch what the caller of aside uses afterwards.
func runAbandonable(x abandonSignal, f func() error) error {
	select {
	case <-x.gone:
		return x.why()
	default:
	}
	type outcome struct {
		err      error
		panicked any
		returned bool
	}
	done := make(chan outcome, 1)
	go func() { // waited for, unless x comes first
		var o outcome
		defer func() {
			if !o.returned {
				o.panicked = recover()
			}
			done <- o
		}()
		o.err = f()
		o.returned = true
	}()
	select {
	case o := <-done:
		if !o.returned {
			panic(o.panicked) // re-panic in the call, where rescue handles it
		}
		return o.err
	case <-x.gone:
		return x.why()
	}
}

// abandonableCallback returns a callback that is abandoned when the handle is closed. The
// callback gets its own copy of the data.
func (g *inflight) abandonableCallback(call func([]byte) error) func([]byte) error {
	if call == nil {
		return nil
	}
	x := g.closing()
	return func(data []byte) error {
		data = bytes.Clone(data)
		return runAbandonable(x, func() error { return call(data) })
	}
}
