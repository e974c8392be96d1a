package app

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/internal/daemon/datadir"
	"github.com/croft-run/croft/internal/daemon/tenants"
	"github.com/croft-run/croft/internal/server/e2b"
	"github.com/croft-run/croft/internal/server/e2b/envd"
	"github.com/croft-run/croft/provider/all"
	"github.com/croft-run/croft/registry"
)

// e2bServer is the server of E2B's API, with what runs in its background.
type e2bServer struct {
	*e2b.Server
	envd   *envd.Server
	events *event.Subscription
	done   chan struct{} // closed when the events have ended
}

// openE2B opens the server of E2B's API for the address that it is served on.
func (s *System) openE2B(ctx context.Context, addr net.Addr) (*e2bServer, error) {
	key, err := s.key("e2b", datadir.E2BKeyFile)
	if err != nil {
		return nil, err
	}
	out := &e2bServer{envd: envd.New(envd.Config{Log: s.log}), done: make(chan struct{})}
	out.Server, err = e2b.New(ctx, e2b.Config{
		Registry: s.Registry, Envd: out.envd, Admit: s.Rules.AdmitSandbox, AdmitPolicy: s.Rules.AdmitPolicy,
		Guard: s.guard, Audit: s.auditSink(), Forward: s.cluster.forwardSandbox(), Key: []byte(key), Dir: filepath.Join(s.Dir, "e2b"), Volumes: all.Volumes(s.Dir), Templates: s.templates, Snapshots: s.snapshots,
		Domain: s.settings().Server.Domain, Secrets: s.secretNames, Events: s.events.recent, Log: s.log,
	})
	if err != nil {
		return nil, err
	}
	if tcp, ok := addr.(*net.TCPAddr); ok && tcp.IP.IsLoopback() {
		// Browsers and curl resolve every name below localhost to the loopback address.
		out.SetDomain(fmt.Sprintf("localhost:%d", tcp.Port))
	}
	out.events = s.events.Subscribe(event.Filter{Kinds: []event.Kind{event.WorkspaceState}}, nil)
	go func() {
		defer close(out.done)
		for e := range out.events.C() {
			if e.Fields[event.FieldTo] == string(registry.Destroyed) {
				out.envd.Forget(e.Workspace)
			}
		}
	}()
	return out, nil
}

// secretNames returns the names of the secrets of the principal's tenant, or of the shared ones.
func (s *System) secretNames(ctx context.Context) ([]string, error) {
	if tenant := auth.Tenant(ctx); tenant != "" {
		return s.secrets.Names(ctx, tenants.Scope(tenant))
	}
	return s.secrets.Names(ctx, "")
}

// before returns a handler that answers traffic to sandboxes, and passes everything else on to next.
func (e *e2bServer) before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if e.IsTraffic(r) {
			e.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// over returns a handler that passes everything else on to next.
func (e *e2bServer) over(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if e.Handles(r) {
			e.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// close ends streams and builds, and waits for them.
func (e *e2bServer) close(ctx context.Context) error {
	e.envd.Drain()
	err := e.Close(ctx)
	if werr := e.envd.Close(ctx); err == nil {
		err = werr
	}
	e.events.Close()
	<-e.done
	return err
}
