package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gocloud.dev/blob"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/background"
	"github.com/croft-run/croft/internal/daemon/admission"
	"github.com/croft-run/croft/internal/daemon/backup"
	"github.com/croft-run/croft/internal/daemon/config"
	"github.com/croft-run/croft/internal/daemon/datadir"
	"github.com/croft-run/croft/internal/daemon/evals"
	"github.com/croft-run/croft/internal/daemon/gc"
	"github.com/croft-run/croft/internal/daemon/images"
	"github.com/croft-run/croft/internal/daemon/telemetry"
	"github.com/croft-run/croft/internal/daemon/tenants"
	"github.com/croft-run/croft/internal/egress"
	"github.com/croft-run/croft/internal/profile"
	"github.com/croft-run/croft/internal/server/e2b"
	"github.com/croft-run/croft/internal/server/httpguard"
	"github.com/croft-run/croft/internal/server/replica"
	"github.com/croft-run/croft/internal/server/rest"
	"github.com/croft-run/croft/internal/wrap/cmdpolicy"
	"github.com/croft-run/croft/internal/wrap/concurrency"
	"github.com/croft-run/croft/internal/wrap/interpreters"
	"github.com/croft-run/croft/interp/isolate"
	"github.com/croft-run/croft/prepare/stage"
	"github.com/croft-run/croft/provider/all"
	"github.com/croft-run/croft/registry"
	"github.com/croft-run/croft/secret"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/snapshot/template"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// Config configures a System. Its zero value uses the default data directory.
type Config struct {
	DataDir  string         // "" is that of Settings, else DefaultDataDir
	Settings *config.Config // the configuration; nil is config.Default
	StoreURL string         // "" is that of Settings, else SQLite in the data directory
	// Providers are used in addition to those of provider/all. One whose feature
	// ReplacesBuiltIn is set is used instead of the one of its kind.
	Providers []driver.Provider
	Token     string          // "" is the one of the data directory
	Hosts     []string        // allowed names in the Host header, in addition to those of Settings
	Beyond    bool            // served beyond loopback: only listed directories of the host may be used
	Operator  bool            // requests come from the user of the data directory, not from clients of a server: they may go beyond policies, and use every provider
	Resolver  egress.Resolver // resolves the host names of requests; nil is the host's
	Version   string          // of the program

	// NoProjects leaves out the event of the project of a workspace that opens: looking for
	// it lists all directories.
	NoProjects bool

	// Secrets returns further secrets by name, beside those of the configuration; nil is
	// none. The egress proxy sends each instead of its placeholder only.
	Secrets func() map[string]Secret

	Log *slog.Logger // nil is silent

	// DrainDelay is the time between the end of the context of Serve, from when on /readyz
	// answers 503, and the end of accepting connections.
	DrainDelay time.Duration

	// Self returns croft itself as a command on the same data directory and configuration, to start
	// evaluations with; nil starts none.
	Self func(ctx context.Context, args ...string) (*exec.Cmd, error)

	// Replica makes the system a replica of the cluster of Settings, if there is one: it
	// serves requests. Without it the system is a command on the replica's data directory.
	Replica bool

	// Telemetry has the metrics and traces of a server; nil is none.
	Telemetry *telemetry.Telemetry
}

// A Secret is a text for the egress proxy to send.
type Secret struct {
	Text  string
	Plain bool // also over HTTP without TLS
}

// Time-outs of the steps of shutting down: requests, whose clients may never finish, and
// our own steps, which are cut off only if they hang.
const (
	requestsTimeout = 10 * time.Second
	stepTimeout     = 30 * time.Second
)

