package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/app"
	"github.com/croft-run/croft/internal/daemon/config"
	"github.com/croft-run/croft/internal/daemon/datadir"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace"
)

// workspaces are what most commands call: of a server, or in this process.
type workspaces interface {
	CreateWith(ctx context.Context, spec workspace.Spec, policy string) (client.Workspace, error)
	List(ctx context.Context, f client.Filter) ([]client.Workspace, error)
	Show(ctx context.Context, nameOrID string) (client.Workspace, error)
	Open(ctx context.Context, nameOrID string) (*workspace.Workspace, error)
	Destroy(ctx context.Context, nameOrID string) error
	Describe(ctx context.Context, nameOrID string) (client.Description, error)
	Fork(ctx context.Context, nameOrID string, opts client.ForkOptions) (client.Forked, error)
	Diff(ctx context.Context, nameOrID string, opts client.DiffOptions) (*snapshot.Comparison, error)
	Change(ctx context.Context, nameOrID string, change client.Change) (client.Workspace, error)
	KeptEvents(ctx context.Context, kind event.Kind, id string, f func(event.Event) error) error

	// API returns a client of the whole API. In this process that takes a server.
	API(ctx context.Context) (*client.Client, error)
}

// remote are the workspaces of a server.
type remote struct{ *client.Client }

// API returns the client.
func (r remote) API(context.Context) (*client.Client, error) { return r.Client, nil }

// Open attaches to a workspace.
func (r remote) Open(ctx context.Context, nameOrID string) (*workspace.Workspace, error) {
	d, rec, err := r.Attach(ctx, nameOrID)
	if err != nil {
		return nil, err
	}
	return workspace.New(rec.ID, d, nil, &workspace.Options{Relay: true, Kind: rec.Kind})
}

// KeptEvents calls f with each event that the server keeps of a kind and a workspace.
func (r remote) KeptEvents(ctx context.Context, kind event.Kind, id string, f func(event.Event) error) error {
	return r.Events(ctx, client.EventFilter{Kinds: []string{string(kind)}, Workspace: id, After: "0"}, f)
}

// withWorkspaces runs f with the workspaces of the server, or of the data directory.
func (a *command) withWorkspaces(ctx context.Context, f func(c workspaces) error) error {
	if a.server != "" {
		c, err := a.remoteClient()
		if err != nil {
			return err
		}
		defer c.Close()
		return f(remote{c})
	}
	return a.withSystem(ctx, "", func(s *app.System) error { return f(app.NewLocal(s)) })
}

// withClient runs f with a client of the server, or of the data directory.
func (a *command) withClient(ctx context.Context, f func(c *client.Client) error) error {
	return a.withWorkspaces(ctx, func(all workspaces) error {
		c, err := all.API(ctx)
		if err != nil {
			return err
		}
		return f(c)
	})
}

// withWorkspace runs f with the workspace of the given name or id.
func (a *command) withWorkspace(ctx context.Context, nameOrID string, f func(ws *workspace.Workspace) error) error {
	return a.withAttached(ctx, nameOrID, func(_ workspaces, ws *workspace.Workspace) error { return f(ws) })
}

// withAttached is withWorkspace for commands that also need the other workspaces.
func (a *command) withAttached(ctx context.Context, nameOrID string, f func(c workspaces, ws *workspace.Workspace) error) error {
	return a.withWorkspaces(ctx, func(c workspaces) error {
		return a.withOpened(ctx, c, nameOrID, func(ws *workspace.Workspace) error { return f(c, ws) })
	})
}

// withOpened runs f with an open workspace.
func (a *command) withOpened(ctx context.Context, c workspaces, nameOrID string, f func(ws *workspace.Workspace) error) error {
	ws, err := c.Open(ctx, nameOrID)
	if err != nil {
		return err
	}
	if a.named == nil {
		a.named = map[string]string{}
	}
	a.named[ws.ID()] = nameOrID
	err = f(ws)
	// Close must run even if the user interrupted the command.
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	return errors.Join(err, ws.Close(after))
}

