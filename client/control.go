package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// Workspace is a workspace of the server.
type Workspace struct {
	ID           string              `json:"id"`
	Name         string              `json:"name,omitempty"`
	Owner        string              `json:"owner,omitempty"`
	Kind         string              `json:"kind"`
	State        string              `json:"state"`
	Node         string              `json:"node,omitempty" doc:"replica that owns it, in a cluster"`
	Labels       map[string]string   `json:"labels,omitempty"`
	Tenant       string              `json:"tenant,omitempty" doc:"absent is the server's own"`
	Template     string              `json:"template,omitempty" doc:"name of the template that it started from"`
	Snapshot     string              `json:"snapshot,omitempty" doc:"id of the snapshot that it started from"`
	Dir          string              `json:"dir,omitempty" doc:"directory of the server's host that is used in place"`
	Policy       driver.Policy       `json:"policy"`
	Capabilities driver.Capabilities `json:"capabilities,omitempty" doc:"modules that it has, once it was opened"`
	Revision     int64               `json:"revision,omitempty" doc:"grows with every change of policy"`
	Traits       *driver.Traits      `json:"traits,omitempty" doc:"what is enforced, and by what; in answers to open and acquire"`
	Functions    []string            `json:"functions,omitempty" doc:"optional operations that it has; in answers to open and acquire"`

	Languages       []string `json:"languages,omitempty" doc:"of code, the default first; a last * says that there may be more; in answers to open and acquire"`
	ScriptLanguages []string `json:"scriptLanguages,omitempty" doc:"of scripts, likewise"`

	CreatedAt time.Time   `json:"createdAt"`
	UpdatedAt time.Time   `json:"updatedAt"`
	LastUsed  time.Time   `json:"lastUsed,omitzero"`
	EndAt     time.Time   `json:"endAt,omitzero" doc:"when it ends, used or not; absent is never"`
	OnEnd     string      `json:"onEnd,omitempty" doc:"pause if it is paused then; absent is destroyed"`
	Sandbox   bool        `json:"sandbox,omitempty" doc:"created through E2B's API, so that E2B's SDKs can connect to it"`
	Attempts  int         `json:"attempts,omitempty" doc:"failed tries to open it"`
	Error     *fault.Wire `json:"error,omitempty" doc:"why it is in the state failed"`

	Metrics *Metrics `json:"metrics,omitempty" doc:"what it uses now; in a list with metrics=true"`
}

// Description has all details of a workspace, for operators.
type Description struct {
	Workspace
	Live    bool           `json:"live" doc:"the server has a handle on it"`
	Holders []Holder       `json:"holders,omitempty" doc:"processes with a lease on it"`
	Moves   []string       `json:"moves" doc:"states that may come next"`
	Pending *driver.Policy `json:"pending,omitempty" doc:"a policy that is not yet known to be in force"`
}

// Holder is a process with a lease on a workspace.
type Holder struct {
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	Died    bool      `json:"died,omitempty" doc:"the process has ended; its lease is free when it expires"`
	Expires time.Time `json:"expires"`
}

// ProviderInfo is a provider of the server, with its traits or why it is unusable.
type ProviderInfo struct {
	Kind   string         `json:"kind"`
	Traits *driver.Traits `json:"traits,omitempty" doc:"what this host supports"`
	Error  *fault.Wire    `json:"error,omitempty" doc:"why it is unusable here"`
}

// Filter chooses workspaces; a zero field matches all.
type Filter struct {
	Labels map[string]string
	State  string
	Kind   string
	Owner  string
}

// Change is the argument of Client.Change. A nil field is not changed.
type Change struct {
	Labels *map[string]string `json:"labels,omitempty" doc:"replaces all labels"`
	Policy *driver.Policy     `json:"policy,omitempty" doc:"replaces the policy; the revision grows"`
}

const workspacesPath = "/v1/workspaces"

// workspacePath returns the path of a route of one workspace.
func workspacePath(nameOrID, route string) string {
	return workspacesPath + "/" + url.PathEscape(nameOrID) + route
}

