package wscmd

import (
	"context"
	"io"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/prepare/stage"
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
	return s.c.Staging(ctx, id)
}

// Save replaces the metadata of a workspace.
func (s remoteStaging) Save(ctx context.Context, id string, m *stage.Metadata) error {
	return s.c.SaveStaging(ctx, id, m)
}

// Record adds a collection; the server bounds how many it keeps.
func (s remoteStaging) Record(ctx context.Context, id string, rec stage.OutputRecord, _ int) error {
	return s.c.RecordOutput(ctx, id, rec)
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
func (a remoteArtifacts) Save(ctx context.Context, name string, body io.Reader, mime string) (stage.Artifact, error) {
	return a.c.SaveArtifact(ctx, a.id, name, mime, body)
}

// Open opens a version, or the latest.
func (a remoteArtifacts) Open(ctx context.Context, name string, version int) (io.ReadCloser, stage.Artifact, error) {
	return a.c.OpenArtifact(ctx, a.id, name, version)
}

// Versions lists the versions of a name.
func (a remoteArtifacts) Versions(ctx context.Context, name string) ([]int, error) {
	list, err := a.c.ArtifactVersions(ctx, a.id, name)
	var versions []int
	for _, art := range list {
		versions = append(versions, art.Version)
	}
	return versions, err
}
