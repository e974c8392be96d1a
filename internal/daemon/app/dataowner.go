package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/atomicfile"
	"github.com/croft-run/croft/internal/flockfile"
	"github.com/croft-run/croft/registry"
	"github.com/croft-run/croft/workspace/driver"
)

const (
	ownerFile = "store-id"
	ownerLock = "store-id.lock"

	// unknownStore stands in the file for a store whose id is not known.
	unknownStore = "unknown"
)

// dataDirOwner implements registry.DataDirOwner. The file store-id has the id of every
// registry store with workspaces in the directory, one on a line. A flock on
// store-id.lock excludes sweeping while a workspace is opened, also between stores.
type dataDirOwner struct {
	dir       string
	providers []driver.Provider
	fresh     bool // the store had no records of this node when it was opened
	foreign   bool // the directory was another store's when it was opened
}

// newDataDirOwner claims a directory without owner for the store. An empty store can't
// own existing workspaces, nor can one with records of other nodes alone, so the owner is then
// unknown. An error of writing is only
// logged; the next call that needs the owner tries again.
func newDataDirOwner(ctx context.Context, dir, node string, providers []driver.Provider, store registry.Store, log *slog.Logger) (*dataDirOwner, error) {
	g := &dataDirOwner{dir: dir, providers: providers}
	stores, err := g.readStores()
	if err != nil || slices.Equal(stores, []string{store.ID()}) {
		return g, err
	}
	recs, err := store.List(ctx, registry.Filter{})
	if err != nil {
		return nil, err
	}
	if node == "" { // else the node has its own directory, see node-id
		if err := g.checkStore(ctx, store.ID(), recs); err != nil {
			return nil, err
		}
	}
	g.fresh = !slices.ContainsFunc(recs, func(rec registry.Record) bool { return rec.Node == "" || rec.Node == node })
	if len(stores) > 0 {
		g.foreign = !slices.Contains(stores, store.ID()) && !slices.Contains(stores, unknownStore)
		return g, nil
	}
	leave, err := g.lock(ctx, true)
	if err == nil {
		defer leave()
		_, err = g.claim(ctx, store.ID())
	}
	if err != nil {
		log.Warn("claim the data directory", "error", err)
	}
	return g, nil
}

// checkStore refuses a store whose workspaces are in another data directory: here each of them would
// be found gone, and be marked failed for every process of the store. The store is recorded in a
// directory before its first workspace is made there, so recs are listed before the file is read. A
// directory with workspaces of an unknown store may be the right one.
func (g *dataDirOwner) checkStore(ctx context.Context, store string, recs []registry.Record) error {
	at := slices.IndexFunc(recs, func(rec registry.Record) bool {
		return rec.Node == "" && rec.Ref != nil && rec.State != registry.Failed && g.isHere(rec.Kind)
	})
	stores, err := g.readStores()
	if at < 0 || err != nil || slices.Contains(stores, store) {
		return err
	}
	if len(stores) == 0 || slices.Contains(stores, unknownStore) {
		if held, err := g.hasWorkspaces(ctx); held || err != nil {
			return err
		}
	}
	return fmt.Errorf("app: data directory %s: %w: the store has workspaces in another data directory, such as %s; nothing was changed. "+
		"Name that directory: --data, CROFT_DATA, or data in croft.yaml. Servers on several hosts share a store as a cluster. If that directory is lost for good, write %s into %s: its workspaces then fail when they are used",
		g.dir, fault.WrongState, recs[at].ID, store, filepath.Join(g.dir, ownerFile))
}

// foreignKeys refuses to make keys in a store that the server of the data directory does not use: it
// would know none of them.
type foreignKeys struct {
	auth.KeyStore
	dir, store string
}

// InsertKey refuses.
func (k foreignKeys) InsertKey(context.Context, auth.Key, string) error {
	return fmt.Errorf("app: make a key: %w: data directory %s belongs to another store, and a server with that store would not know the key; "+
		"name the configuration of the server with --config, CROFT_CONFIG or CROFT_STORE. If the store of the command is the right one, write %s into %s",
		fault.WrongState, k.dir, k.store, filepath.Join(k.dir, ownerFile))
}

// keyStore returns where keys are stored. A server uses its own store, a command perhaps another one
// than the server of the directory.
func (s *System) keyStore(owner *dataDirOwner, server bool) auth.KeyStore {
	if owner.foreign && !server {
		return foreignKeys{s.store, s.Dir, s.store.ID()}
	}
	return s.store
}

