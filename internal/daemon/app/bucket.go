package app

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"time"

	"gocloud.dev/blob"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/blobs"
	"github.com/croft-run/croft/prepare/stage"
	"github.com/croft-run/croft/provider/all"
	"github.com/croft-run/croft/snapshot/bucket"
)

// Prefixes of the objects in the bucket of the configuration.
const (
	snapshotsPrefix = "store/"
	artifactsPrefix = "artifacts/"
)

// openSnapshots opens the store of snapshots and templates: in the bucket of the configuration, or
// else in the data directory.
func (s *System) openSnapshots(ctx context.Context) error {
	cfg := all.Config{Data: s.Dir, Needed: s.isSnapshotNeeded, TenantOf: s.tenants.Of, Log: s.log, Node: s.node}
	b, err := s.openBucket(ctx, snapshotsPrefix)
	if err != nil {
		return err
	}
	if b != nil {
		s.shared, s.bucket = append(s.shared, b), b
		cfg.Backend = bucket.New(b, "")
	}
	s.snapshots = all.Snapshots(cfg)
	return nil
}

// openArtifacts opens the artifacts of all workspaces: in the bucket of the configuration, or else
// in the data directory.
func (s *System) openArtifacts(ctx context.Context) error {
	dir := s.Dir
	u, err := url.Parse(s.settings().Store.Bucket)
	switch {
	case err == nil && u.Scheme == "file": // a directory needs locks, which a bucket has not
		dir = u.Path
	case s.hasBucket():
		b, err := s.openBucket(ctx, artifactsPrefix)
		if err != nil {
			return err
		}
		s.shared = append(s.shared, b)
		s.artifacts = stage.NewArtifacts(b, "")
		return nil
	}
	artifacts, b, err := stage.OpenArtifacts(filepath.Join(dir, artifactsPrefix), "")
	if err != nil {
		return err
	}
	s.artifacts = artifacts
	s.shared = append(s.shared, b)
	return nil
}

func (s *System) hasBucket() bool { return s.settings().Store.Bucket != "" }

// openBucket opens the part below a prefix of the bucket of the configuration; nil without one.
func (s *System) openBucket(ctx context.Context, prefix string) (*blob.Bucket, error) {
	if !s.hasBucket() {
		return nil, nil
	}
	address := s.settings().Store.Bucket
	if err := checkBucket(address, s.Dir, nil); err != nil {
		return nil, err
	}
	b, err := bucket.Open(ctx, address)
	if err != nil {
		return nil, err
	}
	return blob.PrefixedBucket(b, prefix), nil
}

// bucketTimeout bounds the check of the bucket at the start of a server.
const bucketTimeout = 15 * time.Second

// checkBucketAccess refuses a bucket that does not exist, or that the server may not list. One that
// does not answer now may do so later.
func (s *System) checkBucketAccess(ctx context.Context) error {
	if s.bucket == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, bucketTimeout)
	defer cancel()
	_, _, err := s.bucket.ListPage(ctx, blob.FirstPageToken, 1, nil)
	if err == nil {
		return nil
	}
	switch code := blobs.Code(err); code {
	case fault.NotFound:
		return fmt.Errorf("app: store.bucket: %w: there is no such bucket: %w", fault.InvalidArgument, err)
	case fault.PermissionDenied:
		return fmt.Errorf("app: store.bucket: %w: the credentials of the environment do not suffice: %w", code, err)
	default:
		s.log.Warn("the bucket does not answer; snapshots, templates and artifacts fail until it does", "error", err)
	}
	return nil
}