// A System is an open data directory with its store, providers, registry and API.
type System struct {
	Dir      string // absolute
	Token    string
	Mux      *workspace.Mux
	Registry *registry.Registry
	API      *rest.Server
	Rules    *admission.Rules
	Backups  *backup.Source
	Images   *images.Images
	GC       *gc.Collector

	Recovered []snapshot.Recovered // changes of killed processes that Open completed

	marker   fs.FileInfo // version file of the data directory
	log      *slog.Logger
	operator bool
	current  atomic.Pointer[config.Config] // see Reload
	secrets  *secret.Store
	scrub    *systemScrubber
	events   *events
	store    registry.Store
	agents   *toolServer
	guard    httpguard.Guard
	evals    *evals.Runs
	tenants  *tenants.Tenants
	node     string   // name of the node in the cluster; "" without one
	cluster  *cluster // nil if the system is no replica of a cluster

	telemetry  *telemetry.Telemetry
	background *background.Tracker // tasks that are not the registry's

	drainDelay time.Duration
	templates  *template.Catalog
	version    string
	snapshots  *snapshot.Store
	staging    *stage.DirState  // staging metadata of workspaces
	artifacts  *stage.Artifacts // of all workspaces, by their ids
	open       []io.Closer      // providers that hold something open, and what they share
	shared     []io.Closer      // buckets, which are closed after the providers
	bucket     *blob.Bucket     // of the configuration, with the snapshots; nil without one

	mu     sync.Mutex
	client *client.Client // guarded by mu until closed; of local
	local  *http.Server   // guarded by mu until closed; nil until Client
	closed bool           // guarded by mu
}

// settings returns the present configuration.
func (s *System) settings() *config.Config { return s.current.Load() }

// TokenPath returns the path of the data directory's token.
func (s *System) TokenPath() string { return filepath.Join(s.Dir, datadir.TokenFile) }

