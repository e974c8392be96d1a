package rest

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/registry"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

const storePath = "/v1/snapshots"

func (s snapshotRoutes) store() {
	handle(s, s.op(http.MethodGet, storePath, "list-all-snapshots", "All snapshots of the store, those of destroyed workspaces included, newest first"),
		with(s.snapshotStore, storeList))
	handle(s, operatorOnly(s.op(http.MethodPost, storePath+"/gc", "gc-snapshots", "Remove unused objects from the store")),
		with(s.snapshotStore, storeGC))
	handle(s, operatorOnly(s.op(http.MethodPost, storePath+"/check", "check-snapshots", "Read and verify the whole store")),
		with(s.snapshotStore, storeCheck))
	handle(s, s.op(http.MethodPost, storePath+"/prune", "prune-snapshots", "Delete snapshots by count and age"),
		with(s.snapshotStore, s.storePrune))
	handle(s, s.op(http.MethodDelete, storePath+"/{snapshot}", "forget-snapshot", "Delete a snapshot, also of a destroyed workspace"),
		with(s.snapshotStore, s.storeDelete))
	handle(s, operatorOnly(s.op(http.MethodPost, storePath+"/import", "import-snapshot", "Copy a snapshot from a store in a bucket, or list the bucket")), s.storeImport)
	handle(s, operatorOnly(s.op(http.MethodPost, storePath+"/{snapshot}/export", "export-snapshot", "Copy a snapshot to a store in a bucket")), s.storeExport)
}

// snapshotStore returns the store of snapshots.
func (s snapshotRoutes) snapshotStore(context.Context) (*snapshot.Store, error) {
	if s.cfg.Snapshots == nil {
		return nil, fmt.Errorf("the store of snapshots: %w: this server has none", fault.Unsupported)
	}
	return s.cfg.Snapshots, nil
}

func snapshotInfos(all []*snapshot.Manifest) []driver.SnapshotInfo {
	list := []driver.SnapshotInfo{}
	for _, m := range all {
		list = append(list, m.SnapshotInfo)
	}
	return list
}

func storeList(ctx context.Context, store *snapshot.Store, _ *none) (*body[Snapshots], error) {
	all, err := store.List(ctx)
	if err != nil && fault.CauseOf(err) != fault.CauseCorrupt { // storeCheck reports corrupt snapshots
		return nil, err
	}
	return &body[Snapshots]{Snapshots{snapshotInfos(all)}}, nil
}

func storeGC(ctx context.Context, store *snapshot.Store, _ *none) (*body[snapshot.GCResult], error) {
	return reply(store.GC(ctx))
}

func storeCheck(ctx context.Context, store *snapshot.Store, _ *none) (*body[snapshot.Report], error) {
	return replyTo(store.Check(ctx))
}

// Prune is the body of /snapshots/prune.
type Prune client.Retention

type pruneInput struct{ Body Prune }

func (s snapshotRoutes) storePrune(ctx context.Context, store *snapshot.Store, in *pruneInput) (_ *body[Snapshots], err error) {
	rule := snapshot.Retention{Keep: in.Body.Keep}
	if in.Body.MaxAge != "" {
		if rule.MaxAge, err = time.ParseDuration(in.Body.MaxAge); err != nil || rule.MaxAge <= 0 {
			return nil, badParameter("maxAge", "%q is not an age; give a positive duration such as 72h", in.Body.MaxAge)
		}
	}
	if rule.Keep < 0 || rule.Keep == 0 && rule.MaxAge == 0 {
		return nil, badParameter("keep", "a rule is required: keep, a number of at least 1, or maxAge")
	}
	if rule.Spare, err = s.originSnapshots(ctx); err != nil {
		return nil, err
	}
	gone, err := store.PruneEach(ctx, rule, func(m *snapshot.Manifest) bool {
		return in.Body.Workspace == "" || m.Workspace == in.Body.Workspace
	})
	if err != nil {
		return nil, err
	}
	return &body[Snapshots]{Snapshots{snapshotInfos(gone)}}, nil
}

// originSnapshots are the origins of existing workspaces, by id. They are needed to
// compute the changes of those workspaces.
func (s snapshotRoutes) originSnapshots(ctx context.Context) (map[string]bool, error) {
	recs, err := s.cfg.Registry.List(auth.Without(ctx), registry.Filter{}) // tenants share templates
	if err != nil {
		return nil, err
	}
	ids := map[string]bool{}
	for _, rec := range recs {
		if id := rec.Spec.From.Snapshot; id != "" {
			ids[id] = true
		}
	}
	return ids, nil
}

// Export is the body of /snapshots/{snapshot}/export.
type Export struct {
	To          string `json:"to" doc:"URL of the bucket: file:///path, s3://bucket?region=... or mem://"`
	Credentials bool   `json:"credentials,omitempty" doc:"take files along that are known to hold credentials"`
}

type exportInput struct {
	Snapshot string `path:"snapshot" doc:"id of the snapshot"`
	Body     Export
}

func (s snapshotRoutes) storeExport(ctx context.Context, in *exportInput) (*body[Exported], error) {
	if s.cfg.Export == nil {
		return nil, fmt.Errorf("export: %w: this server knows no buckets", fault.Unsupported)
	}
	m, err := s.cfg.Export(ctx, in.Snapshot, in.Body.To, in.Body.Credentials)
	if err != nil {
		return nil, err
	}
	out := Exported{Snapshot: m.SnapshotInfo, LeftOut: m.LeftOut}
	if out.LeftOut == nil {
		out.LeftOut = []string{}
	}
	return &body[Exported]{out}, nil
}

type storeDeleteInput struct {
	Snapshot string `path:"snapshot" doc:"id of the snapshot"`
}

// storeDelete deletes a snapshot, unless it is a template or the origin of an existing
// workspace.
func (s snapshotRoutes) storeDelete(ctx context.Context, store *snapshot.Store, in *storeDeleteInput) (*none, error) {
	m, err := store.Get(ctx, in.Snapshot)
	if err != nil && fault.CauseOf(err) != fault.CauseCorrupt {
		return nil, err
	}
	if m != nil && m.Labels[snapshot.TemplateLabel] != "" {
		err := fmt.Errorf("snapshot %s: %w: it is the template %s", in.Snapshot, fault.WrongState, m.Labels[snapshot.TemplateLabel])
		return nil, fault.Advise(err, "delete the template")
	}
	needed, err := s.originSnapshots(ctx)
	if err != nil {
		return nil, err
	}
	if needed[in.Snapshot] {
		return nil, fmt.Errorf("snapshot %s: %w: it is the origin of existing workspaces; remove them first", in.Snapshot, fault.WrongState)
	}
	return nil, store.Delete(ctx, in.Snapshot)
}

// Import is the body of /snapshots/import.
type Import struct {
	From     string `json:"from" doc:"URL of the bucket: file:///path, s3://bucket?region=... or mem://"`
	Snapshot string `json:"snapshot,omitempty" doc:"id that it has there; without one nothing is brought, and the answer lists what is there"`
}

type importSnapshotInput struct{ Body Import }

func (s snapshotRoutes) storeImport(ctx context.Context, in *importSnapshotInput) (*body[Snapshots], error) {
	if s.cfg.Import == nil {
		return nil, fmt.Errorf("import: %w: this server knows no buckets", fault.Unsupported)
	}
	all, err := s.cfg.Import(ctx, in.Body.Snapshot, in.Body.From)
	if err != nil {
		return nil, err
	}
	return &body[Snapshots]{Snapshots{snapshotInfos(all)}}, nil
}
