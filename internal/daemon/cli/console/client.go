package console

import (
	"context"
	"encoding/json"
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
	"github.com/croft-run/croft/internal/daemon/admission"
	"github.com/croft-run/croft/internal/daemon/app"
	"github.com/croft-run/croft/internal/daemon/config"
	"github.com/croft-run/croft/internal/daemon/datadir"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace"
)

// Workspaces are what most commands call: of a server, or in this process.
type Workspaces interface {
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

// Remote are the workspaces of a server.
type Remote struct{ *client.Client }

// API returns the client.
func (r Remote) API(context.Context) (*client.Client, error) { return r.Client, nil }

// Open attaches to a workspace.
func (r Remote) Open(ctx context.Context, nameOrID string) (*workspace.Workspace, error) {
	d, rec, err := r.Attach(ctx, nameOrID)
	if err != nil {
		return nil, err
	}
	return workspace.New(rec.ID, d, nil, &workspace.Options{Relay: true, Kind: rec.Kind})
}

// KeptEvents calls f with each event that the server keeps of a kind and a workspace.
func (r Remote) KeptEvents(ctx context.Context, kind event.Kind, id string, f func(event.Event) error) error {
	return r.Events(ctx, client.EventFilter{Kinds: []string{string(kind)}, Workspace: id, After: "0"}, f)
}

// WithWorkspaces runs f with the workspaces of the server, or of the data directory.
func (a *Console) WithWorkspaces(ctx context.Context, f func(c Workspaces) error) error {
	if a.Server != "" {
		c, err := a.RemoteClient()
		if err != nil {
			return err
		}
		defer c.Close()
		return f(Remote{c})
	}
	return a.WithSystem(ctx, "", func(s *app.System) error { return f(app.NewLocal(s)) })
}

// WithClient runs f with a client of the server, or of the data directory.
func (a *Console) WithClient(ctx context.Context, f func(c *client.Client) error) error {
	return a.WithWorkspaces(ctx, func(all Workspaces) error {
		c, err := all.API(ctx)
		if err != nil {
			return err
		}
		return f(c)
	})
}

// WithWorkspace runs f with the workspace of the given name or id.
func (a *Console) WithWorkspace(ctx context.Context, nameOrID string, f func(ws *workspace.Workspace) error) error {
	return a.WithAttached(ctx, nameOrID, func(_ Workspaces, ws *workspace.Workspace) error { return f(ws) })
}

// WithAttached is WithWorkspace for commands that also need the other workspaces.
func (a *Console) WithAttached(ctx context.Context, nameOrID string, f func(c Workspaces, ws *workspace.Workspace) error) error {
	return a.WithWorkspaces(ctx, func(c Workspaces) error {
		return a.WithOpened(ctx, c, nameOrID, func(ws *workspace.Workspace) error { return f(c, ws) })
	})
}

// WithOpened runs f with an open workspace.
func (a *Console) WithOpened(ctx context.Context, c Workspaces, nameOrID string, f func(ws *workspace.Workspace) error) error {
	ws, err := c.Open(ctx, nameOrID)
	if err != nil {
		return err
	}
	a.named.Store(ws.ID(), nameOrID)
	err = f(ws)
	// Close must run even if the user interrupted the command.
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), StopTimeout)
	defer cancel()
	return errors.Join(err, ws.Close(after))
}

// OpenSystem opens the data directory.
func (a *Console) OpenSystem(ctx context.Context, cfg app.Config) (*app.System, error) {
	settings, err := a.Settings()
	if err != nil {
		return nil, err
	}
	cfg.Settings, cfg.Providers, cfg.Version, cfg.Secrets = settings, a.Providers, Version(), a.Secrets
	sys, err := app.Open(ctx, cfg)
	if err == nil {
		a.NoteRecovered(sys.Recovered)
	}
	return sys, err
}

// Settings returns the configuration for work on a data directory: flags over
// variables over croft.yaml over defaults. With --server, the configuration of the
// server counts instead.
func (a *Console) Settings() (*config.Config, error) {
	if a.resolved != nil {
		return a.resolved, nil
	}
	c, err := a.LoadSettings()
	if err == nil {
		a.resolved = c
	}
	return c, err
}

