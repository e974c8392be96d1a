package client

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

const templatesPath = "/v1/templates"

// TemplateRequest is the argument of CreateTemplate. Exactly one of Dir, Snapshot, Git and
// Image is set.
type TemplateRequest struct {
	Name     string   `json:"name"`
	Dir      string   `json:"dir,omitempty" doc:"a directory of the server's host, as a path from its root"`
	Snapshot string   `json:"snapshot,omitempty" doc:"id of a snapshot"`
	Git      string   `json:"git,omitempty" doc:"a git repository of the server's host"`
	Revision string   `json:"revision,omitempty" doc:"of the repository; empty is HEAD"`
	Image    string   `json:"image,omitempty" doc:"an OCI layout or tarball of the server's host, or the name of an image in a registry"`
	Ignore   []string `json:"ignore,omitempty" doc:"patterns in the manner of .gitignore, to leave out"`

	Credentials bool `json:"credentials,omitempty" doc:"credential files of a directory, such as .env, too"`
}

// A Template is what workspaces start from.
type Template struct {
	Name     string    `json:"name"`
	Tenant   string    `json:"tenant,omitempty" doc:"absent is the server's own, which all tenants see"`
	Snapshot string    `json:"snapshot"`
	Source   string    `json:"source"`
	Created  time.Time `json:"created"`
	Files    int64     `json:"files"`
	Bytes    int64     `json:"bytes"`
	Digest   string    `json:"digest"`

	LeftOut []string `json:"leftOut,omitempty" doc:"credential files that were left out, up to a limit"`
}

// CreateTemplate makes a template.
func (c *Client) CreateTemplate(ctx context.Context, t TemplateRequest) (Template, error) {
	return get[Template](ctx, c, request{method: http.MethodPost, path: templatesPath, json: t})
}

// Templates lists the templates.
func (c *Client) Templates(ctx context.Context) ([]Template, error) {
	return getField[[]Template](ctx, c, "templates", request{method: http.MethodGet, path: templatesPath})
}

// Template returns one by its name.
func (c *Client) Template(ctx context.Context, name string) (Template, error) {
	if err := checkSnapshotName(name); err != nil {
		return Template{}, err
	}
	return get[Template](ctx, c, request{method: http.MethodGet, path: templatesPath + "/" + url.PathEscape(name)})
}

// DeleteTemplate deletes a template.
func (c *Client) DeleteTemplate(ctx context.Context, name string) error {
	if err := checkSnapshotName(name); err != nil {
		return err
	}
	return c.call(ctx, request{method: http.MethodDelete, path: templatesPath + "/" + url.PathEscape(name)}, nil)
}
