package envd

import (
	"context"
	"errors"
	"fmt"
	"path"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/server/e2b/envd/envdpb"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

const (
	maxWatchers = 256    // of a sandbox, for clients that poll
	maxQueue    = 10_000 // events of a watcher that were not polled
	watcherIdle = 10 * time.Minute
)

// eventTypes are the events of E2B for changes.
var eventTypes = map[driver.ChangeOp]envdpb.EventType{
	driver.OpCreate: envdpb.EventType_EVENT_TYPE_CREATE,
	driver.OpWrite:  envdpb.EventType_EVENT_TYPE_WRITE,
	driver.OpRemove: envdpb.EventType_EVENT_TYPE_REMOVE,
	driver.OpChmod:  envdpb.EventType_EVENT_TYPE_CHMOD,
}

// A watch watches one directory.
type watch struct {
	workspace.Watcher
	c       *sandboxCall
	dir     location
	name    string // of the directory in the workspace, without symlinks
	entries bool   // events have the entry
}

// watch begins to watch a directory.
func (c *sandboxCall) watch(ctx context.Context, l location, recursive, entries bool) (*watch, error) {
	e, err := c.stat(ctx, l, true)
	switch {
	case err != nil:
		return nil, err
	case e.Type != driver.TypeDir:
		return nil, fmt.Errorf("%s: %w: it is not a directory", l.abs, fault.InvalidArgument)
	case e.outside:
		return nil, fmt.Errorf("%s: %w: only directories below %s can be watched", l.abs, fault.InvalidArgument, c.home())
	}
	name, err := c.resolve(ctx, l)
	if err != nil {
		return nil, err
	}
	w, err := c.Workspace.Watch(ctx, name, &workspace.WatchOptions{Recursive: recursive, Debounce: debounce})
	if err != nil {
		return nil, err
	}
	return &watch{Watcher: w, c: c, dir: l, name: name, entries: entries}, nil
}

// debounce is short, because each path is reported once per batch, with its latest change.
const debounce = time.Millisecond

// next waits for events.
func (w *watch) next(ctx context.Context) ([]*envdpb.FilesystemEvent, error) {
	batch, err := w.Next(ctx)
	if err != nil {
		return nil, err
	}
	if batch.Overflow {
		return nil, fmt.Errorf("%s: %w: changes came faster than they were read, and some were lost; list the directory and watch again", w.dir.abs, fault.ResourceExhausted)
	}
	var list []*envdpb.FilesystemEvent
	for _, ch := range batch.Changes {
		name := relative(w.name, ch.Path)
		if name == "" || name == "." {
			continue // the directory itself
		}
		list = append(list, w.events(ctx, ch, name)...)
	}
	return list, nil
}

// events returns the events of one change. E2B reports each step: a file with content was created
// and written, and a rename is an event of the old name before the new one is created.
func (w *watch) events(ctx context.Context, ch driver.Change, name string) []*envdpb.FilesystemEvent {
	e := &envdpb.FilesystemEvent{Name: name, Type: eventTypes[ch.Op]}
	if ch.Op == driver.OpRemove {
		if ch.Moved {
			e.Type = envdpb.EventType_EVENT_TYPE_RENAME
		}
		return []*envdpb.FilesystemEvent{e}
	}
	if !w.entries && ch.Op != driver.OpCreate {
		return []*envdpb.FilesystemEvent{e}
	}
	l, err := w.c.locate(path.Join(w.dir.abs, name))
	if err != nil {
		return []*envdpb.FilesystemEvent{e}
	}
	find := w.c.entryOf
	if !w.entries {
		find = func(ctx context.Context, l location) (entry, error) { return w.c.stat(ctx, l, false) }
	}
	info, err := find(ctx, l)
	if err != nil { // it is gone
		return []*envdpb.FilesystemEvent{e}
	}
	if w.entries {
		e.Entry = info.message()
	}
	if ch.Op == driver.OpCreate && info.Type == driver.TypeFile && info.Size > 0 {
		return []*envdpb.FilesystemEvent{e, {Name: name, Type: envdpb.EventType_EVENT_TYPE_WRITE, Entry: e.GetEntry()}}
	}
	return []*envdpb.FilesystemEvent{e}
}

// WatchDir streams the changes in a directory.
func (s filesystemService) WatchDir(ctx context.Context, req *envdpb.WatchDirRequest, stream *connect.ServerStream[envdpb.WatchDirResponse]) error {
	c, l, err := located(ctx, req.GetPath())
	if err != nil {
		return rpcError(ctx, err)
	}
	w, err := c.watch(ctx, l, req.GetRecursive(), req.GetIncludeEntry())
	if err != nil {
		return rpcError(ctx, err)
	}
	var work sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	defer work.Wait()
	defer w.Close() //nolint:errcheck // nothing is written
	defer cancel()
	batches, failed := make(chan []*envdpb.FilesystemEvent), make(chan error, 1)
	work.Go(func() {
		for {
			list, err := w.next(ctx)
			if err != nil {
				failed <- err
				return
			}
			select {
			case batches <- list:
			case <-ctx.Done():
				failed <- ctx.Err()
				return
			}
		}
	})
	if err := stream.Send(&envdpb.WatchDirResponse{Event: &envdpb.WatchDirResponse_Start{Start: &envdpb.WatchDirResponse_StartEvent{}}}); err != nil {
		return err
	}
	every := keepalive(stream.Conn().RequestHeader().Get(keepaliveHeader))
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case list := <-batches:
			for _, e := range list {
				if err := stream.Send(&envdpb.WatchDirResponse{Event: &envdpb.WatchDirResponse_Filesystem{Filesystem: e}}); err != nil {
					return err
				}
			}
			tick.Reset(every)
		case <-tick.C:
			if err := stream.Send(&envdpb.WatchDirResponse{Event: &envdpb.WatchDirResponse_Keepalive{Keepalive: &envdpb.WatchDirResponse_KeepAlive{}}}); err != nil {
				return err
			}
		case err := <-failed:
			return rpcError(ctx, err)
		case <-ctx.Done():
			return rpcError(ctx, ctx.Err())
		}
	}
}

