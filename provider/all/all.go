// Package all builds the providers that croft has built in, over one data directory. The list
// is a function and not a side effect of an import: a program that needs other providers
// builds its own list.
package all

import (
	"context"
	"log/slog"
	"path/filepath"

	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/internal/egress"
	"github.com/croft-run/croft/provider/docker"
	"github.com/croft-run/croft/provider/e2b"
	"github.com/croft-run/croft/provider/filestore"
	"github.com/croft-run/croft/provider/local"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/provider/ssh"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

// Config says what the providers share.
type Config struct {
	Data string       // the data directory; required
	Log  *slog.Logger // nil is silent

	// HostRoots are the directories of the host that workspaces may use. nil allows any;
	// an empty list allows no directory.
	HostRoots []string

	// DockerHost is the address of the container engine; "" means DOCKER_HOST, or the
	// first of the usual sockets that exists.
	DockerHost string

	// Options of the egress proxies; see the fields of the same names in egress.Options.
	Secrets     egress.Secrets
	Credentials map[string]egress.Credential
	Events      event.Sink
	Resolver    egress.Resolver
	Upstream    *egress.UpstreamProxy

	// Needed reports whether a snapshot must be kept because a workspace started from it;
	// nil means never.
	Needed func(ctx context.Context, snapshot string) (bool, error)

	// TenantOf returns the tenant of a workspace; see snapshot.Options.
	TenantOf func(ctx context.Context, workspace string) (string, bool)

	// Backend has the snapshots; nil means a directory in the data directory. Node is the node
	// of this host, where several hosts share the backend.
	Backend snapshot.Backend
	Node    string

	// Snapshots is the store of snapshots; nil means that of the function Snapshots.
	Snapshots *snapshot.Store
}

// Snapshots returns the store of snapshots. Nothing is created on disk before it is used.
func Snapshots(cfg Config) *snapshot.Store {
	if cfg.Backend == nil {
		cfg.Backend = snapshot.Dir(filepath.Join(cfg.Data, "store"))
	}
	return snapshot.Open(cfg.Backend, &snapshot.Options{
		CacheDir: filepath.Join(cfg.Data, "store", "cache"), Needed: cfg.Needed, TenantOf: cfg.TenantOf, Node: cfg.Node, Log: cfg.Log,
	})
}

// Volumes returns the directory of volumes in a data directory: directories that several
// workspaces mount.
func Volumes(data string) string { return filepath.Join(data, "volumes") }

// Providers returns one provider of each kind. Nothing is created on disk before one of them
// is used. The caller closes those that are an io.Closer after the last of their workspaces.
func Providers(cfg Config) ([]driver.Provider, error) {
	snapshots := cfg.Snapshots
	if snapshots == nil {
		snapshots = Snapshots(cfg)
	}
	directories, err := local.New(&local.Config{Snapshots: snapshots, Root: filepath.Join(cfg.Data, "ws"), Forbidden: []string{cfg.Data}, Roots: cfg.HostRoots, Log: cfg.Log})
	if err != nil {
		return nil, err
	}
	database, err := filestore.New(&filestore.Config{Dir: cfg.Data, Snapshots: snapshots, Log: cfg.Log})
	if err != nil {
		return nil, err
	}
	sandboxes, err := sandbox.New(&sandbox.Config{
		Snapshots: snapshots, Layers: filepath.Join(cfg.Data, "layers"), Volumes: Volumes(cfg.Data),
		Cache: filepath.Join(cfg.Data, "sandbox"),
		Root:  filepath.Join(cfg.Data, "ws"), Forbidden: []string{cfg.Data}, Roots: cfg.HostRoots, Log: cfg.Log,
		Secrets: cfg.Secrets, Credentials: cfg.Credentials, Events: cfg.Events, Resolver: cfg.Resolver, Upstream: cfg.Upstream,
	})
	if err != nil {
		return nil, err
	}
	containers, err := docker.New(&docker.Config{
		Snapshots: snapshots, Root: filepath.Join(cfg.Data, "ws"), Cache: filepath.Join(cfg.Data, "docker"), Host: cfg.DockerHost, Log: cfg.Log,
		Secrets: cfg.Secrets, Credentials: cfg.Credentials, Events: cfg.Events, Resolver: cfg.Resolver, Upstream: cfg.Upstream,
	})
	if err != nil {
		return nil, err
	}
	machines, err := ssh.New(&ssh.Config{Snapshots: snapshots, Root: filepath.Join(cfg.Data, "ws"), Log: cfg.Log})
	if err != nil {
		return nil, err
	}
	servers, err := e2b.New(&e2b.Config{Snapshots: snapshots, Root: filepath.Join(cfg.Data, "ws"), Secrets: cfg.Secrets, Log: cfg.Log})
	if err != nil {
		return nil, err
	}
	return []driver.Provider{&memory.Provider{Log: cfg.Log, Snapshots: snapshots}, directories, database, sandboxes, containers, machines, servers}, nil
}
