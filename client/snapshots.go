package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/changes"
	"github.com/croft-run/croft/workspace/driver"
)

// snapshots is the module for snapshots of one workspace.
type snapshots struct{ module }

// currentFiles is the snapshot id by which the routes of snapshots address the current
// files of a workspace.
const currentFiles = "@now"

func (c *Client) snapshotsModule(ws Workspace) *driver.Snapshots {
	s := &snapshots{module{c, ws.ID}}
	module := &driver.Snapshots{Snapshotter: s, List: s.listSnapshots, Files: s.snapshotFS, Delete: s.deleteSnapshot, Rollback: s.rollbackTo, Checkpoint: s.takeCheckpoint}
	if slices.Contains(ws.Functions, "seal") {
		module.Seal = s.sealFiles
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

func (s *snapshots) takeSnapshot(ctx context.Context, route string, opts *driver.SnapshotOptions, processes bool) (driver.SnapshotInfo, error) {
	return postRoute[driver.SnapshotInfo](ctx, s.module, route, params{}, snapshotRequest{opts.Name, opts.Labels, opts.Ignore, opts.Complete, processes})
}

func (s *snapshots) Snapshot(ctx context.Context, opts *driver.SnapshotOptions) (driver.SnapshotInfo, error) {
	return s.takeSnapshot(ctx, "/snapshots", opts, false)
}

// takeCheckpoint takes a snapshot with processes. Whether the provider supports it is
// checked by the server.
func (s *snapshots) takeCheckpoint(ctx context.Context, opts *driver.SnapshotOptions) (driver.SnapshotInfo, error) {
	return s.takeSnapshot(ctx, "/snapshots", opts, true)
}

func (s *snapshots) sealFiles(ctx context.Context, opts *driver.SnapshotOptions) (driver.SnapshotInfo, error) {
	return s.takeSnapshot(ctx, "/seal", opts, false)
}

func crossSessionQuery(cross bool) params { return params{url.Values{}}.flag("crossSession", cross) }

func (s *snapshots) listSnapshots(ctx context.Context, opts *driver.ListSnapshotsOptions) ([]driver.SnapshotInfo, error) {
	q := crossSessionQuery(opts.CrossSession).number("limit", int64(opts.Limit)).flag("origin", opts.Origin)
	return callRouteField[[]driver.SnapshotInfo](ctx, s.module, "/snapshots", "snapshots", q)
}

// snapshotRoute returns the path of a route of one snapshot.
func snapshotRoute(snapshot, route string) string {
	return "/snapshots/" + url.PathEscape(snapshot) + route
}

// checkSnapshotName refuses a name that can't be an element of a URL path.
func checkSnapshotName(snapshot string) error {
	if snapshot == "" || snapshot == "." || snapshot == ".." {
		return fmt.Errorf("client: snapshot %q: %w", snapshot, fault.NotFound)
	}
	return nil
}

func (s *snapshots) deleteSnapshot(ctx context.Context, id string, opts *driver.SnapshotAccess) error {
	if err := checkSnapshotName(id); err != nil {
		return err
	}
	return s.callNoAnswer(ctx, http.MethodDelete, snapshotRoute(id, ""), crossSessionQuery(opts.CrossSession))
}

func (s *snapshots) rollbackTo(ctx context.Context, id string, opts *driver.SnapshotAccess) (driver.SnapshotInfo, error) {
	if err := checkSnapshotName(id); err != nil {
		return driver.SnapshotInfo{}, err
	}
	return callRoute[driver.SnapshotInfo](ctx, s.module, http.MethodPost, snapshotRoute(id, "/rollback"), crossSessionQuery(opts.CrossSession))
}

// snapshotFS returns the files of a snapshot. Each of its calls is one request. The
// server pins the state: finding it again for each request may take long, and the
// current files change meanwhile.
func (s *snapshots) snapshotFS(ctx context.Context, id string, opts *driver.SnapshotAccess) (*driver.FS, error) {
	if id == "" {
		id = currentFiles
	}
	pinned, err := callRoute[struct {
		ID string `json:"id"`
	}](ctx, s.module, http.MethodPost, snapshotRoute(id, "/pin"), crossSessionQuery(opts.CrossSession))
	if err != nil {
		return nil, err
	}
	return &driver.FS{Files: &snapshotFiles{s.module, pinned.ID}}, nil
}

type snapshotFiles struct {
	module
	snapshot string
}

func (f *snapshotFiles) Stat(ctx context.Context, name string, opts *driver.StatOptions) (driver.Info, error) {
	q := pathQuery(name).flag("nofollow", opts.NoFollow).flag("digest", opts.Digest)
	return callRoute[driver.Info](ctx, f.module, http.MethodGet, snapshotRoute(f.snapshot, "/stat"), q)
}

func (f *snapshotFiles) ReadDir(ctx context.Context, name string) ([]driver.Info, error) {
	return callRouteField[[]driver.Info](ctx, f.module, snapshotRoute(f.snapshot, "/readdir"), "entries", pathQuery(name))
}

func (f *snapshotFiles) Read(ctx context.Context, name string, opts *driver.ReadOptions) (io.ReadCloser, driver.Info, error) {
	q := pathQuery(name).number("offset", opts.Offset).number("limit", opts.Limit)
	return f.open(ctx, snapshotRoute(f.snapshot, "/files"), name, q)
}

var errSnapshot = fmt.Errorf("client: %w: a snapshot does not change", fault.PermissionDenied)

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
	Snapshot     string            `json:"snapshot,omitempty" doc:"id or name of a snapshot; empty takes one now"`
	Count        int               `json:"count,omitempty" doc:"how many; 0 is one"`
	Name         string            `json:"name,omitempty" doc:"of the new one; with a count, NAME-1 and so on"`
	Labels       map[string]string `json:"labels,omitempty" doc:"of the new ones"`
	CrossSession bool              `json:"crossSession,omitempty" doc:"a snapshot of another session, too"`
}

// Forked is the result of Fork.
type Forked struct {
	Snapshot   driver.SnapshotInfo `json:"snapshot"`
	Workspaces []Workspace         `json:"workspaces"`
}

// Fork opens new workspaces from a state of one.
func (c *Client) Fork(ctx context.Context, nameOrID string, opts ForkOptions) (Forked, error) {
	return get[Forked](ctx, c, request{method: http.MethodPost, path: workspacePath(nameOrID, "/fork"), json: opts})
}

// Hunks are chosen hunks of files by path, counted from 1 in a Comparison with the default context.
type Hunks = changes.Hunks

// ApplyOptions are the options of Apply.
type ApplyOptions struct {
	Source  string   `json:"source" doc:"id or name of the workspace whose changes are merged"`
	From    string   `json:"from,omitempty" doc:"id or name of a snapshot of it, since which changes count; empty is what it started from"`
	Paths   []string `json:"paths,omitempty" doc:"only these, with all below them"`
	Hunks   Hunks    `json:"hunks,omitempty" doc:"for paths of files, the hunks that are taken, counted from 1"`
	Markers bool     `json:"markers,omitempty" doc:"write conflicts of lines into the files, marked as git does it"`
	DryRun  bool     `json:"dryRun,omitempty" doc:"say what would be done"`

	AllowAutorun bool `json:"allowAutorun,omitempty" doc:"autorun files, too: editor tasks, hooks and the like, which tools run without being asked"`
	Ignored      bool `json:"ignored,omitempty" doc:"what .gitignore excludes and caches, too"`
}

// Applied says what became of the changes that were merged.
type Applied = changes.Applied

// Apply merges what changed in another workspace into one.
func (c *Client) Apply(ctx context.Context, nameOrID string, opts ApplyOptions) (Applied, error) {
	return get[Applied](ctx, c, request{method: http.MethodPost, path: workspacePath(nameOrID, "/apply"), json: opts})
}

// DiffOptions are the options of Diff.
type DiffOptions struct {
	From, To     string
	Paths        []string
	Context      int
	Text         bool
	Binary       bool
	CrossSession bool
	Ignored      bool // what .gitignore excludes and caches, too
}

// Comparison lists what differs between two states.
type Comparison = changes.Comparison

// Diff compares two states of a workspace.
func (c *Client) Diff(ctx context.Context, nameOrID string, opts DiffOptions) (*Comparison, error) {
	q := crossSessionQuery(opts.CrossSession).text("from", opts.From).text("to", opts.To).number("context", int64(opts.Context)).flag("text", opts.Text).flag("binary", opts.Binary).flag("ignored", opts.Ignored)
	for _, p := range opts.Paths {
		q.Add("path", p)
	}
	return get[*Comparison](ctx, c, request{method: http.MethodGet, path: workspacePath(nameOrID, "/diff"), query: q.Values})
}