// Create opens a workspace. spec.Kind is the name of a provider of the server. Without an
// id the server makes one; with the id of an existing workspace, Create returns it.
func (c *Client) Create(ctx context.Context, spec driver.Spec) (Workspace, error) {
	return c.CreateWith(ctx, spec, "")
}

// CreateWith is Create with the name of a policy in the server's configuration. What
// spec.Policy sets replaces what the named policy sets.
func (c *Client) CreateWith(ctx context.Context, spec driver.Spec, policy string) (Workspace, error) {
	q := url.Values{}
	setParam(q, "policy", policy)
	return get[Workspace](ctx, c, request{method: http.MethodPost, path: workspacesPath, query: q, json: spec})
}

// List lists workspaces.
func (c *Client) List(ctx context.Context, f Filter) ([]Workspace, error) {
	q := url.Values{}
	for k, v := range f.Labels {
		q.Add("label", k+"="+v)
	}
	setParam(q, "state", f.State)
	setParam(q, "kind", f.Kind)
	setParam(q, "owner", f.Owner)
	return getField[[]Workspace](ctx, c, "workspaces", request{method: http.MethodGet, path: workspacesPath, query: q})
}

// Show returns one workspace.
func (c *Client) Show(ctx context.Context, nameOrID string) (Workspace, error) {
	return get[Workspace](ctx, c, request{method: http.MethodGet, path: workspacePath(nameOrID, "")})
}

// Acquire opens a workspace if needed and returns it with its traits.
func (c *Client) Acquire(ctx context.Context, nameOrID string) (Workspace, error) {
	return get[Workspace](ctx, c, request{method: http.MethodPost, path: workspacePath(nameOrID, "/acquire")})
}

// Destroy ends a workspace.
func (c *Client) Destroy(ctx context.Context, nameOrID string) error {
	return c.call(ctx, request{method: http.MethodDelete, path: workspacePath(nameOrID, "")}, nil)
}

// Describe returns all details of a workspace.
func (c *Client) Describe(ctx context.Context, nameOrID string) (Description, error) {
	return get[Description](ctx, c, request{method: http.MethodGet, path: workspacePath(nameOrID, "/describe")})
}

// Reset lets a failed workspace be opened again.
func (c *Client) Reset(ctx context.Context, nameOrID string) (Workspace, error) {
	return get[Workspace](ctx, c, request{method: http.MethodPost, path: workspacePath(nameOrID, "/reset")})
}

// Pause stops the processes of a workspace.
func (c *Client) Pause(ctx context.Context, nameOrID string) error {
	return c.call(ctx, request{method: http.MethodPost, path: workspacePath(nameOrID, "/pause")}, nil)
}

// Resume goes on where Pause stopped.
func (c *Client) Resume(ctx context.Context, nameOrID string) error {
	return c.call(ctx, request{method: http.MethodPost, path: workspacePath(nameOrID, "/resume")}, nil)
}

// Change changes labels or policy.
func (c *Client) Change(ctx context.Context, nameOrID string, change Change) (Workspace, error) {
	return get[Workspace](ctx, c, request{method: http.MethodPatch, path: workspacePath(nameOrID, ""), json: change})
}

// Providers lists the server's providers.
func (c *Client) Providers(ctx context.Context) ([]ProviderInfo, error) {
	return getField[[]ProviderInfo](ctx, c, "providers", request{method: http.MethodGet, path: "/v1/providers"})
}

// Profile returns the profile of the projects in a workspace, as JSON.
func (c *Client) Profile(ctx context.Context, nameOrID string) (json.RawMessage, error) {
	return get[json.RawMessage](ctx, c, request{method: http.MethodGet, path: workspacePath(nameOrID, "/profile")})
}

// Version returns the version of the server.
func (c *Client) Version(ctx context.Context) (string, error) {
	return getField[string](ctx, c, "version", request{method: http.MethodGet, path: "/v1/version"})
}

// setParam sets a query parameter unless it is empty.
func setParam(q url.Values, key, value string) {
	if value != "" {
		q.Set(key, value)
	}
}
