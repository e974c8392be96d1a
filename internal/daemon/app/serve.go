package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/config"
	"github.com/croft-run/croft/internal/daemon/datadir"
	"github.com/croft-run/croft/internal/server/httplog"
	"github.com/croft-run/croft/internal/server/page"
	"github.com/croft-run/croft/internal/server/replica"
	"github.com/croft-run/croft/internal/sleep"
	"github.com/croft-run/croft/internal/web"
)

// Listen listens on addr, which CheckAddr has accepted.
func Listen(ctx context.Context, addr string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	var unknown *net.DNSError
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		err = fmt.Errorf("app: listen on %s: %w: another program uses the port", addr, fault.AlreadyExists)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		err = fmt.Errorf("app: listen on %s: %w: this host has no such address", addr, fault.InvalidArgument)
	case errors.Is(err, syscall.EACCES):
		err = fmt.Errorf("app: listen on %s: %w: the port is privileged", addr, fault.PermissionDenied)
	case errors.As(err, &unknown):
		err = fmt.Errorf("app: listen on %s: %w: unknown host %q", addr, fault.InvalidArgument, unknown.Name)
	case err != nil:
		return nil, fmt.Errorf("app: listen on %s: %w: %w", addr, fault.InvalidArgument, err)
	}
	return l, fault.Advise(err, "choose one with --addr")
}

// Lock takes the flock for serving the data directory. If another process has it, the
// error is AlreadyExists with its process id.
func (s *System) Lock() (unlock func(), err error) { return datadir.Lock(s.Dir) }

// Serve answers on l until ctx ends, and then stops in order. Meanwhile the registry
// sweeps leftovers, renews leases and expires workspaces, and once an hour garbage is
// collected; failures of these are only logged. If the data directory is removed or
// replaced, Serve stops with an error. Serve closes l. The system stays open.
func (s *System) Serve(ctx context.Context, l net.Listener) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	if err := s.CheckToken(l.Addr()); err != nil {
		return errors.Join(err, l.Close())
	}
	if err := s.checkBucketAccess(ctx); err != nil {
		return errors.Join(err, l.Close())
	}
	// Requests may come as soon as the other replicas see this one: the listener queues them.
	if err := s.Registry.Join(ctx); err != nil {
		return errors.Join(err, l.Close())
	}
	sandboxes, err := s.openE2B(ctx, l.Addr())
	if err != nil {
		return errors.Join(err, l.Close())
	}
	ui, err := s.openPage()
	if err != nil {
		return errors.Join(err, l.Close(), withTimeout(ctx, requestsTimeout, sandboxes.close))
	}
	s.events.serving.Store(true)
	s.keepWarm(ctx, sandboxes)
	background, stop := context.WithCancel(ctx)
	defer stop()
	ran := make(chan error, 1)
	go func() { ran <- s.Registry.Run(background) }()
	var collecting sync.WaitGroup
	collecting.Go(func() { s.GC.Run(background) })
	var removed error
	collecting.Go(func() {
		s.watchDataDir(background, func(cause error) {
			removed = cause
			end(cause)
		})
	})

	server := s.newHTTPServer(ctx, s.cluster.acceptForwarded(s.observeRequests(sandboxes.before(ui.Over(sandboxes.over(s.API))))))
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()

	var errs []error
	select {
	case <-ctx.Done():
		s.API.Unready()
		time.Sleep(s.drainDelay)
		s.API.Drain()
		s.agents.drain()
		sandboxes.envd.Drain()
		s.cluster.endForwarding()
		if err := withTimeout(ctx, requestsTimeout, server.Shutdown); err != nil {
			s.log.Warn("requests were cut off", "error", err)
			errs = append(errs, server.Close())
		}
		if err := withTimeout(ctx, requestsTimeout, s.API.Wait); err != nil {
			s.log.Warn("connections were cut off", "error", err)
		}
		<-served
	case err := <-served:
		errs = append(errs, err)
	}
	errs = append(errs, withTimeout(ctx, requestsTimeout, sandboxes.close), withTimeout(ctx, stepTimeout, s.evals.Close))
	stop()
	collecting.Wait()
	if err := <-ran; err != nil && !errors.Is(err, context.Canceled) {
		errs = append(errs, err)
	}
	if removed != nil { // what else failed follows from it
		return removed
	}
	if err := errors.Join(errs...); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// observeRequests adds request ids, the log of requests, metrics and traces.
func (s *System) observeRequests(next http.Handler) http.Handler {
	cfg := httplog.Config{Log: s.log}
	if s.telemetry != nil {
		next, cfg.Observe = s.telemetry.Trace(next), s.telemetry.Observe
	}
	return httplog.New(next, cfg)
}

// minTokenLength is the minimum length of a token beyond loopback, against guessing.
const minTokenLength = 16

// CheckToken refuses a token that is too short for an address beyond loopback.
func (s *System) CheckToken(addr net.Addr) error {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || tcp.IP.IsLoopback() || len(s.Token) >= minTokenLength {
		return nil
	}
	return fmt.Errorf("app: serve on %s: %w: beyond loopback the token needs at least %d characters, and this one has %d",
		addr, fault.InvalidArgument, minTokenLength, len(s.Token))
}

// dataDirInterval is the time between checks of a server whether its data directory exists.
const dataDirInterval = time.Second

// checkDataDir returns an error if the data directory was removed or replaced since it was
// opened: what is written to its path now would belong to no record.
func (s *System) checkDataDir() error {
	info, err := os.Lstat(filepath.Join(s.Dir, datadir.VersionFile))
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(info, s.marker) {
		return fmt.Errorf("app: %w: the data directory was removed or replaced while it was in use; start croft again", fault.Unavailable)
	}
	return nil // an error of another kind may be over soon
}

// watchDataDir calls stop when the data directory was removed or replaced. It returns when
// ctx ends.
func (s *System) watchDataDir(ctx context.Context, stop func(cause error)) {
	for sleep.For(ctx, dataDirInterval) == nil {
		if err := s.checkDataDir(); err != nil {
			stop(fmt.Errorf("app: serve %s: %w", s.Dir, err))
			return
		}
	}
}

// key returns a secret of the data directory. In a cluster it is derived from the secret of the cluster
// for the purpose, since the replicas accept each other's cookies and access tokens.
func (s *System) key(purpose, file string) (string, error) {
	if s.cluster != nil {
		return string(replica.Derive(s.cluster.secret, purpose)), nil
	}
	return datadir.SecretFile(s.Dir, file)
}

// openPage returns the server of the page.
func (s *System) openPage() (*page.Server, error) {
	key, err := s.key("page", datadir.PageKeyFile)
	if err != nil {
		return nil, err
	}
	assets, err := fs.Sub(web.Assets, "dist")
	if err != nil {
		return nil, fmt.Errorf("app: the page: %w: %w", fault.Internal, err)
	}
	file := s.settings().File()
	if file == filepath.Join(s.Dir, config.FileName) {
		file = "" // a command finds it by the data directory
	}
	return page.New(page.Config{Guard: s.guard, Key: key, Assets: assets, Data: s.Dir, File: file, Audit: s.auditSink(), Log: s.log})
}
