// Package all lists the providers that a croft has by itself, built over one data
// directory. The list is a function that is called, not a side effect of an
// import: who wants others, or fewer, writes a list of their own.
package all

import (
	"context"
	"log/slog"
	"path/filepath"

	"github.com/croft-run/croft/egress"
	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/provider/docker"
	"github.com/croft-run/croft/provider/filestore"
	"github.com/croft-run/croft/provider/local"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

// Config says what the providers share.
type Config struct {
	Data string       // the data directory; required
	Log  *slog.Logger // nil is silent

	// HostRoots are the directories of the host that workspaces may use; nil is
	// any, and an empty list is none.
	HostRoots []string

	// DockerHost is where the engine of containers listens; "" is DOCKER_HOST, or
	// the first of the usual sockets that is there.
	DockerHost string

	// What the proxies of workspaces that may reach hosts work with: where
	// credentials come from, how they are sent, and who is told of requests.
	// Names are resolved by Resolver, nil for the host's.
	Secrets     egress.Secrets
	Credentials map[string]egress.Credential
	Events      event.Sink
	Resolver    egress.Resolver

	// Needed reports whether a snapshot has to stay, since a workspace started
	// from it; nil is never.
	Needed func(ctx context.Context, snapshot string) (bool, error)
}

// Snapshots returns the store of snapshots in the data directory. Nothing is made
// on disk before it is used.
func Snapshots(cfg Config) *snapshot.Store {
	return snapshot.Open(snapshot.Dir(filepath.Join(cfg.Data, "store")), &snapshot.Options{
		CacheDir: filepath.Join(cfg.Data, "store", "cache"), Needed: cfg.Needed, Log: cfg.Log,
	})
}

// Providers returns one provider of each kind. Nothing is made on disk before
// one of them is used. Those that are an io.Closer hold something open, and want
// to be closed when the last of their workspaces is.
func Providers(cfg Config) ([]driver.Provider, error) {
	snapshots := Snapshots(cfg)
	directories, err := local.New(&local.Config{Snapshots: snapshots, Root: filepath.Join(cfg.Data, "ws"), Forbidden: []string{cfg.Data}, Roots: cfg.HostRoots, Log: cfg.Log})
	if err != nil {
		return nil, err
	}
	database, err := filestore.New(&filestore.Config{Dir: cfg.Data, Snapshots: snapshots, Log: cfg.Log})
	if err != nil {
		return nil, err
	}
	fenced, err := sandbox.New(&sandbox.Config{
		Snapshots: snapshots, Layers: filepath.Join(cfg.Data, "layers"),
		Root: filepath.Join(cfg.Data, "ws"), Forbidden: []string{cfg.Data}, Roots: cfg.HostRoots, Log: cfg.Log,
		Secrets: cfg.Secrets, Credentials: cfg.Credentials, Events: cfg.Events, Resolver: cfg.Resolver,
	})
	if err != nil {
		return nil, err
	}
	contained, err := docker.New(&docker.Config{
		Snapshots: snapshots, Root: filepath.Join(cfg.Data, "ws"), Cache: filepath.Join(cfg.Data, "docker"), Host: cfg.DockerHost, Log: cfg.Log,
		Secrets: cfg.Secrets, Credentials: cfg.Credentials, Events: cfg.Events, Resolver: cfg.Resolver,
	})
	if err != nil {
		return nil, err
	}
	return []driver.Provider{&memory.Provider{Log: cfg.Log, Snapshots: snapshots}, directories, database, fenced, contained}, nil
}
