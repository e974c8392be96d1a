package app

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/wrap/limit"
	"github.com/croft-run/croft/internal/wrap/pool"
	"github.com/croft-run/croft/internal/wrap/record"
	"github.com/croft-run/croft/internal/wrap/retry"
	"github.com/croft-run/croft/workspace/driver"
)

// wrapProvider adds the wrappers that the configuration has for a provider's kind: the
// pool innermost, since it opens workspaces of its own, and the record outermost, since
// it logs the original calls.
func (s *System) wrapProvider(ctx context.Context, p driver.Provider) (driver.Provider, error) {
	cfg, ok := s.settings().Wrapped(p.Kind())
	if !ok {
		return p, nil
	}
	kind := p.Kind()
	if cfg.Pool.Size > 0 {
		pooled, err := pool.Wrap(ctx, p, pool.Options{
			Dir: filepath.Join(s.Dir, "pool", kind), Log: s.log,
			Size: int(cfg.Pool.Size), Shapes: int(cfg.Pool.Shapes), Idle: time.Duration(cfg.Pool.Idle), Enabled: s.poolEnabled(p),
		})
		if err != nil {
			return nil, err
		}
		// The pool is drained before its provider is closed.
		s.open = append([]io.Closer{closerFunc(func() error { pooled.Drain(); return nil })}, s.open...)
		p = pooled
	}
	if cfg.Retry.Retries > 0 {
		again, err := retry.Wrap(p, retry.Options{Retries: int(cfg.Retry.Retries), For: time.Duration(cfg.Retry.For)})
		if err != nil {
			return nil, err
		}
		p = again
	}
	if b := cfg.Limit; b.Workspaces > 0 || b.Calls > 0 || b.Rate > 0 {
		bounded, err := limit.Wrap(p, limit.Options{
			Workspaces: int(b.Workspaces), Calls: int(b.Calls), Rate: float64(b.Rate), Wait: time.Duration(b.Wait),
		})
		if err != nil {
			return nil, err
		}
		p = bounded
	}
	if cfg.Record == "" {
		return p, nil
	}
	path := cfg.Record
	if !filepath.IsAbs(path) {
		path = filepath.Join(s.Dir, path)
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("app: open the record of provider %s: %w: %w", kind, fault.Of(err), err)
	}
	s.open = append(s.open, file)
	return record.New(file).Wrap(p), nil
}

// keepWarm fills the pools of the templates that the configuration names. A template that can't
// be used is logged: the server serves the others.
func (s *System) keepWarm(ctx context.Context, sandboxes *e2bServer) {
	for _, kind := range s.Mux.Kinds() {
		cfg, _ := s.settings().Wrapped(kind)
		for _, name := range cfg.Pool.Templates {
			if err := s.keepTemplate(ctx, sandboxes, kind, name); err != nil {
				s.log.WarnContext(ctx, "no sandboxes are kept warm", "template", name, "error", err)
			}
		}
	}
}

func (s *System) keepTemplate(ctx context.Context, sandboxes *e2bServer, kind, template string) error {
	spec, err := sandboxes.Spec(ctx, template)
	if err != nil {
		return err
	}
	if spec.Kind != kind {
		return fmt.Errorf("app: %w: sandboxes are opened by provider %s, and the pool is that of %s", fault.InvalidArgument, spec.Kind, kind)
	}
	p, err := s.Mux.Provider(kind)
	if err != nil {
		return err
	}
	pooled, ok := driver.Find[*pool.Provider](p)
	if !ok {
		return fmt.Errorf("app: provider %s: %w: its pool has no size", kind, fault.InvalidArgument)
	}
	return pooled.Keep(spec)
}

// closerFunc is a function as an io.Closer.
type closerFunc func() error

func (c closerFunc) Close() error { return c() }
