package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gocloud.dev/blob"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/blobs"
	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/internal/paths"
	"github.com/croft-run/croft/prepare/stage"
	"github.com/croft-run/croft/provider/all"
	"github.com/croft-run/croft/snapshot"
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

// A snapshotExchange copies snapshots to and from stores in buckets. A bucket in a directory of this host
// must be in one of roots, unless that is nil, and never in the data directory.
type snapshotExchange struct {
	data      string
	roots     []string
	snapshots *snapshot.Store
}

// export copies a snapshot to the store in a bucket.
func (x *snapshotExchange) export(ctx context.Context, id, to string, credentials bool) (_ *snapshot.Manifest, err error) {
	if err := checkBucket(to, x.data, x.roots); err != nil {
		return nil, err
	}
	b, err := bucket.Open(ctx, to)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	return x.snapshots.Copy(ctx, id, snapshot.Open(bucket.New(b, ""), nil), &snapshot.CopyOptions{Credentials: credentials})
}

// fetch copies a snapshot from a bucket. Without an id it lists the bucket's snapshots.
func (x *snapshotExchange) fetch(ctx context.Context, id, from string) (_ []*snapshot.Manifest, err error) {
	if err := checkBucket(from, x.data, x.roots); err != nil {
		return nil, err
	}
	b, err := bucket.Open(ctx, from)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	there := snapshot.Open(bucket.New(b, ""), nil)
	if id == "" {
		return there.List(ctx)
	}
	m, err := x.fetchSnapshot(ctx, there, id)
	if err != nil {
		return nil, err
	}
	return []*snapshot.Manifest{m}, nil
}

// fetchSnapshot copies a snapshot from an untrusted store. It refuses a snapshot with
// a base, which could name a directory of this host, and drops labels that Croft
// interprets.
func (x *snapshotExchange) fetchSnapshot(ctx context.Context, there *snapshot.Store, id string) (*snapshot.Manifest, error) {
	tree, m, err := there.Tree(ctx, id)
	if err != nil {
		return nil, err
	}
	if m.Base != (snapshot.Base{}) || len(m.Paths) > 0 {
		return nil, fmt.Errorf("app: import %s: %w: it is not complete; export it again with croft snapshot export", id, fault.InvalidArgument)
	}
	info := m.SnapshotInfo
	maps.DeleteFunc(info.Labels, func(label, _ string) bool { return strings.HasPrefix(label, "croft.") })
	return x.snapshots.Take(ctx, tree, &snapshot.TakeOptions{Info: info})
}

// checkBucket refuses the data directory, and directories outside of roots, unless roots is nil.
func checkBucket(to, data string, roots []string) error {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "file" {
		return nil // bucket.Open checks it
	}
	path := files.Resolve(u.Path)
	if paths.Inside(files.Resolve(data), path) || paths.Inside(path, files.Resolve(data)) {
		return fmt.Errorf("app: bucket %s: %w: it overlaps the data directory; choose another directory", path, fault.PermissionDenied)
	}
	if roots != nil && !slices.ContainsFunc(roots, func(root string) bool { return paths.Inside(files.Resolve(root), path) }) {
		return fmt.Errorf("app: bucket %s: %w: it is outside the allowed directories of the host; add its directory to hostRoots", path, fault.PermissionDenied)
	}
	return nil
}
