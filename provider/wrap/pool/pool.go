// Package pool keeps workspaces warm: opened ahead of time, so that whoever asks
// for one like them has it at once.
//
// What a workspace is like is its spec without identity: provider, template,
// policy, options, session. The pool learns from what is asked for: the first
// workspace of a shape is opened in the ordinary way, and from then on so many of
// that shape are kept ready, until nobody asks for it any longer.
//
// Identity stays the registry's. A pool can't give a workspace another id, so the
// registry asks it for one when it makes a record (driver.Reserver): the id of a
// workspace that is warm. Opening that id then finds the workspace in place.
//
// A warm workspace is in no registry, and a sweep would take it for a leftover.
// Each has a file in the pool's directory, locked by the process that keeps it
// warm from before it is opened: sweeps of all processes spare those, and remove
// the ones whose keeper has died.
package pool

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// Options say how much is kept warm.
type Options struct {
	Dir    string        // for the marks; shared by all processes that share the provider's data
	Size   int           // workspaces of each shape
	Shapes int           // shapes at the same time; 0 is 4; the one not asked for longest gives way
	Idle   time.Duration // a shape that nobody asked for so long is let go; 0 is 10 min
	Log    *slog.Logger  // nil is silent
}

// A Provider hands out workspaces that are warm.
type Provider struct {
	driver.Provider
	opts  Options
	marks marks

	ctx context.Context // of what is opened ahead; ends with Close
	end context.CancelFunc
	wg  sync.WaitGroup

	mu       sync.Mutex
	shapes   map[string]*shape    // guarded by mu
	reserved map[string]*reserved // guarded by mu; by id
	closed   bool                 // guarded by mu
}

// A shape is what workspaces are like, and those that are.
type shape struct {
	spec    driver.Spec // without identity
	warm    []*warm
	opening int
	asked   time.Time
}

// A warm workspace is open and nobody's.
type warm struct {
	ws     *driver.Workspace
	id     string
	unmark func()
}

// A reserved one has its record, or will have it in a moment.
type reserved struct {
	*warm
	key string
	at  time.Time
}

// insertTime is how long the one who reserved an id may take to record it.
const insertTime = time.Minute

// Wrap returns p with a pool. Close ends it, and what is warm.
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
	out := &Provider{Provider: p, opts: opts, marks: marks{opts.Dir}, shapes: map[string]*shape{}, reserved: map[string]*reserved{}}
	if err := out.marks.prepare(); err != nil {
		return nil, err
	}
	out.ctx, out.end = context.WithCancel(context.WithoutCancel(ctx))
	out.wg.Go(out.expire)
	return out, nil
}

// Unwrap returns the provider itself.
func (p *Provider) Unwrap() driver.Provider { return p.Provider }

// keyOf returns the shape of a spec, "" where such can't be kept warm: a
// directory in place is one, and a snapshot has an owner.
func keyOf(spec driver.Spec) string {
	if spec.Dir != "" || spec.From.Snapshot != "" {
		return ""
	}
	spec.ID, spec.Name, spec.Labels = "", "", nil
	data, err := json.Marshal(spec)
	if err != nil {
		return ""
	}
	return string(data)
}

// Reserve returns the id of a workspace that is warm and like spec, "" where
// there is none; either way more of them are made ready.
func (p *Provider) Reserve(spec driver.Spec) string {
	key := keyOf(spec)
	if key == "" {
		return ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return ""
	}
	s := p.shapes[key]
	if s == nil {
		p.makeRoom()
		s = &shape{spec: spec}
		s.spec.ID, s.spec.Name, s.spec.Labels = "", "", nil
		p.shapes[key] = s
	}
	s.asked = time.Now()
	var id string
	if n := len(s.warm); n > 0 {
		w := s.warm[0]
		s.warm = slices.Delete(s.warm, 0, 1)
		p.reserved[w.id] = &reserved{warm: w, key: key, at: s.asked}
		id = w.id
	}
	p.fill(key, s)
	return id
}

// Release gives back an id that was reserved and not recorded.
func (p *Provider) Release(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok := p.reserved[id]
	if !ok {
		return
	}
	delete(p.reserved, id)
	if s := p.shapes[r.key]; s != nil && !p.closed && len(s.warm) < p.opts.Size {
		s.warm = append(s.warm, r.warm)
		return
	}
	p.drop(r.warm)
}

// Warm returns how many workspaces like spec are ready.
func (p *Provider) Warm(spec driver.Spec) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.shapes[keyOf(spec)]; s != nil {
		return len(s.warm)
	}
	return 0
}

