package app

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"path/filepath"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/server/e2b"
	"github.com/croft-run/croft/internal/server/e2b/envd"
	"github.com/croft-run/croft/internal/server/replica"
	"github.com/croft-run/croft/provider/all"
	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/registry"
	"github.com/croft-run/croft/workspace/driver"
)

// e2bServer is the server of E2B's API, with what runs in its background.
type e2bServer struct {
	*e2b.Server
	envd   *envd.Server
	events *event.Subscription
	done   chan struct{} // closed when the events have ended
}

// e2bKeyFile has the secret from which tokens of sandboxes are derived.
const e2bKeyFile = "e2b.key"

// openE2B opens the server of E2B's API for the address that it is served on.
func (s *System) openE2B(ctx context.Context, addr net.Addr) (*e2bServer, error) {
	key, err := s.e2bKey()
	if err != nil {
		return nil, err
	}
	out := &e2bServer{envd: envd.New(envd.Config{Log: s.log}), done: make(chan struct{})}
	out.Server, err = e2b.New(ctx, e2b.Config{
		Registry: s.Registry, Envd: out.envd, Admit: s.admitSandbox, AdmitPolicy: s.admitPolicy,
		Guard: s.guard, Audit: s.auditSink(), Forward: s.forwardSandbox(), Key: key, Dir: filepath.Join(s.Dir, "e2b"), Volumes: all.Volumes(s.Dir), Templates: s.templates, Snapshots: s.snapshots,
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

// e2bKey returns the key of the access tokens, which in a cluster all replicas have.
func (s *System) e2bKey() ([]byte, error) {
	if s.cluster != nil {
		return replica.Derive(s.cluster.secret, "e2b"), nil
	}
	key, err := loadSecretFile(s.Dir, e2bKeyFile)
	return []byte(key), err
}

// secretNames returns the names of the secrets of the principal's tenant, or of the shared ones.
func (s *System) secretNames(ctx context.Context) ([]string, error) {
	if tenant := auth.Tenant(ctx); tenant != "" {
		return s.secrets.Names(ctx, tenantScope+tenant)
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

// Where E2B's clients expect the home, and its user.
const (
	e2bUser = "user"
	e2bHome = "/home/user"
)

// fitLimits lowers the limits that a template asks for to those of the server's policy: E2B's API has no
// field for another policy, and its SDKs ask for sizes of E2B's machines. The sandbox's information, and
// the log of a build, have what it got.
func (s *System) fitLimits(ctx context.Context, p *driver.Policy) error {
	name, err := s.settings().TenantPolicy(auth.Tenant(ctx), "")
	if err != nil {
		return err
	}
	ceiling, err := s.settings().Policy(name)
	if err != nil {
		return err
	}
	for r, asked := range p.Limits {
		if most := ceiling.Limits[r]; most.Max > 0 && asked.BestEffort {
			p.Limits[r] = driver.Limit{Max: min(asked.Max, most.Max), BestEffort: most.BestEffort}
		}
	}
	return nil
}

// admitSandbox completes the spec of a sandbox of E2B's API. On the sandbox provider the
// workspace is the home of E2B's user.
func (s *System) admitSandbox(ctx context.Context, spec *driver.Spec) error {
	// These options are the server's own: a client of E2B's API names none.
	own := spec.Config
	spec.Config = nil
	if err := s.fitLimits(ctx, &spec.Policy); err != nil {
		return err
	}
	if err := s.admitSpec(ctx, spec, ""); err != nil {
		return err
	}
	if spec.Kind != sandbox.Kind {
		if len(own) > 0 {
			return fmt.Errorf("app: volumes and images: %w: the provider %s has none", fault.Unsupported, spec.Kind)
		}
		return nil
	}
	home, err := json.Marshal(sandbox.Options{At: e2bHome, User: e2bUser})
	if err == nil {
		own, err = mergeObjects(home, own, false)
	}
	if err == nil {
		spec.Config, err = mergeObjects(spec.Config, own, false)
	}
	return err
}
