// Package pool keeps a pool of workspaces that are opened in advance, so that opening
// one like them takes no time.
//
// The shape of a workspace is its spec without identity: provider, template, policy,
// options, session. The pool learns shapes from requests: the first workspace of a
// shape is opened on demand, and from then on Options.Size workspaces of that shape
// are kept ready, until the shape is no longer requested. Keep names a shape in advance.
// A pool that is at least half full is refilled only while nothing is requested, since
// refilling would slow requests down.
//
// The registry owns identity, and a pool can't change the id of a workspace. So the
// registry calls the pool before it makes an id (driver.Features), and gets the id of
// a pooled workspace. Opening that id returns the pooled workspace.
//
// A pooled workspace is in no registry, so a sweep would remove it. Each has a file
// in the pool's directory with a flock that its process holds from before the
// workspace is opened: sweeps of all processes spare these workspaces, and remove
// those whose process has died.
package pool

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/sleep"
	"github.com/croft-run/croft/workspace/driver"
)

// Options configure a pool.
type Options struct {
	Dir    string        // for the flock files; shared by all processes that share the provider's data
	Size   int           // workspaces of each shape
	Shapes int           // maximum number of shapes; 0 is 4; the least recently requested is dropped
	Idle   time.Duration // a shape that was not requested for this time is dropped; 0 is 10 min
	Log    *slog.Logger  // nil is silent

	// Enabled, if set, reports whether this process has a pool now: of the servers of a cluster,
	// whose workspaces every one of them reaches and sweeps, one has. Without a pool nothing is
	// reserved, and pooled workspaces are destroyed.
	Enabled func() bool
}

// A Provider returns pooled workspaces.
type Provider struct {
	driver.Provider
	opts  Options
	marks flockFiles

	ctx context.Context // context of opening in advance; ends with Close
	end context.CancelFunc
	wg  sync.WaitGroup

	mu       sync.Mutex
	shapes   map[string]*shape             // guarded by mu
	reserved map[string]*reservedWorkspace // guarded by mu; by id
	closed   bool                          // guarded by mu
}

// A shape is a spec without identity, with its pooled workspaces.
type shape struct {
	spec    driver.Spec // without identity
	warm    []*warmWorkspace
	opening int
	asked   time.Time
	keep    bool // also if it is not requested
}

// A warmWorkspace workspace is open and has no owner.
type warmWorkspace struct {
	ws     *driver.Workspace
	id     string
	unmark func()
}

// A reservedWorkspace workspace has a record in the registry, or gets it within insertTime.
type reservedWorkspace struct {
	*warmWorkspace
	key string
	at  time.Time
}

// insertTime is how long the registry may take to record a reserved id.
const insertTime = time.Minute

