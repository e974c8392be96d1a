package app

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/internal/daemon/config"
	"github.com/croft-run/croft/internal/daemon/tenants"
	"github.com/croft-run/croft/internal/server/rest"
	"github.com/croft-run/croft/registry"
)

// recentEvents is how many events are kept for clients that reconnect.
const recentEvents = 4096

// events is the event stream of a system. It also announces opened workspaces.
type events struct {
	*event.Stream
	recent *event.Ring
	file   *event.File // nil without a file

	tenants   *tenants.Tenants
	changes   atomic.Int64              // counts changes of workspaces' states
	announcer atomic.Pointer[announcer] // nil until startAnnouncer
	serving   atomic.Bool               // by Serve

	mu     sync.Mutex
	queue  []announcement // guarded by mu
	closed bool           // guarded by mu
	wake   chan struct{}
	stop   context.CancelFunc
	done   sync.WaitGroup
}

// An announcement is work of the announcer: for a workspace that became ready, or for a
// change of its project.
type announcement struct {
	id      string
	project bool // only its project
}

// An announcer announces workspaces; *rest.Server is one.
type announcer interface {
	Announce(ctx context.Context, id string, projects rest.Projects)
	AnnounceProfile(ctx context.Context, id string)
	ProfileAffected(id, name string) bool
}

// openEvents opens the stream, with the file at path unless that is "".
func openEvents(path string, settings config.Events, of *tenants.Tenants, log *slog.Logger) (*events, error) {
	e := &events{tenants: of, recent: event.NewRing(recentEvents), wake: make(chan struct{}, 1)}
	if path == "" {
		e.Stream = event.NewStream(e.recent)
		return e, nil
	}
	var err error
	e.file, err = event.OpenFile(path, &event.FileOptions{
		MaxSize: int64(settings.MaxSize), Keep: int(settings.Keep), Sync: event.Sync(settings.Sync),
		OnError: func(err error) { log.Warn("write the audit stream", "error", err) },
	})
	if err != nil {
		return nil, err
	}
	last, err := event.LastSequence(path)
	if err != nil {
		log.Warn("read the audit stream", "error", err) // sequence numbers start again
	}
	e.Stream = event.NewStream(e.recent, e.file)
	e.Continue(last)
	return e, nil
}

// Emit passes an event on. A workspace that becomes ready, and one whose project may have
// changed, is queued for the announcer goroutine, so that the caller does not wait.
func (e *events) Emit(ev event.Event) {
	if ev.Kind == event.WorkspaceState {
		e.changes.Add(1)
		e.tenants.Remember(ev.Workspace, ev.Tenant)
	}
	e.Stream.Emit(ev)
	switch {
	case ev.Kind == event.WorkspaceState && ev.Fields[event.FieldTo] == string(registry.Ready):
		e.enqueue(announcement{id: ev.Workspace})
	case ev.Kind == event.Operation && e.changesProject(ev):
		e.enqueue(announcement{id: ev.Workspace, project: true})
	}
}

// changesProject reports whether an operation may have changed the project of a workspace.
// Commands do not count: each would cost a check of all manifests.
func (e *events) changesProject(ev event.Event) bool {
	a := e.announcer.Load()
	if a == nil || ev.Fields[event.FieldCode] != nil {
		return false
	}
	verb, _ := ev.Fields[event.FieldVerb].(string)
	if !slices.Contains([]string{"write", "edit", "remove", "rename", "copy", "symlink", "import", "rollback"}, verb) {
		return false
	}
	path, _ := ev.Fields[event.FieldPath].(string)
	to, _ := ev.Fields[event.FieldTo].(string)
	return (*a).ProfileAffected(ev.Workspace, path) || to != "" && (*a).ProfileAffected(ev.Workspace, to)
}

func (e *events) enqueue(a announcement) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || slices.Contains(e.queue, a) {
		return
	}
	e.queue = append(e.queue, a)
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// startAnnouncer starts the goroutine that announces workspaces, one at a time, and with
// projects their projects.
func (e *events) startAnnouncer(ctx context.Context, f announcer, projects bool) {
	e.announcer.Store(&f)
	ctx, e.stop = context.WithCancel(context.WithoutCancel(ctx))
	e.done.Go(func() {
		for {
			a, over := e.next()
			switch {
			case a.project:
				f.AnnounceProfile(ctx, a.id)
				continue
			case a.id != "":
				f.Announce(ctx, a.id, e.announcedProjects(projects))
				continue
			case over:
				return
			}
			select {
			case <-e.wake:
			case <-ctx.Done():
				return
			}
		}
	})
}

// announcedProjects returns whose projects are looked for. A command ends when all is
// announced, so that it does not look for those of forks.
func (e *events) announcedProjects(projects bool) rest.Projects {
	switch {
	case e.serving.Load():
		return rest.AllProjects
	case projects:
		return rest.NotOfForks
	}
	return rest.NoProjects
}

// next takes an announcement from the queue; over reports that no more will come.
func (e *events) next() (a announcement, over bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.queue) == 0 {
		return announcement{}, e.closed
	}
	a, e.queue = e.queue[0], e.queue[1:]
	return a, false
}

// announceTimeout bounds how long shutting down waits for announcements.
const announceTimeout = 10 * time.Second

// stopAnnouncer ends the announcer. Queued workspaces are announced, within
// announceTimeout.
func (e *events) stopAnnouncer() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	select {
	case e.wake <- struct{}{}:
	default:
	}
	late := time.AfterFunc(announceTimeout, e.stop)
	e.done.Wait()
	late.Stop()
	e.stop()
}

func (e *events) close() error {
	if e.file == nil {
		return nil
	}
	return e.file.Close()
}

// isolationLevels tests every level of isolation of every provider.
func (s *System) isolationLevels(ctx context.Context) []rest.Level {
	var out []rest.Level
	for _, kind := range s.Mux.Kinds() {
		p, err := s.Mux.Provider(kind)
		if err != nil {
			continue // it was removed meanwhile
		}
		levels := p.Features().Levels
		if levels == nil {
			continue
		}
		for _, r := range levels(ctx) {
			out = append(out, rest.Level{Provider: kind, Level: r.Level, Works: r.Works, Proof: r.Proof, Reason: r.Reason, Lacks: r.Lacks})
		}
	}
	return out
}
