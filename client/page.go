package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/croft-run/croft/workspace/driver"
)

// Me is on whose behalf a request is made.
type Me struct {
	Key       string `json:"key" doc:"id of the API key; token is the server's token"`
	Tenant    string `json:"tenant,omitempty" doc:"absent is the server's own"`
	Scope     string `json:"scope" enum:"read,run,admin"`
	Operator  bool   `json:"operator" doc:"it administers the server and all tenants"`
	Workspace string `json:"workspace,omitempty" doc:"id of the only workspace that it sees, of a share link"`
}

// Me returns whose key the client has.
func (c *Client) Me(ctx context.Context) (Me, error) {
	return get[Me](ctx, c, request{method: http.MethodGet, path: "/v1/me"})
}

// Metrics is what a workspace uses at a time. A number that is absent was not measured.
type Metrics struct {
	driver.Metrics
	CPU    *float64      `json:"cpu,omitempty" doc:"cores in use since the measurement before"`
	Limits MetricsLimits `json:"limits" doc:"of its policy; absent is no limit"`
}

// MetricsLimits are the limits of what Metrics measures.
type MetricsLimits struct {
	CPU    float64 `json:"cpu,omitempty" doc:"cores"`
	Memory int64   `json:"memory,omitempty" doc:"bytes"`
	PIDs   int64   `json:"pids,omitempty"`
	Disk   int64   `json:"disk,omitempty" doc:"bytes"`
}

// Metrics measures what a workspace uses. It does not open the workspace.
func (c *Client) Metrics(ctx context.Context, nameOrID string) (Metrics, error) {
	return get[Metrics](ctx, c, request{method: http.MethodGet, path: workspacePath(nameOrID, "/metrics")})
}

// NetworkChange is the argument of ChangeNetwork.
type NetworkChange struct {
	Allow  []driver.NetRule `json:"allow,omitempty" doc:"rules that are added; one with the host of an existing rule replaces it"`
	Remove []string         `json:"remove,omitempty" doc:"hosts whose allow rules are removed"`
}

// ChangeNetwork adds hosts to those that a workspace may reach, or removes some.
func (c *Client) ChangeNetwork(ctx context.Context, nameOrID string, change NetworkChange) (Workspace, error) {
	return get[Workspace](ctx, c, request{method: http.MethodPost, path: workspacePath(nameOrID, "/network"), json: change})
}

// A Share is a share link: a key that shows one workspace, read-only.
type Share struct {
	ID        string    `json:"id" doc:"of its key"`
	Workspace string    `json:"workspace"`
	CreatedAt time.Time `json:"createdAt"`
	ExpiresAt time.Time `json:"expiresAt"`
	LastUsed  time.Time `json:"lastUsed,omitzero" doc:"to within a minute"`
	RevokedAt time.Time `json:"revokedAt,omitzero"`
}

// A NewShare is a share link with its text, which the server does not store.
type NewShare struct {
	Share
	Text string `json:"text" doc:"the key, shown once"`
	Path string `json:"path" doc:"of the link, below the address of the server"`
}

// ShareRequest is the argument of CreateShare.
type ShareRequest struct {
	Expires string `json:"expires,omitempty" doc:"a duration such as 12h or 7d, 30d at most; absent is 24h"`
}

// CreateShare makes a share link of a workspace.
func (c *Client) CreateShare(ctx context.Context, nameOrID string, r ShareRequest) (NewShare, error) {
	return get[NewShare](ctx, c, request{method: http.MethodPost, path: workspacePath(nameOrID, "/shares"), json: r})
}

// Shares lists the share links of a workspace, revoked and expired ones included.
func (c *Client) Shares(ctx context.Context, nameOrID string) ([]Share, error) {
	return getField[[]Share](ctx, c, "shares", request{method: http.MethodGet, path: workspacePath(nameOrID, "/shares")})
}

// RevokeShare revokes a share link.
func (c *Client) RevokeShare(ctx context.Context, nameOrID, share string) error {
	if err := checkSnapshotName(share); err != nil {
		return err
	}
	return c.call(ctx, request{method: http.MethodDelete, path: workspacePath(nameOrID, "/shares/"+url.PathEscape(share))}, nil)
}

