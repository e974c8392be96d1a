package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/croft-run/croft/fault"
)

const artifactHeader = "Croft-Artifact"

type staging struct {
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

// Staging returns the staging metadata of a workspace: a stage.Metadata, or nil.
func (c *Client) Staging(ctx context.Context, nameOrID string) (json.RawMessage, error) {
	m, err := get[staging](ctx, c, request{method: http.MethodGet, path: workspacePath(nameOrID, "/staging")})
	return m.Metadata, err
}

// SaveStaging replaces the staging metadata; nil removes it.
func (c *Client) SaveStaging(ctx context.Context, nameOrID string, metadata json.RawMessage) error {
	return c.call(ctx, request{method: http.MethodPut, path: workspacePath(nameOrID, "/staging"), json: staging{metadata}}, nil)
}

// RecordOutput adds a collection, a stage.OutputRecord, to the staging metadata. It
// needs no lock.
func (c *Client) RecordOutput(ctx context.Context, nameOrID string, output json.RawMessage) error {
	body := map[string]json.RawMessage{"output": output}
	return c.call(ctx, request{method: http.MethodPost, path: workspacePath(nameOrID, "/staging/outputs"), json: body}, nil)
}

// LockStaging waits for the lock on the staging metadata of a workspace. The lock ends
// with unlock or with the connection.
func (c *Client) LockStaging(ctx context.Context, nameOrID string) (unlock func(), err error) {
	// ctx bounds the wait for the lock. The request, which holds the lock, outlives ctx.
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	res, err := c.send(life, request{method: http.MethodPost, path: workspacePath(nameOrID, "/staging/lock")}) //nolint:bodyclose // unlocking closes it
	if err == nil {
		if _, err = io.ReadFull(res.Body, make([]byte, 1)); err != nil {
			res.Body.Close()
			err = c.transportError(ctx, err)
		}
	}
	stop()
	if err != nil {
		cancel()
		if ctx.Err() != nil {
			err = fmt.Errorf("client: wait for workspace %s: %w", nameOrID, ctx.Err())
		}
		return nil, err
	}
	return func() {
		cancel()
		res.Body.Close()
	}, nil
}

// ArtifactVersions lists the versions of an artifact of a workspace, as a list of
// stage.Artifact. If name is "", it lists the latest version of each artifact.
func (c *Client) ArtifactVersions(ctx context.Context, nameOrID, name string) (json.RawMessage, error) {
	q := url.Values{}
	if name != "" {
		q.Set("name", name)
	}
	type list struct {
		Artifacts json.RawMessage `json:"artifacts"`
	}
	out, err := get[list](ctx, c, request{method: http.MethodGet, path: workspacePath(nameOrID, "/artifacts"), query: q})
	return out.Artifacts, err
}

// Artifacts lists the latest version of every artifact of every workspace, also of
// those that are gone: each a stage.Artifact with the id of its "workspace".
func (c *Client) Artifacts(ctx context.Context) (json.RawMessage, error) {
	type list struct {
		Artifacts json.RawMessage `json:"artifacts"`
	}
	out, err := get[list](ctx, c, request{method: http.MethodGet, path: "/v1/artifacts"})
	return out.Artifacts, err
}

// DeleteArtifact deletes a version of an artifact; -1 is all of them.
func (c *Client) DeleteArtifact(ctx context.Context, nameOrID, name string, version int) error {
	return c.call(ctx, request{
		method: http.MethodDelete, path: workspacePath(nameOrID, "/artifacts/content"), query: url.Values{"name": {name}, "version": {strconv.Itoa(version)}},
	}, nil)
}

// SaveArtifact saves a new version, and returns it: a stage.Artifact.
func (c *Client) SaveArtifact(ctx context.Context, nameOrID, name, mime string, body io.Reader) (json.RawMessage, error) {
	q := url.Values{"name": {name}}
	if mime != "" {
		q.Set("mime", mime)
	}
	up := newUpload(ctx, name, body, 0)
	out, err := get[json.RawMessage](ctx, c, request{
		method: http.MethodPut, path: workspacePath(nameOrID, "/artifacts/content"), query: q, body: up, header: http.Header{"Content-Type": {"application/octet-stream"}},
	})
	if serr := up.stop(ctx); serr != nil {
		return nil, serr
	}
	return out, err
}

// OpenArtifact opens a version of an artifact, and returns its description: a
// stage.Artifact. Version -1 is the latest.
func (c *Client) OpenArtifact(ctx context.Context, nameOrID, name string, version int) (io.ReadCloser, json.RawMessage, error) {
	res, err := c.send(ctx, request{
		method: http.MethodGet, path: workspacePath(nameOrID, "/artifacts/content"), query: url.Values{"name": {name}, "version": {strconv.Itoa(version)}},
	})
	if err != nil {
		return nil, nil, err
	}
	which := json.RawMessage(res.Header.Get(artifactHeader))
	if !json.Valid(which) {
		res.Body.Close()
		return nil, nil, fmt.Errorf("client: artifact %s: %w: server %s sent no valid %s", name, fault.Unavailable, c.base, artifactHeader)
	}
	return &content{ReadCloser: res.Body, ctx: ctx, c: c}, which, nil
}
