package workspace

import (
	"context"
	"errors"
	"io"
)

// A trackedWatcher is a watcher that is closed with its handle.
type trackedWatcher struct {
	w       *Workspace
	watcher Watcher
	opened  *openResource

	ended context.Context // ends when the watcher or the handle is closed
	end   func()
}

// trackWatcher registers the watcher that a driver returned with the handle, within the
// call.
func (w *Workspace) trackWatcher(ctx context.Context, watcher Watcher) *trackedWatcher {
	ended, end := w.inflight.withCloseCancel(context.WithoutCancel(ctx))
	x := &trackedWatcher{w: w, watcher: watcher, ended: ended, end: end}
	x.opened = w.inflight.register(func() error {
		x.end()
		return w.callRecovering(x.ended, w.current.Load(), func(context.Context, *live) error { return watcher.Close() })
	})
	return x
}

// Next waits for a batch, until the watcher or its handle is closed.
func (x *trackedWatcher) Next(ctx context.Context) (changes Changes, err error) {
	if x.w.inflight.enter() != nil {
		return Changes{}, io.EOF
	}
	defer x.w.inflight.exit()
	if !IsUse(x.ended) { // it has the values of the context of Watch
		x.w.inflight.onlookers.Add(1)
		defer x.w.inflight.onlookers.Add(-1)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(x.ended, cancel)()
	err = x.w.callRecovering(ctx, x.w.current.Load(), func(ctx context.Context, _ *live) error {
		changes, err = x.watcher.Next(ctx)
		return err
	})
	if err != nil && x.ended.Err() != nil && errors.Is(err, context.Canceled) {
		err = io.EOF
	}
	return changes, err
}

// Close ends the watcher; from then on Next returns io.EOF. Closing the handle closes
// it, too.
func (x *trackedWatcher) Close() error { return x.w.inflight.closeResource(x.opened) }
