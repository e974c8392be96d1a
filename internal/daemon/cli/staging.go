package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/prepare/stage"
	"github.com/croft-run/croft/workspace/driver"
)

// remoteStaging is the staging metadata of workspaces on the server, so that all
// programs that prepare a workspace share it.
type remoteStaging struct{ c *client.Client }

var _ stage.State = remoteStaging{}

// Lock waits for the server's lock on the workspace's staging metadata.
func (s remoteStaging) Lock(ctx context.Context, id string) (func(), error) {
	return s.c.LockStaging(ctx, id)
}

// Load returns the metadata of a workspace.
func (s remoteStaging) Load(ctx context.Context, id string) (*stage.Metadata, error) {
	data, err := s.c.Staging(ctx, id)
	if err != nil || data == nil {
		return nil, err
	}
	m := new(stage.Metadata)
	if err := driver.DecodeStrict(data, m); err != nil {
		return nil, fmt.Errorf("prep: staging metadata of the server: %w: %v", fault.Failed, err) //nolint:errorlint // it is not the caller's argument that is invalid
	}
	return m, nil
}

// Save replaces the metadata of a workspace.
func (s remoteStaging) Save(ctx context.Context, id string, m *stage.Metadata) error {
	data, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("prep: encode metadata: %w: %w", fault.Internal, err)
	}
	return s.c.SaveStaging(ctx, id, data)
}

// Record adds a collection; the server bounds how many it keeps.
func (s remoteStaging) Record(ctx context.Context, id string, rec stage.OutputRecord, _ int) error {
	data, err := json.Marshal(rec)
	if err != nil {
		return fmt.Errorf("collect: encode a record: %w: %w", fault.Internal, err)
	}
	return s.c.RecordOutput(ctx, id, data)
}

// Delete removes the metadata of a workspace.
func (s remoteStaging) Delete(ctx context.Context, id string) error {
	return s.c.SaveStaging(ctx, id, nil)
}

// remoteArtifacts are the artifacts of a workspace on the server.
type remoteArtifacts struct {
	c  *client.Client
	id string
}

var _ stage.ArtifactStore = remoteArtifacts{}

// Save saves a new version.
func (a remoteArtifacts) Save(ctx context.Context, name string, body io.Reader, mime string) (art stage.Artifact, err error) {
	data, err := a.c.SaveArtifact(ctx, a.id, name, mime, body)
	if err == nil {
		err = json.Unmarshal(data, &art)
	}
	return art, err
}

// Open opens a version, or the latest.
func (a remoteArtifacts) Open(ctx context.Context, name string, version int) (io.ReadCloser, stage.Artifact, error) {
	var art stage.Artifact
	body, data, err := a.c.OpenArtifact(ctx, a.id, name, version)
	if err != nil {
		return nil, art, err
	}
	if err := json.Unmarshal(data, &art); err != nil {
		body.Close()
		return nil, art, err
	}
	return body, art, nil
}

// Versions lists the versions of a name.
func (a remoteArtifacts) Versions(ctx context.Context, name string) ([]int, error) {
	data, err := a.c.ArtifactVersions(ctx, a.id, name)
	if err != nil {
		return nil, err
	}
	var list []stage.Artifact
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, err
	}
	var versions []int
	for _, art := range list {
		versions = append(versions, art.Version)
	}
	return versions, nil
}