// Open hands out the workspace where its id was reserved, and opens it where not.
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
	// The wish changed meanwhile: what is there is brought to it.
	if err := r.ws.Life.Close(ctx); err != nil {
		return nil, err
	}
	return p.Provider.Open(ctx, spec)
}

// Sweep spares what is warm, here and in other processes.
func (p *Provider) Sweep(ctx context.Context, live []string) error {
	p.forget(live)
	warm, err := p.marks.held()
	if err != nil {
		return err
	}
	return p.Provider.Sweep(ctx, append(slices.Clone(live), warm...))
}

// forget lets go of what was reserved and has no record, or none any longer.
func (p *Provider) forget(live []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, r := range p.reserved {
		if time.Since(r.at) > insertTime && !slices.Contains(live, id) {
			delete(p.reserved, id)
			p.drop(r.warm)
		}
	}
}

// Close ends what is warm, and closes the provider itself, if it wants to be.
func (p *Provider) Close() error {
	p.Drain()
	if c, ok := p.Provider.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// Drain ends what is warm, for good. Workspaces that were handed out stay.
func (p *Provider) Drain() {
	p.mu.Lock()
	p.closed = true
	for key, s := range p.shapes {
		p.letGo(key, s)
	}
	for id, r := range p.reserved { // recorded, most likely: it is opened by its id
		delete(p.reserved, id)
		p.wg.Go(func() { p.close(r.warm) })
	}
	p.mu.Unlock()
	p.end()
	p.wg.Wait()
}

// makeRoom lets the shape go that was not asked for longest, where there are
// as many as there may be.
// The caller holds p.mu.
func (p *Provider) makeRoom() {
	if len(p.shapes) < p.opts.Shapes {
		return
	}
	var oldest string
	for key, s := range p.shapes {
		if oldest == "" || s.asked.Before(p.shapes[oldest].asked) {
			oldest = key
		}
	}
	p.letGo(oldest, p.shapes[oldest])
}

// letGo ends a shape and what is warm of it.
// The caller holds p.mu.
func (p *Provider) letGo(key string, s *shape) {
	delete(p.shapes, key)
	for _, w := range s.warm {
		p.drop(w)
	}
	s.warm = nil
}

// drop destroys a warm workspace, in the background.
// The caller holds p.mu.
func (p *Provider) drop(w *warm) {
	p.wg.Go(func() {
		defer w.unmark()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), time.Minute)
		defer cancel()
		if err := w.ws.Life.Destroy(ctx); err != nil { // a sweep gets it
			p.opts.Log.Warn("end a warm workspace", "workspace", w.id, "error", err)
		}
	})
}

// close lets go of a workspace that is recorded.
func (p *Provider) close(w *warm) {
	defer w.unmark()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), time.Minute)
	defer cancel()
	if err := w.ws.Life.Close(ctx); err != nil {
		p.opts.Log.Warn("let go of a warm workspace", "workspace", w.id, "error", err)
	}
}

// fill opens what is missing of a shape, in the background, one after another.
// The caller holds p.mu.
func (p *Provider) fill(key string, s *shape) {
	if s.opening > 0 || len(s.warm) >= p.opts.Size {
		return
	}
	s.opening = 1
	p.wg.Go(func() {
		for p.one(key, s) {
		}
	})
}

// one opens a workspace of a shape, and reports whether another is missing. A
// shape that can't be opened is tried again when it is asked for again.
func (p *Provider) one(key string, s *shape) bool {
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
		p.drop(w)
		return false
	}
	s.warm = append(s.warm, w)
	if len(s.warm) >= p.opts.Size {
		s.opening = 0
		return false
	}
	return true
}

func (p *Provider) warmUp(spec driver.Spec) (*warm, error) {
	spec.ID = driver.NewID()
	unmark, err := p.marks.mark(spec.ID)
	if err != nil {
		return nil, err
	}
	ws, err := p.Provider.Open(p.ctx, spec)
	if err != nil {
		unmark()
		return nil, err
	}
	if ws.Shell != nil && ws.Shell.Sessions != nil {
		// What runs commands is started by the first call, which is the slow part of
		// a container. One that can't start it says so to whoever runs something.
		if _, err := ws.Shell.Sessions(p.ctx); err != nil && p.ctx.Err() == nil {
			p.opts.Log.Warn("start the shell of a warm workspace", "provider", p.Kind(), "error", err)
		}
	}
	return &warm{ws: ws, id: spec.ID, unmark: unmark}, nil
}

// expire lets shapes go that nobody asks for.
func (p *Provider) expire() {
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
			if time.Since(s.asked) > p.opts.Idle {
				p.letGo(key, s)
			}
		}
		p.mu.Unlock()
	}
}
