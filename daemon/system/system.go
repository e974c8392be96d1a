package system

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/croft-run/croft/api"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/provider/all"
	"github.com/croft-run/croft/provider/remote"
	"github.com/croft-run/croft/registry"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// Config says what to put together. Its zero value is a croft on the default
// data directory.
type Config struct {
	DataDir   string            // "" is DefaultDataDir
	StoreURL  string            // "" is SQLite in the data directory
	Providers []driver.Provider // beyond those of provider/all
	Token     string            // "" is the one of the data directory
	Hosts     []string          // names of this host that requests may be for
	Version   string            // of the program
	Log       *slog.Logger      // nil is silent
}

// How long the steps of shutting down may take.
const (
	requestsBound = 10 * time.Second
	registryBound = 10 * time.Second
)

// A System is an open data directory with all that works on it.
type System struct {
	Dir      string // absolute
	Token    string
	Mux      *workspace.Mux
	Registry *registry.Registry
	API      *api.Server

	log    *slog.Logger
	events *events
	store  registry.Store
	open   []io.Closer // providers that hold something open

	mu     sync.Mutex
	inside *inside // +checklocks:mu
	closed bool    // +checklocks:mu
}

// TokenPath returns where the token of the data directory is kept.
func (s *System) TokenPath() string { return filepath.Join(s.Dir, tokenFile) }

// Open opens the data directory, making it where it is missing.
func Open(ctx context.Context, cfg Config) (*System, error) {
	if cfg.DataDir == "" {
		dir, err := DefaultDataDir()
		if err != nil {
			return nil, err
		}
		cfg.DataDir = dir
	}
	if cfg.Token != "" && strings.TrimSpace(cfg.Token) == "" {
		return nil, fmt.Errorf("system: token: %w: it is blank", fault.InvalidArgument)
	}
	dir, err := prepare(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	s := &System{Dir: dir, Token: strings.TrimSpace(cfg.Token), log: cfg.Log}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.Token == "" {
		if s.Token, err = loadToken(dir); err != nil {
			return nil, err
		}
	}
	if err := s.assemble(ctx, cfg); err != nil {
		return nil, err
	}
	return s, nil
}

// assemble makes the parts, from the bottom up.
func (s *System) assemble(ctx context.Context, cfg Config) error {
	providers, err := s.providers(cfg)
	if err != nil {
		return err
	}
	s.Mux = workspace.NewMux(providers...)
	url := cfg.StoreURL
	if url == "" {
		url = "sqlite:" + filepath.Join(s.Dir, storeFile)
	}
	if s.store, err = registry.OpenStore(ctx, url); err != nil {
		return errors.Join(err, s.closeProviders())
	}
	if s.events, err = openEvents(s.Dir, s.log); err != nil {
		return errors.Join(err, s.closeProviders(), s.store.Close())
	}
	ground, err := newGround(ctx, s.Dir, s.store, s.log)
	if err != nil {
		return errors.Join(err, s.events.close(), s.closeProviders(), s.store.Close())
	}
	if s.Registry, err = registry.New(ctx, s.store, s.Mux, &registry.Options{Log: s.log, Events: s.events, Ground: ground}); err != nil {
		return errors.Join(err, s.events.close(), s.closeProviders(), s.store.Close())
	}
	s.API, err = api.New(api.Config{
		Registry: s.Registry, Mux: s.Mux, Token: s.Token, Hosts: lower(cfg.Hosts), Version: cfg.Version, Log: s.log,
		Events: s.events.Stream, Recent: s.events.recent, Levels: s.levels,
	})
	if err != nil {
		return errors.Join(err, s.events.close(), s.closeProviders(), s.store.Close())
	}
	s.events.announce(ctx, s.API.Announce)
	return nil
}

// providers returns ours and the caller's; of one kind there may be one.
func (s *System) providers(cfg Config) ([]driver.Provider, error) {
	providers, err := all.Providers(all.Config{Data: s.Dir, Log: s.log})
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, p := range append(providers, cfg.Providers...) {
		if seen[p.Kind()] {
			return nil, fmt.Errorf("system: two providers of kind %q: %w", p.Kind(), fault.AlreadyExists)
		}
		seen[p.Kind()] = true
		if c, ok := p.(io.Closer); ok {
			s.open = append(s.open, c)
		}
	}
	return append(providers, cfg.Providers...), nil
}

func lower(names []string) []string {
	var out []string
	for _, n := range names {
		out = append(out, strings.ToLower(n))
	}
	return out
}

// An inside is the API served within the process.
type inside struct {
	client   *remote.Client
	server   *http.Server
	listener *pipeListener
	done     chan struct{}
}

// Client returns a client of this very system, without a network.
func (s *System) Client(ctx context.Context) (*remote.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fmt.Errorf("system: %w: it is closed", fault.WrongState)
	}
	if s.inside != nil {
		return s.inside.client, nil
	}
	l := newPipeListener()
	client, err := remote.NewClient(remote.Config{
		URL: "http://localhost", Token: s.Token, Log: s.log,
		Transport: &http.Transport{DialContext: l.Dial, MaxIdleConnsPerHost: 8, DisableCompression: true},
	})
	if err != nil {
		return nil, err
	}
	in := &inside{client: client, listener: l, server: s.server(ctx), done: make(chan struct{})}
	go func() {
		defer close(in.done)
		in.server.Serve(l) //nolint:errcheck // it ends when the listener is closed
	}()
	s.inside = in
	return client, nil
}

// close ends the requests under way and waits for the server.
func (in *inside) close(ctx context.Context) error {
	in.client.Close()
	err := in.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, in.server.Close())
	}
	<-in.done
	return err
}

func (s *System) server(ctx context.Context) *http.Server {
	return &http.Server{
		Handler:           s.API,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    1 << 20,
		// OPTIONS * is a request as any other, and wants the token.
		DisableGeneralOptionsHandler: true,

		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
		// Requests end in their own time; shutting down bounds it.
		BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
	}
}

// Close shuts the system down in order. Closing twice is closing once.
func (s *System) Close(ctx context.Context) error {
	s.mu.Lock()
	in, done := s.inside, s.closed
	s.inside, s.closed = nil, true
	s.mu.Unlock()
	if done {
		return nil
	}
	s.API.Drain()
	var errs []error
	if in != nil {
		errs = append(errs, bounded(ctx, requestsBound, in.close))
	}
	errs = append(errs, bounded(ctx, requestsBound, s.API.Wait))
	s.events.quiet()
	errs = append(errs, bounded(ctx, registryBound, s.Registry.Shutdown), s.closeProviders(), s.store.Close(), s.events.close())
	return errors.Join(errs...)
}

// closeProviders closes those that hold something open.
func (s *System) closeProviders() error {
	var errs []error
	for _, p := range s.open {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}

// bounded runs a step of shutting down with a bound of its own, also where the
// context has ended: that is why we shut down.
func bounded(ctx context.Context, limit time.Duration, step func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	return step(ctx)
}
