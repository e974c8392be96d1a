package workspace

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"
)

// A reading is an open file. It counts as use of the workspace until it is closed
// and ends with its handle.
type reading struct {
	w      *Workspace
	body   io.ReadCloser
	opened *opened

	used func() // once: it is no longer in use
}

// reading ties what a driver returned to the handle, within the call. release
// ends the context that the driver got.
func (w *Workspace) reading(body io.ReadCloser, release func()) *reading {
	w.gate.readers.Add(1)
	r := &reading{w: w, body: body, used: sync.OnceFunc(func() { w.gate.readers.Add(-1) })}
	r.opened = w.gate.keep(func() error {
		defer release()
		defer r.used()
		return body.Close()
	})
	return r
}

// Read reads until the handle is closed.
func (r *reading) Read(p []byte) (int, error) {
	if err := r.w.gate.enter(); err != nil {
		return 0, fmt.Errorf("read: %w", err)
	}
	defer r.w.gate.exit()
	n, err := r.body.Read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // a wrapped EOF is a failure
		if why := r.w.gate.why(); why != nil { // which is why it failed
			err = fmt.Errorf("read: %w", why)
		}
	}
	return n, err
}

// Close lets go of the file. Closing the handle has closed it, too.
func (r *reading) Close() error { return r.w.gate.drop(r.opened) }

// An exit says when a call is over, whoever it waits for, and why.
type exit struct {
	gone <-chan struct{}
	why  func() error
}

// exitOf is the end of a context.
func exitOf(ctx context.Context) exit {
	return exit{ctx.Done(), func() error { return context.Cause(ctx) }}
}

// aside runs f, which waits for somebody outside, such as the reader or the
// callback of a caller, and leaves it to itself where x comes first: nobody's
// slowness keeps a handle from closing. f must not touch what the caller of aside
// goes on to use.
func aside(x exit, f func() error) error {
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
	go func() { // waited for, unless x comes first: then it ends with whom it waits for
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
			panic(o.panicked) // in the call, which knows what to do about it
		}
		return o.err
	case <-x.gone:
		return x.why()
	}
}

// listener returns a callback that the handle leaves when it is closed; data is
// the callback's own.
func (g *gate) listener(call func([]byte) error) func([]byte) error {
	if call == nil {
		return nil
	}
	x := g.exiting()
	return func(data []byte) error {
		data = bytes.Clone(data)
		return aside(x, func() error { return call(data) })
	}
}