// Wrap returns p with a pool. Close destroys the pooled workspaces.
func Wrap(ctx context.Context, p driver.Provider, opts Options) (*Provider, error) {
	if opts.Size < 1 || opts.Shapes < 0 || opts.Idle < 0 {
		return nil, fmt.Errorf("pool: wrap %s: %w: size must be 1 or more, shapes and idle not negative", p.Kind(), fault.InvalidArgument)
	}
	if opts.Shapes == 0 {
		opts.Shapes = 4
	}
	if opts.Idle == 0 {
		opts.Idle = 10 * time.Minute
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	out := &Provider{Provider: p, opts: opts, marks: flockFiles{opts.Dir}, shapes: map[string]*shape{}, reserved: map[string]*reservedWorkspace{}}
	if err := out.marks.makeDir(); err != nil {
		return nil, err
	}
	out.ctx, out.end = context.WithCancel(context.WithoutCancel(ctx))
	out.wg.Go(out.dropIdleShapes)
	return out, nil
}

// Unwrap returns the wrapped provider.
func (p *Provider) Unwrap() driver.Provider { return p.Provider }

// Features adds the pool to the features of the wrapped provider.
func (p *Provider) Features() driver.Features {
	f := p.Provider.Features()
	f.Reserve, f.Release = p.Reserve, p.Release
	return f
}

// keyOf returns the shape of a spec, or "" if it can't be pooled: a directory in
// place is unique, and a snapshot has an owner unless any session may use it, as that of
// a template.
func keyOf(spec driver.Spec) string {
	if spec.Dir != "" || spec.From.Snapshot != "" && !spec.From.CrossSession {
		return ""
	}
	spec.ID, spec.Name, spec.Labels = "", "", nil
	data, err := json.Marshal(spec)
	if err != nil {
		return ""
	}
	return string(data)
}

// Keep keeps workspaces like spec ready from now on, requested or not.
func (p *Provider) Keep(spec driver.Spec) error {
	key := keyOf(spec)
	if key == "" {
		return fmt.Errorf("pool: keep: %w: a directory in place, or a snapshot of one session, can't be pooled", fault.InvalidArgument)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	s := p.shapeOf(key, spec)
	s.keep = true
	p.refill(key, s)
	return nil
}

// shapeOf returns the shape of a spec, which is now requested. The caller holds p.mu.
func (p *Provider) shapeOf(key string, spec driver.Spec) *shape {
	s := p.shapes[key]
	if s == nil {
		p.evictShape()
		s = &shape{spec: spec}
		s.spec.ID, s.spec.Name, s.spec.Labels = "", "", nil
		p.shapes[key] = s
	}
	s.asked = time.Now()
	return s
}

// Reserve returns the id of a pooled workspace that matches spec, or "". In both
// cases the pool is refilled.
func (p *Provider) Reserve(spec driver.Spec) string {
	key := keyOf(spec)
	if key == "" {
		return ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || !p.enabled() {
		return ""
	}
	s := p.shapeOf(key, spec)
	var id string
	if n := len(s.warm); n > 0 {
		w := s.warm[0]
		s.warm = slices.Delete(s.warm, 0, 1)
		p.reserved[w.id] = &reservedWorkspace{warmWorkspace: w, key: key, at: s.asked}
		id = w.id
	}
	p.refill(key, s)
	return id
}

// Release returns a reserved id that was not recorded to the pool.
func (p *Provider) Release(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok := p.reserved[id]
	if !ok {
		return
	}
	delete(p.reserved, id)
	if s := p.shapes[r.key]; s != nil && !p.closed && len(s.warm) < p.opts.Size {
		s.warm = append(s.warm, r.warmWorkspace)
		return
	}
	p.destroyWarm(r.warmWorkspace)
}

// Warm returns the number of pooled workspaces that match spec.
func (p *Provider) Warm(spec driver.Spec) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.shapes[keyOf(spec)]; s != nil {
		return len(s.warm)
	}
	return 0
}

// Open returns the pooled workspace if its id was reserved, and opens it otherwise.
func (p *Provider) Open(ctx context.Context, spec driver.Spec) (*driver.Workspace, error) {
	p.mu.Lock()
	r, ok := p.reserved[spec.ID]
	delete(p.reserved, spec.ID)
	p.mu.Unlock()
	if !ok {
		return p.Provider.Open(ctx, spec)
	}
	defer r.unmark() // it is recorded
	if r.key == keyOf(spec) {
		return r.ws, nil
	}
	// The spec changed meanwhile: Open applies it to the existing workspace.
	if err := r.ws.Life.Close(ctx); err != nil {
		return nil, err
	}
	return p.Provider.Open(ctx, spec)
}

// Sweep spares pooled workspaces of this and other processes.
func (p *Provider) Sweep(ctx context.Context, live []string) error {
	p.closeUnrecorded(live)
	warm, err := p.marks.liveIDs()
	if err != nil {
		return err
	}
	return p.Provider.Sweep(ctx, append(slices.Clone(live), warm...))
}

// closeUnrecorded closes reserved workspaces that have no record.
func (p *Provider) closeUnrecorded(live []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, r := range p.reserved {
		if time.Since(r.at) > insertTime && !slices.Contains(live, id) {
			delete(p.reserved, id)
			p.destroyWarm(r.warmWorkspace)
		}
	}
}

// Close destroys the pooled workspaces, and closes the wrapped provider.
func (p *Provider) Close() error {
	p.Drain()
	return p.Provider.Close()
}

// Drain destroys the pooled workspaces and stops the pool. Workspaces that were
// handed out stay.
func (p *Provider) Drain() {
	p.mu.Lock()
	p.closed = true
	for key, s := range p.shapes {
		p.dropShape(key, s)
	}
	for id, r := range p.reserved { // probably recorded: it is opened by its id
		delete(p.reserved, id)
		p.wg.Go(func() { p.closeReserved(r.warmWorkspace) })
	}
	p.mu.Unlock()
	p.end()
	p.wg.Wait()
}

// evictShape drops the least recently requested shape if the maximum is reached. Shapes of Keep
// stay, and do not count. The caller holds p.mu.
func (p *Provider) evictShape() {
	var oldest string
	requested := 0
	for key, s := range p.shapes {
		if s.keep {
			continue
		}
		requested++
		if oldest == "" || s.asked.Before(p.shapes[oldest].asked) {
			oldest = key
		}
	}
	if requested >= p.opts.Shapes {
		p.dropShape(oldest, p.shapes[oldest])
	}
}

// dropShape removes a shape and destroys its pooled workspaces. The caller holds p.mu.
func (p *Provider) dropShape(key string, s *shape) {
	delete(p.shapes, key)
	for _, w := range s.warm {
		p.destroyWarm(w)
	}
	s.warm = nil
}

// destroyWarm destroys a pooled workspace, in the background. The caller holds p.mu.
func (p *Provider) destroyWarm(w *warmWorkspace) {
	p.wg.Go(func() {
		defer w.unmark()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), time.Minute)
		defer cancel()
		if err := w.ws.Life.Destroy(ctx); err != nil { // a sweep removes it
			p.opts.Log.Warn("end a warm workspace", "workspace", w.id, "error", err)
		}
	})
}

