package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/croft-run/croft/internal/answer"
	"github.com/croft-run/croft/workspace/driver"
)

const storePath = "/v1/snapshots"

// Snapshots lists all snapshots of the server's store, the newest first.
func (c *Client) Snapshots(ctx context.Context) ([]driver.SnapshotInfo, error) {
	return getField[[]driver.SnapshotInfo](ctx, c, "snapshots", request{method: http.MethodGet, path: storePath})
}

// GCResult says what GCSnapshots removed.
type GCResult = answer.GCResult

// GCSnapshots removes what no snapshot needs.
func (c *Client) GCSnapshots(ctx context.Context) (GCResult, error) {
	return get[GCResult](ctx, c, request{method: http.MethodPost, path: storePath + "/gc"})
}

// StoreReport has the problems that CheckSnapshots found.
type StoreReport = answer.Report

// CheckSnapshots verifies all that is in the store.
func (c *Client) CheckSnapshots(ctx context.Context) (*StoreReport, error) {
	return get[*StoreReport](ctx, c, request{method: http.MethodPost, path: storePath + "/check"})
}

// Retention has the rules of PruneSnapshots. A snapshot that any rule keeps is kept.
type Retention struct {
	Keep      int    `json:"keep,omitempty" doc:"keep the newest so many of each workspace; 0 is no such rule"`
	MaxAge    string `json:"maxAge,omitempty" doc:"keep those that are younger, as 72h; empty is no such rule"`
	Workspace string `json:"workspace,omitempty" doc:"only snapshots of this workspace, by id"`
}

// PruneSnapshots deletes the snapshots that no rule keeps, and returns them.
func (c *Client) PruneSnapshots(ctx context.Context, r Retention) ([]driver.SnapshotInfo, error) {
	return getField[[]driver.SnapshotInfo](ctx, c, "snapshots", request{method: http.MethodPost, path: storePath + "/prune", json: r})
}

// Exported is a snapshot that was copied to a bucket.
type Exported struct {
	Snapshot driver.SnapshotInfo `json:"snapshot" doc:"as it is in the bucket"`
	LeftOut  []string            `json:"leftOut" doc:"files that are known to hold credentials, and were left out; the first thousand"`
}

// ExportSnapshot copies a snapshot to the store in a bucket. Files that are known to hold
// credentials are copied only if credentials is true.
func (c *Client) ExportSnapshot(ctx context.Context, id, to string, credentials bool) (Exported, error) {
	return get[Exported](ctx, c, request{
		method: http.MethodPost, path: storePath + "/" + url.PathEscape(id) + "/export", json: map[string]any{"to": to, "credentials": credentials},
	})
}

// ImportSnapshot copies a snapshot from the store in a bucket, by its id there, and
// returns the copy. Without an id it lists the snapshots in the bucket.
func (c *Client) ImportSnapshot(ctx context.Context, id, from string) ([]driver.SnapshotInfo, error) {
	return getField[[]driver.SnapshotInfo](ctx, c, "snapshots", request{
		method: http.MethodPost, path: storePath + "/import", json: map[string]string{"from": from, "snapshot": id},
	})
}

// ForgetSnapshot deletes a snapshot by its id, also of a workspace that is gone.
func (c *Client) ForgetSnapshot(ctx context.Context, id string) error {
	if err := checkSnapshotName(id); err != nil {
		return err
	}
	return c.call(ctx, request{method: http.MethodDelete, path: storePath + "/" + url.PathEscape(id)}, nil)
}