// openSystem opens the data directory.
func (a *command) openSystem(ctx context.Context, cfg app.Config) (*app.System, error) {
	settings, err := a.settings()
	if err != nil {
		return nil, err
	}
	cfg.Settings, cfg.Providers, cfg.Version, cfg.Secrets = settings, a.providers, version(), a.secrets
	sys, err := app.Open(ctx, cfg)
	if err == nil {
		a.noteRecovered(sys.Recovered)
	}
	return sys, err
}

// settings returns the configuration for work on a data directory: flags over
// variables over croft.yaml over defaults. With --server, the configuration of the
// server counts instead.
func (a *command) settings() (*config.Config, error) {
	if a.resolved != nil {
		return a.resolved, nil
	}
	c, err := a.loadSettings()
	if err == nil {
		a.resolved = c
	}
	return c, err
}

// loadSettings reads the configuration.
func (a *command) loadSettings() (*config.Config, error) {
	c, err := a.resolveConfig(a.config)
	if err != nil {
		return nil, err
	}
	if c.Data == "" {
		if c.Data, err = datadir.Default(); err != nil {
			return nil, err
		}
	}
	c.Data, err = filepath.Abs(c.Data)
	return c, err
}

// resolveConfig reads the named file, or the one that config.Find finds for "".
func (a *command) resolveConfig(file string) (*config.Config, error) {
	opts := &config.ResolveOptions{File: file, Flags: map[string]string{}}
	opts.Data, _ = datadir.Abs(a.data) // it fails without a home directory; then no data directory is searched
	if a.data != "" {
		opts.Flags["data"] = a.data
	}
	return config.Resolve(opts)
}

// newLogger returns a logger to standard error, in JSON with --json.
func (a *command) newLogger(level slog.Level) *slog.Logger {
	opts := &slog.HandlerOptions{Level: level}
	if a.json {
		return slog.New(slog.NewJSONHandler(a.Err, opts))
	}
	return slog.New(slog.NewTextHandler(a.Err, opts))
}

// givenToken returns the token that the user gave, "" for none.
func (a *command) givenToken() string {
	if a.token != "" {
		return a.token
	}
	return os.Getenv("CROFT_TOKEN")
}

func (a *command) remoteClient() (*client.Client, error) {
	token, err := a.serverToken()
	if err != nil {
		return nil, err
	}
	return client.NewClient(client.Config{URL: a.server, Token: token})
}

// serverToken returns the token for the server.
func (a *command) serverToken() (string, error) {
	if u, err := url.Parse(a.server); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", usagef("--server %s: give a URL that begins with http:// or https://, such as http://127.0.0.1:7070", printable(a.server))
	}
	token := a.givenToken()
	if token == "" {
		var err error
		if token, err = a.localToken(); err != nil {
			return "", err
		}
		if settings, err := a.settings(); err == nil && token != "" {
			a.tokenOf = settings.Data
		}
	}
	if token == "" {
		return "", fault.Advise(fmt.Errorf("server %s: %w: no token", a.server, fault.Unauthenticated),
			"give --token or set CROFT_TOKEN; croft up prints the token and stores it in DATA/token")
	}
	return token, nil
}

// localToken returns the token of the data directory if the server's address is
// loopback. Other servers get only a token that the user gave.
func (a *command) localToken() (string, error) {
	u, err := url.Parse(a.server)
	if err != nil {
		return "", nil //nolint:nilerr // the client reports it
	}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return "", nil
	}
	settings, err := a.settings()
	if err != nil {
		return "", fmt.Errorf("the configuration, which names the data directory with the token: %w", err)
	}
	data, err := os.ReadFile(filepath.Join(settings.Data, "token"))
	if err != nil {
		return "", nil //nolint:nilerr // the token file is missing, or belongs to another user
	}
	return strings.TrimSpace(string(data)), nil
}
