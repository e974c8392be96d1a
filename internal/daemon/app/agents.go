package app

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/server/mcpserver"
	"github.com/croft-run/croft/registry"
	"github.com/croft-run/croft/tool"
)

// toolServer is the MCP server for all workspaces. It is created at the first request,
// because most programs never need it.
type toolServer struct {
	system *System
	once   sync.Once
	err    error

	env    *tool.Env
	server *mcpserver.Server
	http   http.Handler
	sse    http.Handler
	events *event.Subscription
	stop   context.CancelFunc // ends pollRegistry
	wg     sync.WaitGroup
}

func (a *toolServer) initOnce(ctx context.Context) error {
	a.once.Do(func() {
		if a.env, a.err = a.system.ToolEnv(tool.Config{
			Workspaces: a.system.Workspaces(), Readers: tool.ReadSession, SecretsOf: func(_, id string) string { return id },
		}); a.err != nil {
			return
		}
		a.server = mcpserver.New(ctx, mcpserver.Options{Env: a.env, Version: a.system.version, Toolset: mcpserver.Default, Node: a.system.cluster.nodeName(), Log: a.system.log, Audit: a.system.auditSink()})
		a.http, a.sse = a.server.Handler(), a.server.SSEHandler()
		a.events = a.system.events.Subscribe(event.Filter{Kinds: []event.Kind{event.WorkspaceState}}, nil)
		ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
		a.stop = stop
		a.wg.Go(func() { a.followEvents(ctx) })
		a.wg.Go(func() { a.pollRegistry(ctx) })
	})
	return a.err
}

// followEvents updates clients when workspaces of this process appear or end.
func (a *toolServer) followEvents(ctx context.Context) {
	for e := range a.events.C() {
		if e.Fields[event.FieldTo] == string(registry.Destroyed) {
			a.forgetWorkspace(ctx, e.Workspace)
		}
		a.refreshClients(ctx)
	}
}

func (a *toolServer) forgetWorkspace(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout) // one workspace must not stop the news of all
	defer cancel()
	if err := a.env.Forget(ctx, id); err != nil {
		a.system.log.Warn("drop the tools' state of a workspace", "workspace", id, "error", err)
	}
}

func (a *toolServer) refreshClients(ctx context.Context) {
	if err := a.server.Refresh(ctx); err != nil && ctx.Err() == nil {
		a.system.log.Warn("update the MCP clients", "error", err)
	}
}

// pollInterval is how often the registry is polled for changes of other processes.
const pollInterval = time.Second

// pollRegistry is followEvents for the workspaces of other processes, which share the
// registry. It polls only while clients are connected.
func (a *toolServer) pollRegistry(ctx context.Context) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	last, known := "", map[string]bool{}
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if !a.server.Connected() {
			continue
		}
		now, err := a.system.Registry.Revision(ctx)
		if err == nil && now != last {
			if known, err = a.syncWorkspaces(ctx, known); err == nil {
				last = now
			}
		}
		if err != nil && ctx.Err() == nil {
			a.system.log.Warn("poll the registry for workspaces of other processes", "error", err)
		}
	}
}

// syncWorkspaces drops the state of destroyed workspaces, updates clients, and returns
// the existing workspaces.
func (a *toolServer) syncWorkspaces(ctx context.Context, known map[string]bool) (map[string]bool, error) {
	list, err := a.system.Registry.List(ctx, registry.Filter{})
	if err != nil {
		return known, err
	}
	there := map[string]bool{}
	for _, rec := range list {
		there[rec.ID] = true
	}
	for id := range known {
		if !there[id] {
			a.forgetWorkspace(ctx, id)
		}
	}
	a.system.events.changes.Add(1) // invalidates the cached list
	a.refreshClients(ctx)
	return there, nil
}

// transportHandler serves one of the transports, and creates the server if needed.
func (a *toolServer) transportHandler(which func(*toolServer) http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := a.initOnce(r.Context()); err != nil {
			a.system.log.Error("serve agents", "error", err)
			http.Error(w, "the tools are not available; see the server's log", http.StatusInternalServerError)
			return
		}
		which(a).ServeHTTP(w, r)
	})
}

// httpRoutes returns the handlers of the MCP routes, by path.
func (a *toolServer) httpRoutes() map[string]http.Handler {
	return map[string]http.Handler{
		mcpserver.Path:    a.transportHandler(func(a *toolServer) http.Handler { return a.http }),
		mcpserver.SSEPath: a.transportHandler(func(a *toolServer) http.Handler { return a.sse }),
	}
}

// drain ends connections and calls; no client is served afterwards.
func (a *toolServer) drain() {
	a.once.Do(func() { a.err = fault.Unavailable })
	if a.server != nil {
		a.server.Drain()
		a.server.Close()
	}
}

// close drains the server and closes the tools.
func (a *toolServer) close(ctx context.Context) error {
	a.drain()
	if a.env == nil {
		return nil
	}
	if a.events != nil {
		a.events.Close()
		a.stop()
	}
	a.wg.Wait()
	return a.env.Close(ctx)
}