// closeReserved closes a workspace that is recorded.
func (p *Provider) closeReserved(w *warmWorkspace) {
	defer w.unmark()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), time.Minute)
	defer cancel()
	if err := w.ws.Life.Close(ctx); err != nil {
		p.opts.Log.Warn("let go of a warm workspace", "workspace", w.id, "error", err)
	}
}

// refillPause is how long refilling waits after a request, which it would slow down. A pool
// that is less than half full does not wait.
const refillPause = 100 * time.Millisecond

// refill opens missing workspaces of a shape, in the background, one after another. The
// caller holds p.mu.
func (p *Provider) refill(key string, s *shape) {
	if !p.enabled() || s.opening > 0 || len(s.warm) >= p.opts.Size {
		return
	}
	s.opening = 1
	p.wg.Go(func() {
		for p.pauseRefill(s) && p.openOne(key, s) {
		}
	})
}

func (p *Provider) enabled() bool { return p.opts.Enabled == nil || p.opts.Enabled() }

// pauseRefill waits until no workspace of the shape was requested for refillPause, and
// reports whether the pool still runs.
func (p *Provider) pauseRefill(s *shape) bool {
	for {
		p.mu.Lock()
		wait := time.Until(s.asked.Add(refillPause))
		if 2*len(s.warm) < p.opts.Size {
			wait = 0
		}
		p.mu.Unlock()
		if wait <= 0 {
			return true
		}
		if sleep.For(p.ctx, wait) != nil {
			return false
		}
	}
}

// openOne opens a workspace of a shape, and reports whether another one is missing. After
// a failure the shape is tried again with the next request.
func (p *Provider) openOne(key string, s *shape) bool {
	w, err := p.warmUp(s.spec)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err != nil:
		s.opening = 0
		if p.ctx.Err() == nil {
			p.opts.Log.Warn("warm up a workspace", "provider", p.Kind(), "error", err)
		}
		return false
	case p.closed || p.shapes[key] != s:
		p.destroyWarm(w)
		return false
	}
	s.warm = append(s.warm, w)
	if len(s.warm) >= p.opts.Size {
		s.opening = 0
		return false
	}
	return true
}

// warmTime bounds the opening of a pooled workspace: one that hangs must not end the refilling.
const warmTime = 10 * time.Minute

func (p *Provider) warmUp(spec driver.Spec) (*warmWorkspace, error) {
	spec.ID = driver.NewID()
	unmark, err := p.marks.lockID(spec.ID)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(p.ctx, warmTime)
	defer cancel()
	ws, err := p.Provider.Open(ctx, spec)
	if err != nil {
		unmark()
		return nil, err
	}
	if ws.Shell != nil && ws.Shell.Sessions != nil {
		// The first call starts the guest, which is the slow part of a container. If
		// the start fails, the first command reports it.
		if _, err := ws.Shell.Sessions(ctx); err != nil && p.ctx.Err() == nil {
			p.opts.Log.Warn("start the shell of a warm workspace", "provider", p.Kind(), "error", err)
		}
	}
	return &warmWorkspace{ws: ws, id: spec.ID, unmark: unmark}, nil
}

// dropIdleShapes removes shapes that are no longer requested.
func (p *Provider) dropIdleShapes() {
	tick := time.NewTicker(max(p.opts.Idle/10, time.Second))
	defer tick.Stop()
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-tick.C:
		}
		p.mu.Lock()
		for key, s := range p.shapes {
			switch {
			case !s.keep && time.Since(s.asked) > p.opts.Idle:
				p.dropShape(key, s)
			case !p.enabled():
				for _, w := range s.warm {
					p.destroyWarm(w)
				}
				s.warm = nil
			case s.keep:
				p.refill(key, s)
			}
		}
		p.mu.Unlock()
	}
}
