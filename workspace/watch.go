package workspace

import (
	"context"
	"errors"
	"io"
)

// A watching is a watcher that ends with its handle.
type watching struct {
	w       *Workspace
	watcher Watcher
	opened  *opened

	ended context.Context // ends when the watcher or the handle is closed
	end   func()
}

// watching ties what a driver returned to the handle, within the call.
func (w *Workspace) watching(ctx context.Context, watcher Watcher) *watching {
	ended, end := w.gate.hold(context.WithoutCancel(ctx))
	x := &watching{w: w, watcher: watcher, ended: ended, end: end}
	x.opened = w.gate.keep(func() error {
		x.end()
		return w.guard(x.ended, w.current.Load(), func(context.Context, *live) error { return watcher.Close() })
	})
	return x
}

// Next waits for a batch, until the watcher or its handle is closed.
func (x *watching) Next(ctx context.Context) (changes Changes, err error) {
	if x.w.gate.enter() != nil {
		return Changes{}, io.EOF
	}
	defer x.w.gate.exit()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(x.ended, cancel)()
	err = x.w.guard(ctx, x.w.current.Load(), func(ctx context.Context, _ *live) error {
		changes, err = x.watcher.Next(ctx)
		return err
	})
	if err != nil && x.ended.Err() != nil && errors.Is(err, context.Canceled) {
		err = io.EOF
	}
	return changes, err
}

// Close ends the watcher; Next answers io.EOF from then on. Closing the handle
// has closed it, too.
func (x *watching) Close() error { return x.w.gate.drop(x.opened) }
