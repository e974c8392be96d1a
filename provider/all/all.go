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

// kinds are the kinds of Croft's own providers: all that a program knows of them without asking one. The
// order is that in which a program chooses among them: the best isolation first, the provider without
// persistence after it, and then those that are used only where they are named.
var kinds = []struct {
	name     string
	isolates bool // something isolates the commands from the host of the workspace, or there are none
	build    func(Config) (driver.Provider, error)
}{
	{sandbox.Kind, true, func(cfg Config) (driver.Provider, error) {
		return sandbox.New(&sandbox.Config{
			Snapshots: cfg.Snapshots, Layers: filepath.Join(cfg.Data, "layers"), Volumes: Volumes(cfg.Data), Cache: filepath.Join(cfg.Data, "sandbox"),
			Root: cfg.root(), Forbidden: []string{cfg.Data}, Roots: cfg.HostRoots, Log: cfg.Log,
			Secrets: cfg.Secrets, Credentials: cfg.Credentials, Events: cfg.Events, Resolver: cfg.Resolver, Upstream: cfg.Upstream,
		})
	}},
	{docker.Kind, true, func(cfg Config) (driver.Provider, error) {
		return docker.New(&docker.Config{
			Snapshots: cfg.Snapshots, Root: cfg.root(), Cache: filepath.Join(cfg.Data, "docker"), Host: cfg.DockerHost, Log: cfg.Log,
			Secrets: cfg.Secrets, Credentials: cfg.Credentials, Events: cfg.Events, Resolver: cfg.Resolver, Upstream: cfg.Upstream,
		})
	}},
	{filestore.Kind, true, func(cfg Config) (driver.Provider, error) {
		return filestore.New(&filestore.Config{Dir: cfg.Data, Snapshots: cfg.Snapshots, Log: cfg.Log})
	}},
	{memory.Kind, true, func(cfg Config) (driver.Provider, error) {
		return &memory.Provider{Log: cfg.Log, Snapshots: cfg.Snapshots}, nil
	}},
	{local.Kind, false, func(cfg Config) (driver.Provider, error) {
		return local.New(&local.Config{Snapshots: cfg.Snapshots, Root: cfg.root(), Forbidden: []string{cfg.Data}, Roots: cfg.HostRoots, Log: cfg.Log})
	}},
	{ssh.Kind, false, func(cfg Config) (driver.Provider, error) {
		return ssh.New(&ssh.Config{Snapshots: cfg.Snapshots, Root: cfg.root(), Log: cfg.Log})
	}},
	{e2b.Kind, true, func(cfg Config) (driver.Provider, error) {
		return e2b.New(&e2b.Config{Snapshots: cfg.Snapshots, Root: cfg.root(), Secrets: cfg.Secrets, Log: cfg.Log})
	}},
	{"kubernetes", true, nil}, // in a program of its own
}

// Isolates reports whether something isolates the commands of a kind, or there are none; known is false
// for the kind of a provider that is not Croft's own.
func Isolates(kind string) (isolates, known bool) {
	if i := Rank(kind); i < len(kinds) {
		return kinds[i].isolates, true
	}
	return false, false
}

// Rank returns the place of a kind in the order of choice. Kinds that are not Croft's own come last.
func Rank(kind string) int {
	for i, k := range kinds {
		if k.name == kind {
			return i
		}
	}
	return len(kinds)
}

// root returns the directory of the workspaces that are directories of this host.
func (c *Config) root() string { return filepath.Join(c.Data, "ws") }

// Providers returns one provider of each kind. Nothing is created on disk before one of them
// is used. The caller closes them after the last of their workspaces.
func Providers(cfg Config) ([]driver.Provider, error) {
	if cfg.Snapshots == nil {
		cfg.Snapshots = Snapshots(cfg)
	}
	var providers []driver.Provider
	for _, k := range kinds {
		if k.build == nil {
			continue
		}
		p, err := k.build(cfg)
		if err != nil {
			return nil, err
		}
		providers = append(providers, p)
	}
	return providers, nil
}
