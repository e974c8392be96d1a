package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// snapshots is the module for snapshots of one workspace.
type snapshots struct {
	c  *Client
	id string
}

// now stands, in a path, for the workspace as it is.
const now = "@now"

func (c *Client) snapshots(ws Workspace) *driver.Snapshots {
	s := &snapshots{c, ws.ID}
	module := &driver.Snapshots{Snapshotter: s, List: s.list, Files: s.files, Delete: s.delete, Rollback: s.rollback, Checkpoint: s.checkpoint}
	if slices.Contains(ws.Functions, "seal") {
		module.Seal = s.seal
	}
	return module
}

type snapshotRequest struct {
	Name   string            `json:"name,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	Ignore []string          `json:"ignore,omitempty"`

	Complete  bool `json:"complete,omitempty"`
	Processes bool `json:"processes,omitempty"`
}

func (s *snapshots) take(ctx context.Context, route string, opts *driver.SnapshotOptions, processes bool) (driver.SnapshotInfo, error) {
	r, err := request{method: http.MethodPost, path: at(s.id, route)}.jsonBody(snapshotRequest{opts.Name, opts.Labels, opts.Ignore, opts.Complete, processes})
	if err != nil {
		return driver.SnapshotInfo{}, err
	}
	info, err := get[driver.SnapshotInfo](ctx, s.c, r)
	return info, evicted(err)
}

func (s *snapshots) Snapshot(ctx context.Context, opts *driver.SnapshotOptions) (driver.SnapshotInfo, error) {
	return s.take(ctx, "/snapshots", opts, false)
}

// checkpoint asks the server, which knows whether the provider can, and why not.
func (s *snapshots) checkpoint(ctx context.Context, opts *driver.SnapshotOptions) (driver.SnapshotInfo, error) {
	return s.take(ctx, "/snapshots", opts, true)
}

func (s *snapshots) seal(ctx context.Context, opts *driver.SnapshotOptions) (driver.SnapshotInfo, error) {
	return s.take(ctx, "/seal", opts, false)
}

func crossing(cross bool) params { return params{url.Values{}}.flag("crossSession", cross) }

func (s *snapshots) list(ctx context.Context, opts *driver.ListSnapshotsOptions) ([]driver.SnapshotInfo, error) {
	type answer struct {
		Snapshots []driver.SnapshotInfo `json:"snapshots"`
	}
	q := crossing(opts.CrossSession).number("limit", int64(opts.Limit)).flag("origin", opts.Origin)
	out, err := get[answer](ctx, s.c, request{method: http.MethodGet, path: at(s.id, "/snapshots"), query: q.Values})
	return out.Snapshots, evicted(err)
}

// one is the path of a route of one snapshot.
func (s *snapshots) one(snapshot, route string) string {
	return at(s.id, "/snapshots/"+url.PathEscape(snapshot)+route)
}

// none refuses a name that is no element of a path.
func none(snapshot string) error {
	if snapshot == "" || snapshot == "." || snapshot == ".." {
		return fmt.Errorf("remote: snapshot %q: %w", snapshot, fault.NotFound)
	}
	return nil
}

func (s *snapshots) delete(ctx context.Context, id string, opts *driver.SnapshotAccess) error {
	if err := none(id); err != nil {
		return err
	}
	return evicted(s.c.call(ctx, request{method: http.MethodDelete, path: s.one(id, ""), query: crossing(opts.CrossSession).Values}, nil))
}

func (s *snapshots) rollback(ctx context.Context, id string, opts *driver.SnapshotAccess) (driver.SnapshotInfo, error) {
	if err := none(id); err != nil {
		return driver.SnapshotInfo{}, err
	}
	info, err := get[driver.SnapshotInfo](ctx, s.c, request{method: http.MethodPost, path: s.one(id, "/rollback"), query: crossing(opts.CrossSession).Values})
	return info, evicted(err)
}

// files returns the files of a snapshot, each call of which asks the server.
func (s *snapshots) files(ctx context.Context, id string, opts *driver.SnapshotAccess) (*driver.FS, error) {
	if id == "" {
		id = now
	}
	f := &snapshotFiles{s: s, id: id, cross: opts.CrossSession}
	if _, err := f.Stat(ctx, ".", &driver.StatOptions{}); err != nil {
		return nil, err
	}
	return &driver.FS{Files: f}, nil
}

type snapshotFiles struct {
	s     *snapshots
	id    string
	cross bool
}

func (f *snapshotFiles) query(name string) params {
	return query(name).flag("crossSession", f.cross)
}

func (f *snapshotFiles) Stat(ctx context.Context, name string, opts *driver.StatOptions) (driver.Info, error) {
	q := f.query(name).flag("nofollow", opts.NoFollow).flag("digest", opts.Digest)
	info, err := get[driver.Info](ctx, f.s.c, request{method: http.MethodGet, path: f.s.one(f.id, "/stat"), query: q.Values})
	return info, evicted(err)
}

func (f *snapshotFiles) ReadDir(ctx context.Context, name string) ([]driver.Info, error) {
	type answer struct {
		Entries []driver.Info `json:"entries"`
	}
	out, err := get[answer](ctx, f.s.c, request{method: http.MethodGet, path: f.s.one(f.id, "/readdir"), query: f.query(name).Values})
	return out.Entries, evicted(err)
}

func (f *snapshotFiles) Read(ctx context.Context, name string, opts *driver.ReadOptions) (io.ReadCloser, driver.Info, error) {
	var info driver.Info
	q := f.query(name).number("offset", opts.Offset).number("limit", opts.Limit)
	res, err := f.s.c.send(ctx, request{method: http.MethodGet, path: f.s.one(f.id, "/files"), query: q.Values})
	if err != nil {
		return nil, info, evicted(err)
	}
	if err := json.Unmarshal([]byte(res.Header.Get(infoHeader)), &info); err != nil {
		res.Body.Close()
		return nil, info, fmt.Errorf("remote: read %s: %w: server %s sent no valid %s", name, fault.Unavailable, f.s.c.base, infoHeader)
	}
	return &content{ReadCloser: res.Body, ctx: ctx, c: f.s.c}, info, nil
}

var errSnapshot = fmt.Errorf("remote: %w: a snapshot does not change", fault.PermissionDenied)

func (f *snapshotFiles) Write(context.Context, string, io.Reader, *driver.WriteOptions) (driver.WriteResult, error) {
	return driver.WriteResult{}, errSnapshot
}

func (f *snapshotFiles) Mkdir(context.Context, string, *driver.MkdirOptions) error {
	return errSnapshot
}

func (f *snapshotFiles) Remove(context.Context, string, *driver.RemoveOptions) error {
	return errSnapshot
}

// ForkOptions are the options of Fork.
type ForkOptions struct {
	Snapshot     string            `json:"snapshot,omitempty"` // "" takes one now
	Count        int               `json:"count,omitempty"`    // 0 is one
	Name         string            `json:"name,omitempty"`
	Labels       map[string]string `json:"labels,omitempty"`
	CrossSession bool              `json:"crossSession,omitempty"`
}

// Forked is what Fork did.
type Forked struct {
	Snapshot   driver.SnapshotInfo `json:"snapshot"`
	Workspaces []Workspace         `json:"workspaces"`
}

// Fork opens new workspaces from a state of one.
func (c *Client) Fork(ctx context.Context, nameOrID string, opts ForkOptions) (Forked, error) {
	r, err := request{method: http.MethodPost, path: at(nameOrID, "/fork")}.jsonBody(opts)
	if err != nil {
		return Forked{}, err
	}
	return get[Forked](ctx, c, r)
}

// ApplyOptions are the options of Apply.
type ApplyOptions struct {
	Source  string           `json:"source"`
	From    string           `json:"from,omitempty"`
	Paths   []string         `json:"paths,omitempty"`
	Hunks   map[string][]int `json:"hunks,omitempty"`
	Markers bool             `json:"markers,omitempty"`
	DryRun  bool             `json:"dryRun,omitempty"`
}

// Apply merges what changed in another workspace into one. The answer, JSON, is
// history.Applied.
func (c *Client) Apply(ctx context.Context, nameOrID string, opts ApplyOptions) (json.RawMessage, error) {
	r, err := request{method: http.MethodPost, path: at(nameOrID, "/apply")}.jsonBody(opts)
	if err != nil {
		return nil, err
	}
	return get[json.RawMessage](ctx, c, r)
}

// DiffOptions are the options of Diff.
type DiffOptions struct {
	From, To     string
	Paths        []string
	Context      int
	Text         bool
	Binary       bool
	CrossSession bool
}

// Diff compares two states of a workspace. The answer, JSON, is snapshot.Comparison.
func (c *Client) Diff(ctx context.Context, nameOrID string, opts DiffOptions) (json.RawMessage, error) {
	q := crossing(opts.CrossSession).text("from", opts.From).text("to", opts.To).number("context", int64(opts.Context)).flag("text", opts.Text).flag("binary", opts.Binary)
	for _, p := range opts.Paths {
		q.Add("path", p)
	}
	return get[json.RawMessage](ctx, c, request{method: http.MethodGet, path: at(nameOrID, "/diff"), query: q.Values})
}
