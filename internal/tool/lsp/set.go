package lsp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/sleep"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// A Set has the language servers of one workspace. It starts a server at the first request
// for its language, and is safe for concurrent use.
type Set struct {
	ws           *workspace.Workspace
	idle         time.Duration
	startTimeout time.Duration  // for the initialize response
	wg           sync.WaitGroup // the watch and the idle timer

	mu     sync.Mutex
	slots  map[string]*slot   // by language; guarded by mu
	watch  workspace.Watcher  // nil before the first server; guarded by mu
	cancel context.CancelFunc // of the watch and the idle timer; guarded by mu
	closed bool               // guarded by mu
}

// A slot holds the server of one language.
type slot struct {
	spec    *server
	running atomic.Pointer[client] // client, readable without mu

	mu       sync.Mutex // held while the server is started or ended
	client   *client    // nil if none runs; set by setLocked; guarded by mu
	settled  bool       // guarded by mu
	failures int        // consecutive early deaths; guarded by mu
	hung     bool       // the last start timed out; guarded by mu
	next     time.Time  // backoff: earliest next start; guarded by mu
	users    int        // running requests; guarded by mu
	last     time.Time  // end of the last request; guarded by mu
}

// New returns the Set of a workspace. Servers without requests for the idle time are
// stopped; 0 is ten minutes.
func New(ws *workspace.Workspace, idle time.Duration) *Set {
	if idle == 0 {
		idle = idleTime
	}
	return &Set{ws: ws, idle: idle, startTimeout: initTimeout, slots: map[string]*slot{}}
}

// Close stops all servers.
func (s *Set) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	watch, cancel := s.watch, s.cancel
	s.watch = nil
	var slots []*slot
	for _, sl := range s.slots {
		slots = append(slots, sl)
	}
	s.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	var err error
	if watch != nil {
		err = watch.Close()
	}
	s.wg.Wait()
	var wg sync.WaitGroup
	for _, sl := range slots {
		wg.Go(func() { sl.stopServer(ctx) })
	}
	wg.Wait()
	if err != nil {
		return fmt.Errorf("lsp: end the watch: %w", err)
	}
	return nil
}

// stopServer stops the server of a slot.
func (sl *slot) stopServer(ctx context.Context) {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	if c := sl.client; c != nil {
		sl.setLocked(nil)
		c.stop(ctx)
	}
}

// setLocked sets the running server. The caller holds sl.mu.
func (sl *slot) setLocked(c *client) {
	sl.client = c
	sl.running.Store(c)
}

// slotFor returns the slot of a language's server.
func (s *Set) slotFor(spec *server) (*slot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fmt.Errorf("lsp: %w: the language servers were ended", fault.WrongState)
	}
	sl := s.slots[spec.name]
	if sl == nil {
		sl = &slot{spec: spec}
		s.slots[spec.name] = sl
	}
	return sl, nil
}

// acquire returns the running server of a slot, and starts one if necessary.
func (s *Set) acquire(ctx context.Context, sl *slot) (*client, error) {
	if err := s.watchWorkspace(ctx); err != nil {
		return nil, err
	}
	for !sl.mu.TryLock() { // another request starts the server
		if err := sleep.For(ctx, startPoll); err != nil {
			return nil, err
		}
	}
	defer sl.mu.Unlock()
	if sl.client != nil && !sl.client.isAlive() {
		sl.removeDeadLocked()
	}
	if sl.client == nil {
		if wait := time.Until(sl.next); wait > 0 {
			return nil, sl.backoffErrorLocked(wait, s.startTimeout)
		}
		c, err := s.startClient(ctx, sl)
		if err != nil {
			return nil, err
		}
		sl.setLocked(c)
		sl.settled = false
	}
	sl.users++
	return sl.client, nil
}

// startClient starts the server of a slot and records a failure. The caller holds sl.mu.
func (s *Set) startClient(ctx context.Context, sl *slot) (*client, error) {
	startCtx, cancel := context.WithTimeout(ctx, s.startTimeout)
	defer cancel()
	c, err := startServer(startCtx, s.ws, sl.spec)
	sl.hung = false
	switch {
	case err == nil:
	case errors.Is(err, errDied):
		sl.noteFailureLocked()
	case startCtx.Err() != nil && ctx.Err() == nil:
		// Without a backoff the next requests would wait as long.
		sl.hung, sl.next = true, time.Now().Add(hungPause)
		err = sl.backoffErrorLocked(hungPause, s.startTimeout)
	}
	return c, err
}

// backoffErrorLocked says why no server is started. The caller holds sl.mu.
func (sl *slot) backoffErrorLocked(wait, greet time.Duration) error {
	why := fmt.Sprintf("ended %d times in a row", sl.failures)
	if sl.hung {
		why = fmt.Sprintf("did not answer within %v when it was started", greet)
	}
	return &Error{fmt.Sprintf("the language server for %s %s; it is tried again in %v", sl.spec.name, why, wait.Round(time.Second)), fault.Unavailable}
}

// removeDeadLocked cleans up after a server that died. The caller holds sl.mu.
func (sl *slot) removeDeadLocked() {
	sl.client.kill()
	if time.Since(sl.client.started) < healthy {
		sl.noteFailureLocked()
	} else {
		sl.failures = 0
	}
	sl.setLocked(nil)
}