// HostApplyOptions are the options of ApplyToHost.
type HostApplyOptions struct {
	Dir     string            `json:"dir" doc:"absolute directory of the server's host, in one of hostRoots of croft.yaml"`
	From    string            `json:"from,omitempty" doc:"id or name of a snapshot, since which changes count; empty is what the workspace started from"`
	Paths   []string          `json:"paths,omitempty" doc:"only these, with all below them"`
	Hunks   Hunks             `json:"hunks,omitempty" doc:"for paths of files, the hunks that are taken, counted from 1 in /diff with the default context"`
	Shown   map[string]string `json:"shown,omitempty" doc:"the changes that were shown, so that nothing else is applied: by path, new.digest or new.target of /diff, empty for what was removed; if they differ now, the answer is 412"`
	Markers bool              `json:"markers,omitempty" doc:"write conflicts of lines into the files, marked as git does it"`
	DryRun  bool              `json:"dryRun,omitempty" doc:"say what would be done"`

	AllowAutorun bool `json:"allowAutorun,omitempty" doc:"autorun files, too: editor tasks, hooks and the like, which tools run without being asked"`
	Ignored      bool `json:"ignored,omitempty" doc:"what .gitignore excludes and caches, too"`
}

// ApplyToHost merges the changes of a workspace into a directory of the server's host.
func (c *Client) ApplyToHost(ctx context.Context, nameOrID string, opts HostApplyOptions) (Applied, error) {
	return get[Applied](ctx, c, request{method: http.MethodPost, path: workspacePath(nameOrID, "/apply-to-host"), json: opts})
}

// HostRoots lists the directories that ApplyToHost may write to.
func (c *Client) HostRoots(ctx context.Context) ([]string, error) {
	return getField[[]string](ctx, c, "roots", request{method: http.MethodGet, path: "/v1/host-roots"})
}

// RevertOptions are the options of Revert.
type RevertOptions struct {
	From  string            `json:"from,omitempty" doc:"id or name of a snapshot, since which changes count; empty is what the workspace started from"`
	Paths []string          `json:"paths,omitempty" doc:"changed paths that are reverted whole"`
	Hunks Hunks             `json:"hunks,omitempty" doc:"for paths of files, the hunks that are reverted, counted from 1 in /diff with the default context"`
	Shown map[string]string `json:"shown,omitempty" doc:"the changes that were shown, so that nothing else is reverted: by path, new.digest or new.target of /diff, empty for what was removed; if they differ now, the answer is 412"`
}

// Reverted is the result of Revert.
type Reverted struct {
	Paths []string `json:"paths" doc:"that were changed"`
	Undo  string   `json:"undo" doc:"id of the snapshot of the state before"`
}

// Revert reverts changes of a workspace.
func (c *Client) Revert(ctx context.Context, nameOrID string, opts RevertOptions) (Reverted, error) {
	return get[Reverted](ctx, c, request{method: http.MethodPost, path: workspacePath(nameOrID, "/revert"), json: opts})
}

// PatchOptions are the options of Patch.
type PatchOptions struct {
	From, To string
	Paths    []string
	Hunks    Hunks // by path, counted from 1
	Ignored  bool
}

// Patch returns the changes of a workspace as a patch in git's format. The caller closes it.
func (c *Client) Patch(ctx context.Context, nameOrID string, opts PatchOptions) (io.ReadCloser, error) {
	q := crossSessionQuery(false).text("from", opts.From).text("to", opts.To).flag("ignored", opts.Ignored)
	for _, p := range opts.Paths {
		q.Add("path", p)
	}
	for _, h := range opts.Hunks.Strings() {
		q.Add("hunk", h)
	}
	res, err := c.send(ctx, request{method: http.MethodGet, path: workspacePath(nameOrID, "/patch"), query: q.Values})
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}

// A Tenant is a tenant with its quotas and what it uses.
type Tenant struct {
	Tenant            string `json:"tenant" doc:"empty is the server's own, which has no quotas"`
	Workspaces        Quota  `json:"workspaces"`
	CPU               Quota  `json:"cpu" doc:"cores: the sum of the limits of its workspaces"`
	Memory            Quota  `json:"memory" doc:"bytes, likewise"`
	Disk              Quota  `json:"disk" doc:"bytes, likewise"`
	Connections       Quota  `json:"connections" doc:"requests and streams that this server has open"`
	RequestsPerSecond Quota  `json:"requestsPerSecond"`
}

// A Quota is what is used, and how much may be.
type Quota struct {
	Used *float64 `json:"used,omitempty" doc:"absent is not counted"`
	Max  float64  `json:"max,omitempty" doc:"absent is no quota"`
}

// Tenants lists the tenants that the caller sees.
func (c *Client) Tenants(ctx context.Context) ([]Tenant, error) {
	return getField[[]Tenant](ctx, c, "tenants", request{method: http.MethodGet, path: "/v1/tenants"})
}