// Open opens the data directory, and creates it if missing.
func Open(ctx context.Context, cfg Config) (*System, error) {
	if cfg.Settings == nil {
		cfg.Settings = config.Default()
	}
	if cfg.DataDir == "" {
		cfg.DataDir = cfg.Settings.Data
	}
	if cfg.Token != "" && strings.TrimSpace(cfg.Token) == "" {
		return nil, fault.Advise(fmt.Errorf("app: token: %w: it is blank", fault.InvalidArgument), "give at least one character")
	}
	dir, err := datadir.Prepare(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	s := &System{Dir: dir, Token: strings.TrimSpace(cfg.Token), log: cfg.Log, operator: cfg.Operator, version: cfg.Version, telemetry: cfg.Telemetry, drainDelay: cfg.DrainDelay}
	if s.marker, err = os.Lstat(filepath.Join(dir, datadir.VersionFile)); err != nil {
		return nil, fmt.Errorf("app: data directory: %w", err)
	}
	s.current.Store(cfg.Settings)
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.Token == "" {
		if s.Token, err = datadir.Token(dir); err != nil {
			return nil, err
		}
	}
	if err := s.assemble(ctx, cfg); err != nil {
		return nil, err
	}
	return s, nil
}

// JournalsDir is the directory, in a data directory, of the journals of changes to
// directories of the user: rollbacks of workspaces in place, and applies.
func JournalsDir(data string) string { return filepath.Join(data, "ws", ".journals") }

// HostStore is the store, in a data directory, of the snapshots that undo applies to directories
// of the user.
func HostStore(data string) *snapshot.Store {
	return snapshot.Open(snapshot.Dir(filepath.Join(data, "store")), nil)
}

// assemble opens the parts, from the bottom up. If one fails, the others are closed.
func (s *System) assemble(ctx context.Context, cfg Config) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, s.closeProviders(), s.closeStores())
		}
	}()
	if s.scrub, err = newSystemScrubber(s.settings()); err != nil {
		return err
	}
	s.log = slog.New(scrubHandler{s.log.Handler(), s.scrub.text(ctx)})
	s.background = background.New(ctx, s.log)
	s.tenants = &tenants.Tenants{Settings: s.settings}
	if s.events, err = openEvents(EventsFile(s.Dir, s.settings()), s.settings().Events, s.tenants, s.log); err != nil {
		return err
	}
	s.events.Scrub(s.scrub.text(ctx))
	s.events.TenantOf(s.tenants.OfEvent(ctx))
	if s.secrets, err = s.openSecrets(ctx, cfg.Secrets); err != nil {
		return err
	}
	if s.node, err = clusterNode(s.settings().Cluster); err != nil {
		return err
	}
	if err := s.openSnapshots(ctx); err != nil {
		return err
	}
	if s.Recovered, err = snapshot.RecoverAll(ctx, JournalsDir(s.Dir), s.snapshots, HostStore(s.Dir)); err != nil {
		s.log.Warn("app: an interrupted change of a directory can't be completed", "error", err)
	}
	providers, err := s.openProviders(ctx, cfg)
	if err != nil {
		return err
	}
	s.templates = &template.Catalog{
		Store: s.snapshots, Temp: filepath.Join(s.Dir, "tmp"),
		Roots: s.hostRoots(cfg.Beyond), Forbidden: []string{s.Dir}, Transport: publicTransport(),
	}
	s.Mux = workspace.NewMux(providers...)
	if s.Rules, err = admission.New(ctx, admission.Options{
		Settings: s.settings, Operator: s.operator, Node: s.node, Mux: s.Mux, Templates: s.templates,
		Snapshots: s.snapshots, Secrets: s.secrets, CheckDataDir: s.checkDataDir,
	}); err != nil {
		return err
	}
	if s.store, err = registry.OpenStore(ctx, s.storeURL(cfg.StoreURL)); err != nil {
		return err
	}
	s.tenants.Records = s.store
	s.Backups = &backup.Source{
		Dir: s.Dir, Croft: s.version, HasBucket: s.hasBucket(), Records: s.store, Snapshots: s.snapshots, Provider: s.Mux.Provider, Log: s.log,
	}
	member, err := s.openCluster(ctx, cfg)
	if err != nil {
		return err
	}
	owner, err := newDataDirOwner(ctx, s.Dir, s.node, providers, s.store, s.log)
	if err != nil {
		return err
	}
	if s.staging, err = stage.NewDirState(filepath.Join(s.Dir, "prep")); err != nil {
		return err
	}
	if err := s.openArtifacts(ctx); err != nil {
		return err
	}
	s.Registry, err = registry.New(ctx, s.store, s.Mux, &registry.Options{
		Cluster: member, Lease: clusterLease(member),
		Log: s.log, Events: s.events, Owner: owner, MaxOpen: int(s.settings().Caps.MaxOpen), Swept: s.sweepRecords, Removed: removeRecords(s.Dir),
		Quota: s.tenants.Quota, CheckSource: s.Rules.CheckSource, Admit: s.Rules.CheckKind, HasSecret: s.scrub.hasSecret(ctx), HasSecretValue: s.scrub.hasValue(ctx), Scrub: s.scrub.text(ctx),
	})
	if err != nil {
		return err
	}
	if s.cluster != nil {
		s.cluster.registry = s.Registry
	}
	s.Images = &images.Images{Mux: s.Mux, Templates: s.templates, Snapshots: s.snapshots}
	s.GC = &gc.Collector{
		Dir: s.Dir, Settings: s.settings, InCluster: s.InCluster(), Registry: s.Registry, Snapshots: s.snapshots,
		Backups: s.Backups, Images: s.Images, Background: s.background, Log: s.log,
	}
	s.guard = httpguard.Guard{Token: s.Token, Hosts: lowercaseAll(append(s.settings().Server.Hosts, cfg.Hosts...)), Keys: auth.NewKeys(s.keyStore(owner, cfg.Replica)), Rates: &auth.Rates{Limit: s.tenants.RequestRate}, Open: &auth.Open{Limit: s.tenants.MaxConnections}, Bodies: new(httpguard.Bodies)}
	s.agents = &toolServer{system: s}
	mounts, metrics := s.agents.httpRoutes(), http.Handler(nil)
	if s.telemetry != nil {
		if err := s.telemetry.Register(systemCollector{s}); err != nil {
			return fmt.Errorf("app: metrics: %w: %w", fault.Internal, err)
		}
		metrics = s.telemetry.Handler()
	}
	s.evals = evals.NewRuns(s.Dir, s.settings, cfg.Self, s.log)
	exchange := &snapshotExchange{data: s.Dir, roots: s.hostRoots(cfg.Beyond), snapshots: s.snapshots}
	s.API, err = rest.New(rest.Config{
		Registry: s.Registry, Mux: s.Mux, Guard: s.guard, Version: cfg.Version, Log: s.log,
		Events: s.events.Stream, Recent: s.events.recent, Levels: s.isolationLevels, Admit: s.Rules.AdmitSpec, AdmitPolicy: s.Rules.AdmitPolicy, AdmitKind: s.Rules.CheckKind,
		Mounts: mounts, Forward: s.cluster.forwardRoute(), Metrics: metrics, Ready: s.readyChecks, Templates: s.templates, Snapshots: s.snapshots, Export: exchange.export, Import: exchange.fetch,
		Tenants: s.tenants.Names, QuotaOf: s.tenants.Quotas, Evals: s.evals, SandboxAnnotation: e2b.Annotation,
		Host:    rest.HostApply{Roots: func() []string { return s.settings().HostRoots }, Forbidden: s.Dir, Journals: JournalsDir(s.Dir)},
		Staging: s.staging, Artifacts: s.artifacts, Audit: s.auditSink(), Commands: func(id string) profile.Commands { return s.projectCommands("", id) },
	})
	if err != nil {
		return err
	}
	s.events.startAnnouncer(ctx, s.API, !cfg.NoProjects)
	return nil
}