// noteFailureLocked counts an early death. After the first one there is no backoff. The
// caller holds sl.mu.
func (sl *slot) noteFailureLocked() {
	sl.failures++
	if sl.failures > 1 {
		sl.next = time.Now().Add(min(firstPause<<min(sl.failures-2, 10), maxPause))
	}
}

func (sl *slot) release() {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	sl.users--
	sl.last = time.Now()
}

// askServer runs a request about a file after synchronising the open documents. If the
// server dies meanwhile, a new server is asked once.
func (s *Set) askServer(ctx context.Context, name string, spec *server, question func(ctx context.Context, c *client, doc *document) error) error {
	sl, err := s.slotFor(spec)
	if err != nil {
		return err
	}
	const tries = 4
	for try := range tries {
		err = s.askOnce(ctx, sl, name, question)
		var refused *rpcError
		switch {
		case err == nil || ctx.Err() != nil:
			return err
		case errors.Is(err, errDied) && try == 0:
		case errors.As(err, &refused) && (refused.Code == codeContentModified || refused.Code == codeServerCancelled):
			if err := sleep.For(ctx, time.Duration(try+1)*100*time.Millisecond); err != nil {
				return err
			}
		default:
			return err
		}
	}
	return err
}

func (s *Set) askOnce(ctx context.Context, sl *slot, name string, question func(context.Context, *client, *document) error) error {
	c, err := s.acquire(ctx, sl)
	if err != nil {
		return err
	}
	defer sl.release()
	doc, err := c.syncDocuments(ctx, name)
	if err != nil {
		return err
	}
	sl.mu.Lock()
	settled := sl.settled
	sl.settled = true
	sl.mu.Unlock()
	c.waitLoaded(ctx, !settled)
	return question(ctx, c, doc)
}

// Warm reports whether a server for a file is running, so that a request is cheap.
func (s *Set) Warm(name string) bool {
	spec, _ := languageOf(name)
	if spec == nil {
		return false
	}
	for _, c := range s.runningClients() {
		if c.spec == spec {
			return true
		}
	}
	return false
}

// runningClients returns the running servers, without waiting for one that is starting.
func (s *Set) runningClients() []*client {
	s.mu.Lock()
	var slots []*slot
	for _, sl := range s.slots {
		slots = append(slots, sl)
	}
	s.mu.Unlock()
	var list []*client
	for _, sl := range slots {
		if c := sl.running.Load(); c != nil && c.isAlive() {
			list = append(list, c)
		}
	}
	return list
}

// NotifyChanged notifies the running servers of files that a tool has just changed.
func (s *Set) NotifyChanged(ctx context.Context, names ...string) error {
	clients := s.runningClients()
	if len(clients) == 0 {
		return nil
	}
	changes := map[string]int{}
	for _, name := range names {
		if _, err := s.ws.Stat(ctx, name, nil); err == nil {
			changes[name] = fileChanged
		} else if fault.Of(err) == fault.NotFound {
			changes[name] = fileDeleted
		}
	}
	return notifyClients(ctx, clients, changes)
}

func notifyClients(ctx context.Context, clients []*client, changes map[string]int) error {
	var errs []error
	for _, c := range clients {
		if err := c.notifyWatched(changes); err != nil {
			errs = append(errs, err)
			continue
		}
		if _, err := c.syncDocuments(ctx, ""); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// watchWorkspace starts the file watch and the idle timer, once.
func (s *Set) watchWorkspace(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel != nil || s.closed {
		return nil
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	watch, err := s.ws.Watch(life, ".", &workspace.WatchOptions{Recursive: true})
	if err != nil && fault.Of(err) != fault.Unsupported && fault.Of(err) != fault.ResourceExhausted {
		cancel()
		return fmt.Errorf("lsp: watch: %w", err)
	}
	s.cancel = cancel
	s.wg.Go(func() { s.stopIdleServers(life) })
	if watch != nil {
		s.watch = watch
		s.wg.Go(func() { s.forwardChanges(life, watch) })
	}
	return nil
}

// forwardChanges notifies servers of changes in the workspace.
func (s *Set) forwardChanges(ctx context.Context, watch workspace.Watcher) {
	kinds := map[driver.ChangeOp]int{driver.OpCreate: fileCreated, driver.OpWrite: fileChanged, driver.OpRemove: fileDeleted}
	for {
		batch, err := watch.Next(ctx)
		if err != nil {
			return
		}
		changes := map[string]int{}
		for _, c := range batch.Changes {
			if kind := kinds[c.Op]; kind != 0 && !strings.HasPrefix(c.Path, ".git/") {
				changes[c.Path] = kind
			}
		}
		_ = notifyClients(ctx, s.runningClients(), changes) // a failure means a dead server, which the next request restarts
	}
}

// stopIdleServers stops servers without requests.
func (s *Set) stopIdleServers(ctx context.Context) {
	tick := time.NewTicker(max(s.idle/4, 10*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s.mu.Lock()
		var slots []*slot
		for _, sl := range s.slots {
			slots = append(slots, sl)
		}
		s.mu.Unlock()
		for _, sl := range slots {
			if !sl.mu.TryLock() {
				continue
			}
			if c := sl.client; c != nil && sl.users == 0 && time.Since(sl.last) >= s.idle {
				sl.setLocked(nil)
				sl.failures = 0
				c.stop(ctx)
			}
			sl.mu.Unlock()
		}
	}
}