// LoadSettings reads the configuration.
func (a *Console) LoadSettings() (*config.Config, error) {
	c, err := a.ResolveConfig(a.Config)
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

// ResolveConfig reads the named file, or the one that config.Find finds for "".
func (a *Console) ResolveConfig(file string) (*config.Config, error) {
	opts := &config.ResolveOptions{File: file, Flags: map[string]string{}}
	opts.Data, _ = datadir.Abs(a.Data) // it fails without a home directory; then no data directory is searched
	if a.Data != "" {
		opts.Flags["data"] = a.Data
	}
	return config.Resolve(opts)
}

// NewLogger returns a logger to standard error, in JSON with --json.
func (a *Console) NewLogger(level slog.Level) *slog.Logger {
	opts := &slog.HandlerOptions{Level: level}
	if a.JSON {
		return slog.New(slog.NewJSONHandler(a.Err, opts))
	}
	return slog.New(slog.NewTextHandler(a.Err, opts))
}

// GivenToken returns the token that the user gave, "" for none.
func (a *Console) GivenToken() string {
	if a.Token != "" {
		return a.Token
	}
	return os.Getenv("CROFT_TOKEN")
}

// RemoteClient returns a client of the server.
func (a *Console) RemoteClient() (*client.Client, error) {
	token, err := a.ServerToken()
	if err != nil {
		return nil, err
	}
	return client.NewClient(client.Config{URL: a.Server, Token: token})
}

// ServerToken returns the token for the server.
func (a *Console) ServerToken() (string, error) {
	if u, err := url.Parse(a.Server); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", Usagef("--server %s: give a URL that begins with http:// or https://, such as http://127.0.0.1:7070", Printable(a.Server))
	}
	token := a.GivenToken()
	if token == "" {
		var err error
		if token, err = a.localToken(); err != nil {
			return "", err
		}
		if settings, err := a.Settings(); err == nil && token != "" {
			a.tokenOf = settings.Data
		}
	}
	if token == "" {
		return "", fault.Advise(fmt.Errorf("server %s: %w: no token", a.Server, fault.Unauthenticated),
			"give --token or set CROFT_TOKEN; croft up prints the token and stores it in DATA/token")
	}
	return token, nil
}

// localToken returns the token of the data directory if the server's address is
// loopback. Other servers get only a token that the user gave.
func (a *Console) localToken() (string, error) {
	u, err := url.Parse(a.Server)
	if err != nil {
		return "", nil //nolint:nilerr // the client reports it
	}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return "", nil
	}
	settings, err := a.Settings()
	if err != nil {
		return "", fmt.Errorf("the configuration, which names the data directory with the token: %w", err)
	}
	data, err := os.ReadFile(filepath.Join(settings.Data, "token"))
	if err != nil {
		return "", nil //nolint:nilerr // the token file is missing, or belongs to another user
	}
	return strings.TrimSpace(string(data)), nil
}

// Housekeep removes, once a day, what has expired in the data directory: who works with croft work
// alone has no server that does so.
func (a *Console) Housekeep(ctx context.Context) {
	if a.System == nil || ctx.Err() != nil {
		return
	}
	if err := a.System.GC.Housekeep(ctx); err != nil {
		a.Note("croft: remove expired snapshots: %v", err)
	}
}

// DestroyWorkspace destroys the workspace even if ctx has ended.
func DestroyWorkspace(ctx context.Context, c Workspaces, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), StopTimeout)
	defer cancel()
	err := c.Destroy(ctx, id)
	if fault.Of(err) == fault.NotFound {
		return nil
	}
	return err
}

// NoteRecovered says which changes of killed processes were completed, with --json as well:
// they are changes of the user's files, about which the answer says nothing.
func (a *Console) NoteRecovered(list []snapshot.Recovered) {
	for _, r := range list {
		if a.JSON {
			data, _ := json.Marshal(map[string]any{"recovered": struct { // always encodes
				snapshot.Recovered
				Message string `json:"message"`
			}{r, r.String()}})
			fmt.Fprintf(a.Err, "%s\n", data)
			continue
		}
		a.Note("croft: %s", r)
	}
}

// NoteNotCopied says what the directory has that a new workspace has not.
func NoteNotCopied(a *Console, prefix string, labels map[string]string) {
	if text := labels[admission.LeftOutLabel]; text != "" {
		a.Note("%sleft out %s (--credentials takes them along)", prefix, Printable(text))
	}
	if text := labels[admission.UnreadableLabel]; text != "" {
		a.Note("%sleft out %s", prefix, Printable(text))
	}
}