// publicTransport returns a transport that connects to the public internet alone.
func publicTransport() http.RoundTripper {
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: 30 * time.Second, Control: egress.ControlPublic}).DialContext,
		ForceAttemptHTTP2: true, TLSHandshakeTimeout: 10 * time.Second, MaxIdleConns: 10, IdleConnTimeout: time.Minute,
	}
}

// storeURL returns the URL of the registry store. A SQLite path is relative to the
// data directory.
func (s *System) storeURL(url string) string {
	if url == "" {
		url = s.settings().Store.URL
	}
	return datadir.StoreURL(s.Dir, url)
}

// isSnapshotNeeded reports whether a snapshot is the origin of an existing workspace,
// which is needed to compute the workspace's changes.
func (s *System) isSnapshotNeeded(ctx context.Context, snapshot string) (bool, error) {
	recs, err := s.store.List(ctx, registry.Filter{From: snapshot})
	return len(recs) > 0, err
}

// openProviders opens Croft's providers and adds the caller's, at most one of a kind.
// Each is wrapped with the command policy and concurrency limit of the configuration.
func (s *System) openProviders(ctx context.Context, cfg Config) ([]driver.Provider, error) {
	providers, err := all.Providers(all.Config{
		Data: s.Dir, Snapshots: s.snapshots, Log: s.log, HostRoots: s.hostRoots(cfg.Beyond),
		Secrets: s.secrets, Credentials: s.credentials(cfg.Secrets), Upstream: s.settings().Network.Proxy.Egress(), Events: s.events, Resolver: cfg.Resolver,
	})
	if err != nil {
		return nil, err
	}
	for _, p := range cfg.Providers {
		if p.Features().ReplacesBuiltIn {
			providers = slices.DeleteFunc(providers, func(own driver.Provider) bool { return own.Kind() == p.Kind() })
		}
		if u, ok := p.(snapshot.Configurable); ok {
			u.SetSnapshots(s.snapshots)
		}
		if e, ok := p.(egress.Configurable); ok {
			e.SetEgress(egress.Options{Secrets: s.secrets, Credentials: s.credentials(cfg.Secrets), Upstream: s.settings().Network.Proxy.Egress(), Events: s.events, Resolver: cfg.Resolver})
		}
	}
	providers = append(providers, cfg.Providers...)
	seen := map[string]bool{}
	for _, p := range providers {
		s.open = append(s.open, p)
	}
	engine := &isolate.Engine{Cache: filepath.Join(s.Dir, "cache", "script")}
	s.open = append(s.open, closerFunc(func() error { return engine.Close(context.WithoutCancel(ctx)) }))
	var limit *concurrency.Limit
	if most := int(s.settings().Caps.MaxCommands); most > 0 {
		limit = concurrency.New(ctx, most)
		s.open = append(s.open, limit)
	}
	for i, p := range providers {
		if seen[p.Kind()] {
			return nil, fmt.Errorf("app: two providers of kind %q: %w", p.Kind(), fault.AlreadyExists)
		}
		seen[p.Kind()] = true
		if p, err = s.wrapProvider(ctx, p); err != nil {
			return nil, err
		}
		if limit != nil {
			p = limit.Wrap(p)
		}
		ruled, err := cmdpolicy.Wrap(p, s.commandPolicy(p.Kind()))
		if err != nil {
			return nil, err
		}
		providers[i] = interpreters.Wrap(ruled, interpreters.Config{Engine: engine})
	}
	return providers, nil
}

