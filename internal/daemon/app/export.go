package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/internal/paths"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/snapshot/bucket"
)

// exportFunc returns a function that copies a snapshot to a store in a bucket. A bucket
// in a directory of this host must be in one of roots, unless that is nil, and never
// in the data directory.
func (s *System) exportFunc(roots []string) func(ctx context.Context, id, to string, credentials bool) (*snapshot.Manifest, error) {
	return func(ctx context.Context, id, to string, credentials bool) (_ *snapshot.Manifest, err error) {
		if err := s.checkBucket(to, roots); err != nil {
			return nil, err
		}
		b, err := bucket.Open(ctx, to)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, b.Close()) }()
		return s.snapshots.Copy(ctx, id, snapshot.Open(bucket.New(b, ""), nil), &snapshot.CopyOptions{Credentials: credentials})
	}
}

// importFunc returns a function that copies a snapshot from a bucket, with the same
// rule for directories as exportFunc. Without an id it lists the bucket's snapshots.
func (s *System) importFunc(roots []string) func(ctx context.Context, id, from string) ([]*snapshot.Manifest, error) {
	return func(ctx context.Context, id, from string) (_ []*snapshot.Manifest, err error) {
		if err := s.checkBucket(from, roots); err != nil {
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
		m, err := s.importSnapshot(ctx, there, id)
		if err != nil {
			return nil, err
		}
		return []*snapshot.Manifest{m}, nil
	}
}

// importSnapshot copies a snapshot from an untrusted store. It refuses a snapshot with
// a base, which could name a directory of this host, and drops labels that Croft
// interprets.
func (s *System) importSnapshot(ctx context.Context, there *snapshot.Store, id string) (*snapshot.Manifest, error) {
	tree, m, err := there.Tree(ctx, id)
	if err != nil {
		return nil, err
	}
	if m.Base != (snapshot.Base{}) || len(m.Paths) > 0 {
		return nil, fmt.Errorf("app: import %s: %w: it is not complete; export it again with croft snapshot export", id, fault.InvalidArgument)
	}
	info := m.SnapshotInfo
	maps.DeleteFunc(info.Labels, func(label, _ string) bool { return strings.HasPrefix(label, "croft.") })
	return s.snapshots.Take(ctx, tree, &snapshot.TakeOptions{Info: info})
}

func (s *System) checkBucket(to string, roots []string) error {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "file" {
		return nil // bucket.Open checks it
	}
	path := files.Resolve(u.Path)
	if paths.Inside(files.Resolve(s.Dir), path) || paths.Inside(path, files.Resolve(s.Dir)) {
		return fmt.Errorf("app: bucket %s: %w: it overlaps the data directory; choose another directory", path, fault.PermissionDenied)
	}
	if roots != nil && !slices.ContainsFunc(roots, func(root string) bool { return paths.Inside(files.Resolve(root), path) }) {
		return fmt.Errorf("app: bucket %s: %w: it is outside the allowed directories of the host; add its directory to hostRoots", path, fault.PermissionDenied)
	}
	return nil
}
