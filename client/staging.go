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
	"github.com/croft-run/croft/internal/answer"
	"github.com/croft-run/croft/workspace/driver"
)

const artifactHeader = "Croft-Artifact"

// What a workspace was prepared with, and what was collected from it.
//
//nolint:revive // one comment for all
type (
	StagingMetadata   = answer.Metadata
	OutputRecord      = answer.OutputRecord
	Artifact          = answer.Artifact
	WorkspaceArtifact = answer.WorkspaceArtifact
)

// Staging returns the staging metadata of a workspace, or nil. Metadata with a key that this
// version does not know is fault.Failed: SaveStaging would lose it.
func (c *Client) Staging(ctx context.Context, nameOrID string) (*StagingMetadata, error) {
	data, err := getField[json.RawMessage](ctx, c, "metadata", request{method: http.MethodGet, path: workspacePath(nameOrID, "/staging")})
	if err != nil || data == nil {
		return nil, err
	}
	m := new(StagingMetadata)
	if err := driver.DecodeStrict(data, m); err != nil {
		return nil, fmt.Errorf("client: staging metadata of the server: %w: %v", fault.Failed, err) //nolint:errorlint // it is not the caller's argument that is invalid
	}
	return m, nil
}

// SaveStaging replaces the staging metadata; nil removes it.
func (c *Client) SaveStaging(ctx context.Context, nameOrID string, m *StagingMetadata) error {
	body := map[string]*StagingMetadata{"metadata": m}
	return c.call(ctx, request{method: http.MethodPut, path: workspacePath(nameOrID, "/staging"), json: body}, nil)
}

// RecordOutput adds a collection to the staging metadata. It needs no lock.
func (c *Client) RecordOutput(ctx context.Context, nameOrID string, output OutputRecord) error {
	body := map[string]OutputRecord{"output": output}
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

// ArtifactVersions lists the versions of an artifact of a workspace. If name is "", it lists
// the latest version of each artifact.
func (c *Client) ArtifactVersions(ctx context.Context, nameOrID, name string) ([]Artifact, error) {
	q := url.Values{}
	setParam(q, "name", name)
	return getField[[]Artifact](ctx, c, "artifacts", request{method: http.MethodGet, path: workspacePath(nameOrID, "/artifacts"), query: q})
}

// Artifacts lists the latest version of every artifact of every workspace, also of those
// that are gone.
func (c *Client) Artifacts(ctx context.Context) ([]WorkspaceArtifact, error) {
	return getField[[]WorkspaceArtifact](ctx, c, "artifacts", request{method: http.MethodGet, path: "/v1/artifacts"})
}

// DeleteArtifact deletes a version of an artifact; -1 is all of them.
func (c *Client) DeleteArtifact(ctx context.Context, nameOrID, name string, version int) error {
	return c.call(ctx, request{
		method: http.MethodDelete, path: workspacePath(nameOrID, "/artifacts/content"), query: url.Values{"name": {name}, "version": {strconv.Itoa(version)}},
	}, nil)
}

// SaveArtifact saves a new version, and returns it.
func (c *Client) SaveArtifact(ctx context.Context, nameOrID, name, mime string, body io.Reader) (Artifact, error) {
	q := url.Values{"name": {name}}
	setParam(q, "mime", mime)
	up := newUpload(ctx, name, body, 0)
	out, err := get[Artifact](ctx, c, request{
		method: http.MethodPut, path: workspacePath(nameOrID, "/artifacts/content"), query: q, body: up, header: http.Header{"Content-Type": {"application/octet-stream"}},
	})
	if serr := up.stop(ctx); serr != nil {
		return Artifact{}, serr
	}
	return out, err
}

// OpenArtifact opens a version of an artifact, and says which it is. Version -1 is the latest.
func (c *Client) OpenArtifact(ctx context.Context, nameOrID, name string, version int) (io.ReadCloser, Artifact, error) {
	var which Artifact
	res, err := c.send(ctx, request{
		method: http.MethodGet, path: workspacePath(nameOrID, "/artifacts/content"), query: url.Values{"name": {name}, "version": {strconv.Itoa(version)}},
	})
	if err != nil {
		return nil, which, err
	}
	if err := json.Unmarshal([]byte(res.Header.Get(artifactHeader)), &which); err != nil {
		res.Body.Close()
		return nil, which, fmt.Errorf("client: artifact %s: %w: server %s sent no valid %s", name, fault.Unavailable, c.base, artifactHeader)
	}
	return &content{ReadCloser: res.Body, ctx: ctx, c: c}, which, nil
}