// A pollWatcher queues the changes in a directory for a client that polls.
type pollWatcher struct {
	id   string
	stop context.CancelFunc
	idle *time.Timer // ends a watcher that is not polled

	queued chan struct{} // has a token after events were queued, or the watch ended

	mu     sync.Mutex
	events []*envdpb.FilesystemEvent
	err    error // why it ended
}

// CreateWatcher begins to watch a directory for a client that polls. A watcher ends when it
// is removed, or when it was not polled for a while.
func (s filesystemService) CreateWatcher(ctx context.Context, req *envdpb.CreateWatcherRequest) (*envdpb.CreateWatcherResponse, error) {
	c, l, err := located(ctx, req.GetPath())
	if err != nil {
		return nil, rpcError(ctx, err)
	}
	life, stop := context.WithCancel(s.drained)
	w, err := c.watch(context.WithoutCancel(ctx), l, req.GetRecursive(), req.GetIncludeEntry())
	if err != nil {
		stop()
		return nil, rpcError(ctx, err)
	}
	q := &pollWatcher{id: driver.NewID(), stop: stop, idle: time.AfterFunc(watcherIdle, stop), queued: make(chan struct{}, 1)}
	c.box.mu.Lock()
	full := len(c.box.watchers) >= maxWatchers
	if !full {
		c.box.watchers[q.id] = q
	}
	c.box.mu.Unlock()
	if full || !s.begin() {
		q.idle.Stop()
		stop()
		err := errors.Join(fmt.Errorf("%w: the sandbox has %d watchers; remove some", fault.ResourceExhausted, maxWatchers), w.Close())
		return nil, rpcError(ctx, err)
	}
	go func() {
		defer s.work.Done()
		defer q.idle.Stop()
		q.fill(life, w)
		c.box.mu.Lock()
		defer c.box.mu.Unlock()
		if life.Err() != nil { // an error is kept until it is polled
			delete(c.box.watchers, q.id)
		}
	}()
	return &envdpb.CreateWatcherResponse{WatcherId: q.id}, nil
}

// fill queues events until ctx ends.
func (q *pollWatcher) fill(ctx context.Context, w *watch) {
	defer w.Close() //nolint:errcheck // nothing is written
	for {
		list, err := w.next(ctx)
		q.mu.Lock()
		if q.events = append(q.events, list...); err == nil && len(q.events) > maxQueue {
			err = fmt.Errorf("%w: more than %d changes were not polled, and later ones are lost; create a new watcher", fault.ResourceExhausted, maxQueue)
			q.events = nil
		}
		q.err = err
		q.mu.Unlock()
		select {
		case q.queued <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

func (c *sandboxCall) watcherOf(id string) (*pollWatcher, error) {
	c.box.mu.Lock()
	defer c.box.mu.Unlock()
	if q := c.box.watchers[id]; q != nil {
		return q, nil
	}
	return nil, fmt.Errorf("watcher %.100q: %w", id, fault.NotFound)
}

// The kernel reports a change a moment after the call that made it. A poll waits until nothing
// came for settleTime, at most for settleLimit, so that a program finds what it has just changed.
const (
	settleTime  = 20 * time.Millisecond
	settleLimit = 200 * time.Millisecond
)

func (q *pollWatcher) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	for {
		select {
		case <-q.queued:
		case <-time.After(settleTime):
			return
		case <-ctx.Done():
			return
		}
	}
}

// GetWatcherEvents returns the changes since the last call.
func (s filesystemService) GetWatcherEvents(ctx context.Context, req *envdpb.GetWatcherEventsRequest) (*envdpb.GetWatcherEventsResponse, error) {
	c := callOf(ctx)
	q, err := c.watcherOf(req.GetWatcherId())
	if err != nil {
		return nil, rpcError(ctx, err)
	}
	q.idle.Reset(watcherIdle)
	q.settle(ctx)
	q.mu.Lock()
	defer q.mu.Unlock()
	list := q.events
	q.events = nil
	if len(list) == 0 && q.err != nil {
		c.box.mu.Lock()
		delete(c.box.watchers, q.id)
		c.box.mu.Unlock()
		return nil, rpcError(ctx, q.err)
	}
	return &envdpb.GetWatcherEventsResponse{Events: list}, nil
}

// RemoveWatcher ends a watcher.
func (s filesystemService) RemoveWatcher(ctx context.Context, req *envdpb.RemoveWatcherRequest) (*envdpb.RemoveWatcherResponse, error) {
	c := callOf(ctx)
	q, err := c.watcherOf(req.GetWatcherId())
	if err != nil {
		return nil, rpcError(ctx, err)
	}
	c.box.mu.Lock()
	delete(c.box.watchers, q.id)
	c.box.mu.Unlock()
	q.stop()
	return &envdpb.RemoveWatcherResponse{}, nil
}
