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
	"github.com/croft-run/croft/host/files"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/snapshot/bucket"
)

// exportFunc copies a snapshot to a store in a bucket. One in a directory of this host
// lies where workspaces may use directories, and never in our own.
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

// importFunc returns what brings snapshots back from buckets, which for those in
// directories must lie in one of roots, unless that is nil. Without an id nothing
// is brought, and the answer is what there is.
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

// importSnapshot copies a snapshot from a store that others may have written: what it says
// to lie over is no directory of this host, and labels that mean something to
// Croft are not taken from it.
func (s *System) importSnapshot(ctx context.Context, there *snapshot.Store, id string) (*snapshot.Manifest, error) {
	tree, m, err := there.Tree(ctx, id)
	if err != nil {
		return nil, err
	}
	if m.Base != (snapshot.Base{}) || len(m.Paths) > 0 {
		return nil, fmt.Errorf("system: import %s: %w: it is not whole; croft snapshot export makes one that is", id, fault.InvalidArgument)
	}
	info := m.SnapshotInfo
	maps.DeleteFunc(info.Labels, func(label, _ string) bool { return strings.HasPrefix(label, "croft.") })
	return s.snapshots.Take(ctx, tree, &snapshot.TakeOptions{Info: info})
}

func (s *System) checkBucket(to string, roots []string) error {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "file" {
		return nil // bucket.Open judges it
	}
	path := files.Resolve(u.Path)
	if isWithin(files.Resolve(s.Dir), path) || isWithin(path, files.Resolve(s.Dir)) {
		return fmt.Errorf("system: bucket %s: %w: it is in the data directory, or holds it", path, fault.PermissionDenied)
	}
	if roots != nil && !slices.ContainsFunc(roots, func(root string) bool { return isWithin(files.Resolve(root), path) }) {
		return fmt.Errorf("system: bucket %s: %w: it is in none of the directories of the host that may be used (hostRoots)", path, fault.PermissionDenied)
	}
	return nil
}

func isWithin(root, path string) bool {
	return path == root || strings.HasPrefix(path, strings.TrimSuffix(root, "/")+"/")
}