// isHere reports whether the workspaces of a kind outlive a process, in the data directory.
func (g *dataDirOwner) isHere(kind string) bool {
	at := slices.IndexFunc(g.providers, func(p driver.Provider) bool { return p.Kind() == kind })
	if at < 0 {
		return false
	}
	f := g.providers[at].Features()
	return f.HasWorkspaces != nil && !f.Portable
}

// LockShared adds the store to the owners and takes the lock shared.
func (g *dataDirOwner) LockShared(ctx context.Context, store string) (func(), error) {
	if stores, err := g.readStores(); err != nil {
		return nil, err
	} else if !slices.Contains(stores, store) {
		if err := g.addStore(ctx, store); err != nil {
			return nil, err
		}
	}
	return g.lock(ctx, false)
}

func (g *dataDirOwner) addStore(ctx context.Context, store string) error {
	leave, err := g.lock(ctx, true)
	if err != nil {
		return err
	}
	defer leave()
	stores, err := g.claim(ctx, store)
	if err != nil || slices.Contains(stores, store) {
		return err
	}
	return g.writeStores(append(stores, store))
}

// LockExclusive takes the lock exclusively. It refuses if another store has workspaces
// in the directory: Sweep would remove them.
func (g *dataDirOwner) LockExclusive(ctx context.Context, store string) (func(), error) {
	leave, err := g.lock(ctx, true)
	if err != nil {
		return nil, err
	}
	stores, err := g.claim(ctx, store)
	if err == nil && !slices.Equal(stores, []string{store}) {
		err = fmt.Errorf("app: data directory %s: %w: it has workspaces of store %s, and this is store %s; nothing is removed. "+
			"Restore that store, or move the workspaces away, or give them up: write only %s into %s",
			g.dir, fault.WrongState, strings.Join(withoutStore(stores, store), ", "), store, store, filepath.Join(g.dir, ownerFile))
	}
	if err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}

func withoutStore(stores []string, store string) []string {
	return slices.DeleteFunc(slices.Clone(stores), func(s string) bool { return s == store })
}

// claim returns the owners of the directory. A directory without workspaces becomes
// the store's. The caller holds the lock.
func (g *dataDirOwner) claim(ctx context.Context, store string) ([]string, error) {
	stores, err := g.readStores()
	if err != nil || slices.Equal(stores, []string{store}) {
		return stores, err
	}
	held, err := g.hasWorkspaces(ctx)
	switch {
	case err != nil:
		return nil, err
	case !held, len(stores) == 0 && !g.fresh:
		stores = []string{store}
	case len(stores) == 0:
		stores = []string{unknownStore}
	default:
		return stores, nil
	}
	return stores, g.writeStores(stores)
}

// hasWorkspaces reports whether any provider has a workspace.
func (g *dataDirOwner) hasWorkspaces(ctx context.Context) (bool, error) {
	for _, p := range g.providers {
		holds := p.Features().HasWorkspaces
		if holds == nil {
			continue
		}
		if has, err := holds(ctx); err != nil || has {
			return has, hostError("look for workspaces of kind "+p.Kind(), err)
		}
	}
	return false, nil
}

func (g *dataDirOwner) readStores() ([]string, error) {
	data, err := os.ReadFile(filepath.Join(g.dir, ownerFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return strings.Fields(string(data)), hostError("read the owner of the data directory", err)
}

// writeStores replaces the file atomically.
func (g *dataDirOwner) writeStores(stores []string) error {
	path := filepath.Join(g.dir, ownerFile)
	err := atomicfile.Write(path, []byte(strings.Join(stores, "\n")+"\n"), atomicfile.Options{Durable: true, Temp: path + ".new"})
	return hostError("write the owner of the data directory", err)
}

func (g *dataDirOwner) lock(ctx context.Context, exclusive bool) (func(), error) {
	take := flockfile.RLock
	if exclusive {
		take = flockfile.Lock
	}
	l, err := take(ctx, filepath.Join(g.dir, ownerLock))
	if err != nil {
		return nil, hostError("lock the owner of the data directory", err)
	}
	return func() { _ = l.Close() }, nil // closing the file ends the lock even with an error
}

// hostError gives an error of the operating system its code.
func hostError(what string, err error) error {
	if err == nil {
		return nil
	}
	code := fault.Of(err)
	if code == fault.Internal {
		code = fault.Unavailable
	}
	return fmt.Errorf("app: %s: %w: %w", what, code, err)
}
