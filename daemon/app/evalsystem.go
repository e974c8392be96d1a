package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"

	"github.com/croft-run/croft/daemon/config"
	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/host/files"
	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/secret"
	"github.com/croft-run/croft/workspace/driver"
)

// evalDir is where evaluations have their ground, in the data directory.
const evalDir = "eval"

// An EvalSystem is the ground of one evaluation: a sandbox provider with a
// directory of its own. Its workspaces are many, short-lived and nobody else's, so
// no registry knows them: the directory itself is the record, held by a lock as
// long as the process lives, and whoever evaluates next removes what a dead one
// left.
type EvalSystem struct {
	Provider driver.Provider

	provider *sandbox.Provider
	dir      string
	lock     *flock.Flock
}

// EvalConfig says how an EvalGround is put together.
type EvalConfig struct {
	Settings *config.Config                      // with the data directory
	Events   event.Sink                          // hears of requests to the outside; nil is none
	Inside   func(workspace string) http.Handler // answers what runs in a workspace, at EvalInside; nil is nothing
	Log      *slog.Logger                        // nil is silent
}

// OpenEval makes the ground of an evaluation, and removes what others left that
// are dead.
func OpenEval(ctx context.Context, cfg EvalConfig) (*EvalSystem, error) {
	data, err := prepare(cfg.Settings.Data)
	if err != nil {
		return nil, err
	}
	root := filepath.Join(data, evalDir)
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, fmt.Errorf("system: make %s: %w: %w", root, fault.Of(err), err)
	}
	sweepEvals(ctx, root, cfg.Log)
	g := &EvalSystem{dir: filepath.Join(root, driver.NewID())}
	g.lock = flock.New(lockOf(g.dir))
	if ok, err := g.lock.TryLock(); err != nil || !ok {
		return nil, fmt.Errorf("system: lock %s: %w: %w", g.dir, fault.Unavailable, err)
	}
	if err := os.Mkdir(g.dir, 0o700); err != nil { // once it is held: what is there and is not, is dead
		return nil, fmt.Errorf("system: make %s: %w: %w", g.dir, fault.Of(err), err)
	}
	secrets, err := secret.New(&secret.Options{Shared: secret.Set{Prefix: cfg.Settings.Secrets.Env, Dir: cfg.Settings.Secrets.Dir}})
	if err != nil {
		return nil, errors.Join(err, g.Close(ctx))
	}
	g.provider, err = sandbox.New(&sandbox.Config{
		Root: filepath.Join(g.dir, "ws"), Forbidden: []string{data}, Roots: cfg.Settings.HostRoots, Log: cfg.Log,
		Secrets: secrets, Credentials: credentials(cfg.Settings), Events: cfg.Events, LocalHandler: cfg.Inside,
	})
	if err != nil {
		return nil, errors.Join(err, g.Close(ctx))
	}
	g.Provider = g.provider
	return g, nil
}

// lockOf is beside the directory, which goes while it is held.
func lockOf(dir string) string { return dir + ".lock" }

// Close ends all that is left in the ground, and removes it.
func (g *EvalSystem) Close(ctx context.Context) error {
	var errs []error
	if g.provider != nil {
		errs = append(errs, g.provider.Sweep(context.WithoutCancel(ctx), nil), g.provider.Close())
	}
	errs = append(errs, files.RemoveTree(g.dir), os.Remove(lockOf(g.dir)), g.lock.Close())
	return errors.Join(errs...)
}

// sweepEvals removes the grounds of processes that are dead.
func sweepEvals(ctx context.Context, root string, log *slog.Logger) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return // it shows in what comes next
	}
	for _, e := range entries {
		if !driver.ValidID(e.Name()) {
			continue
		}
		dir := filepath.Join(root, e.Name())
		lock := flock.New(lockOf(dir))
		if ok, err := lock.TryLock(); err != nil || !ok {
			continue // it lives
		}
		p, err := sandbox.New(&sandbox.Config{Root: filepath.Join(dir, "ws"), Log: log})
		if err == nil {
			err = errors.Join(p.Sweep(ctx, nil), p.Close(), files.RemoveTree(dir), os.Remove(lockOf(dir)))
		}
		if err != nil && log != nil && !errors.Is(err, fs.ErrNotExist) {
			log.Warn("system: remove what an evaluation left", "dir", dir, "error", err)
		}
		lock.Close() //nolint:errcheck // the lock ends with the descriptor
	}
}