func lowercaseAll(names []string) []string {
	var out []string
	for _, n := range names {
		out = append(out, strings.ToLower(n))
	}
	return out
}

// A Local has what most commands call, within the process, and the whole API.
type Local struct {
	rest.Local
	system *System
}

// API returns a client of the whole API.
func (l Local) API(ctx context.Context) (*client.Client, error) { return l.system.Client(ctx) }

// NewLocal returns what commands call of a system in this process.
func NewLocal(s *System) Local { return Local{rest.Local{Server: s.API}, s} }

// Client returns a client of this system, over a pipe within the process.
func (s *System) Client(ctx context.Context) (*client.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fmt.Errorf("app: %w: the system is closed; open it again", fault.WrongState)
	}
	if s.client != nil {
		return s.client, nil
	}
	l := newPipeListener(ctx)
	client, err := client.NewClient(client.Config{
		URL: "http://localhost", Token: s.Token, Log: s.log,
		Transport: &http.Transport{DialContext: l.dial, MaxIdleConnsPerHost: 8, DisableCompression: true},
	})
	if err != nil {
		return nil, err
	}
	s.client, s.local = client, s.newHTTPServer(ctx, s.API)
	go s.local.Serve(l) //nolint:errcheck // it ends when Close closes the listener
	return client, nil
}

func (s *System) newHTTPServer(ctx context.Context, handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    256 << 10, // each connection may take them, also without a key
		// OPTIONS * needs the token, too.
		DisableGeneralOptionsHandler: true,

		ErrorLog:  slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
		Protocols: s.cluster.protocols(),
		HTTP2:     replica.ServerHTTP2(),
		// The end of ctx does not cancel requests; shutting down bounds them.
		BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
	}
}

// Close shuts the system down in order. Further calls do nothing.
func (s *System) Close(ctx context.Context) error {
	s.mu.Lock()
	done := s.closed
	s.closed = true
	s.mu.Unlock()
	if done {
		return nil
	}
	s.API.Drain()
	s.agents.drain()
	var errs []error
	if s.local != nil {
		s.client.Close()
		errs = append(errs, withTimeout(ctx, requestsTimeout, s.local.Shutdown), s.local.Close())
	}
	errs = append(errs, withTimeout(ctx, stepTimeout, s.API.Wait), withTimeout(ctx, stepTimeout, s.agents.close))
	s.events.stopAnnouncer()
	errs = append(errs, withTimeout(ctx, stepTimeout, s.Registry.Shutdown), s.closeProviders(), s.closeStores())
	return errors.Join(errs...)
}

// closeStores closes the buckets, the store and the events file.
func (s *System) closeStores() error {
	var errs []error
	for _, b := range s.shared {
		errs = append(errs, b.Close())
	}
	if s.store != nil {
		errs = append(errs, s.store.Close())
	}
	if s.events != nil {
		errs = append(errs, s.events.close())
	}
	return errors.Join(errs...)
}

// closeProviders closes the providers and what they share.
func (s *System) closeProviders() error {
	var errs []error
	for _, p := range s.open {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}

// withTimeout runs a step of shutting down with its own time-out, even if ctx has ended.
func withTimeout(ctx context.Context, limit time.Duration, step func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	return step(ctx)
}
