package evals

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	"github.com/gofrs/flock"

	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/config"
	"github.com/croft-run/croft/internal/daemon/datadir"
	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/secret"
	"github.com/croft-run/croft/workspace/driver"
)

// dirName is the name of the directory of evaluations in the data directory.
const dirName = "eval"

// Sandboxes are the sandbox provider of one evaluation, with a directory of its own.
// Its workspaces are many and short-lived, so they are not in the registry. A flock
// beside the directory shows that the process lives; the next evaluation removes
// directories without a holder of the lock.
type Sandboxes struct {
	Provider *sandbox.Provider

	dir  string
	lock *flock.Flock
}

// Config configures Sandboxes.
type Config struct {
	Settings     *config.Config                      // with the data directory
	Own          []string                            // directories that this evaluation may use besides hostRoots: of its suite and its results
	Events       event.Sink                          // gets the requests to the network; may be nil
	LocalHandler func(workspace string) http.Handler // serves the programs in a workspace, at LocalURL; nil is nothing
	Log          *slog.Logger                        // nil is silent
}

// Open opens the sandbox provider of an evaluation, and removes the directories of
// crashed ones.
func Open(ctx context.Context, cfg Config) (*Sandboxes, error) {
	data, err := datadir.Prepare(cfg.Settings.Data)
	if err != nil {
		return nil, err
	}
	root := filepath.Join(data, dirName)
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, fmt.Errorf("app: make %s: %w: %w", root, fault.Of(err), err)
	}
	sweep(ctx, root, cfg.Log)
	g := &Sandboxes{dir: filepath.Join(root, driver.NewID())}
	g.lock = flock.New(lockPath(g.dir))
	if ok, err := g.lock.TryLock(); err != nil || !ok {
		return nil, fmt.Errorf("app: lock %s: %w: %w", g.dir, fault.Unavailable, err)
	}
	if err := os.Mkdir(g.dir, 0o700); err != nil { // under the lock: an unlocked directory counts as crashed
		return nil, fmt.Errorf("app: make %s: %w: %w", g.dir, fault.Of(err), err)
	}
	secrets, err := secret.New(&secret.Options{Shared: secret.Set{Prefix: cfg.Settings.Secrets.Env, Dir: cfg.Settings.Secrets.Dir}})
	if err != nil {
		return nil, errors.Join(err, g.Close(ctx))
	}
	roots := cfg.Settings.HostRoots
	if len(roots) > 0 {
		roots = slices.Concat(roots, cfg.Own)
	}
	g.Provider, err = sandbox.New(&sandbox.Config{
		Root: filepath.Join(g.dir, "ws"), Cache: filepath.Join(data, "sandbox"), Forbidden: []string{data}, Roots: roots, Log: cfg.Log,
		Secrets: secrets, Credentials: cfg.Settings.Credentials(), Upstream: cfg.Settings.Network.Proxy.Egress(), Events: cfg.Events, LocalHandler: cfg.LocalHandler,
	})
	if err != nil {
		return nil, errors.Join(err, g.Close(ctx))
	}
	return g, nil
}

// lockPath is beside the directory, since the directory is removed under the lock.
func lockPath(dir string) string { return dir + ".lock" }

// Close destroys the remaining workspaces and removes the directory.
func (g *Sandboxes) Close(ctx context.Context) error {
	var errs []error
	if g.Provider != nil {
		errs = append(errs, g.Provider.Sweep(context.WithoutCancel(ctx), nil), g.Provider.Close())
	}
	errs = append(errs, files.RemoveTree(g.dir), os.Remove(lockPath(g.dir)), g.lock.Close())
	return errors.Join(errs...)
}

// sweep removes the directories of crashed evaluations.
func sweep(ctx context.Context, root string, log *slog.Logger) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return // the next call fails with the same error
	}
	for _, e := range entries {
		if !driver.ValidID(e.Name()) {
			continue
		}
		dir := filepath.Join(root, e.Name())
		lock := flock.New(lockPath(dir))
		if ok, err := lock.TryLock(); err != nil || !ok {
			continue // its process lives
		}
		p, err := sandbox.New(&sandbox.Config{Root: filepath.Join(dir, "ws"), Log: log})
		if err == nil {
			err = errors.Join(p.Sweep(ctx, nil), p.Close(), files.RemoveTree(dir), os.Remove(lockPath(dir)))
		}
		if err != nil && log != nil && !errors.Is(err, fs.ErrNotExist) {
			log.Warn("remove the directory of a crashed evaluation", "dir", dir, "error", err)
		}
		lock.Close() //nolint:errcheck // the lock ends with the descriptor
	}
}
