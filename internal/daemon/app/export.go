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
