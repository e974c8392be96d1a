package rest

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/history"
	"github.com/croft-run/croft/registry"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// Now and Origin are names of states of a workspace: the current one, and the one that
// the workspace started from.
const (
	Now    = history.Now
	Origin = history.Origin
)

func (s snapshotRoutes) register() {
	const snapshots = onePath + "/snapshots"
	onWorkspace(s, s.op(http.MethodPost, snapshots, "take-snapshot", "Take a snapshot of the files"), takeSnapshot)
	onWorkspace(s, shown(s.op(http.MethodGet, snapshots, "list-snapshots", "Snapshots of a workspace, the newest first")), listSnapshots)
	onWorkspace(s, s.op(http.MethodDelete, snapshots+"/{snapshot}", "delete-snapshot", "Forget a snapshot"), deleteSnapshot)
	onWorkspace(s, s.op(http.MethodPost, snapshots+"/{snapshot}/rollback", "rollback", "Return to a snapshot in place; the answer is the snapshot of the previous state"), rollbackWorkspace)
	onWorkspace(s, s.op(http.MethodPost, onePath+"/seal", "seal", "Make the files a layer from which workspaces start"), sealWorkspace)
	onRecord(s, s.op(http.MethodPost, onePath+"/fork", "fork", "Open new workspaces from a snapshot of this one, or from its present state"), s.forkWorkspace)
	onWorkspace(s, s.op(http.MethodPost, onePath+"/apply", "apply", "Merge the changes of another workspace into this one, all or nothing"), s.applyChanges)
	onWorkspace(s, shown(s.op(http.MethodGet, onePath+"/diff", "diff", "What differs between two states of a workspace")), s.diffStates)
	onWorkspace(s, s.op(http.MethodPost, snapshots+"/{snapshot}/pin", "snapshot-pin", "Keep a state readable as it is now, @now above all, for the requests that follow"), s.pinState)
	onSnapshot(s, shown(s.op(http.MethodGet, snapshots+"/{snapshot}/stat", "snapshot-stat", "Describe what is at a path of a snapshot")), snapshotStat)
	onSnapshot(s, shown(s.op(http.MethodGet, snapshots+"/{snapshot}/readdir", "snapshot-readdir", "List a directory of a snapshot, one level")), snapshotReadDir)
	read := shown(s.op(http.MethodGet, snapshots+"/{snapshot}/files", "snapshot-read", "The content of a file of a snapshot"))
	read.Responses["200"] = octetResponse("the content")
	onSnapshot(s, read, s.snapshotRead)
}

// SnapshotRequest is the body of a snapshot and of a seal.
type SnapshotRequest struct {
	Name   string            `json:"name,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	Ignore []string          `json:"ignore,omitempty" doc:"patterns in the manner of .gitignore, to leave out"`

	Complete bool `json:"complete,omitempty" doc:"fail if a file can't be read, instead of listing it under missing"`
}

// TakeSnapshot is the body of a snapshot.
type TakeSnapshot struct {
	SnapshotRequest
	Processes bool `json:"processes,omitempty" doc:"processes and memory, too, where the provider can"`
}

func (r *SnapshotRequest) snapshotOptions() *driver.SnapshotOptions {
	return &driver.SnapshotOptions{Name: r.Name, Labels: r.Labels, Ignore: r.Ignore, Complete: r.Complete}
}

type takeSnapshotInput struct {
	Target
	Body TakeSnapshot
}

func takeSnapshot(ctx context.Context, ws *workspace.Workspace, in *takeSnapshotInput) (*body[driver.SnapshotInfo], error) {
	take := ws.Snapshot
	if in.Body.Processes {
		take = ws.Checkpoint
	}
	return reply(take(ctx, in.Body.snapshotOptions()))
}

type sealInput struct {
	Target
	Body SnapshotRequest
}

func sealWorkspace(ctx context.Context, ws *workspace.Workspace, in *sealInput) (*body[driver.SnapshotInfo], error) {
	return reply(ws.Seal(ctx, in.Body.snapshotOptions()))
}

// Snapshots is the answer of GET /snapshots.
type Snapshots struct {
	Snapshots []driver.SnapshotInfo `json:"snapshots"`
}

type listSnapshotsInput struct {
	Target
	CrossSession bool `query:"crossSession" doc:"those of other workspaces and sessions, too"`
	Limit        int  `query:"limit" minimum:"0" doc:"only the newest N; 0 is all"`
	Origin       bool `query:"origin" doc:"and at the end the one that the workspace started from, where it is still there"`
}

func listSnapshots(ctx context.Context, ws *workspace.Workspace, in *listSnapshotsInput) (*body[Snapshots], error) {
	list, err := ws.Snapshots(ctx, &driver.ListSnapshotsOptions{SnapshotAccess: driver.SnapshotAccess{CrossSession: in.CrossSession}, Limit: in.Limit, Origin: in.Origin})
	if list == nil {
		list = []driver.SnapshotInfo{}
	}
	return &body[Snapshots]{Snapshots{list}}, err
}

// SnapshotTarget addresses a snapshot; the inputs of its routes embed it.
type SnapshotTarget struct {
	Target
	Snapshot     string `path:"snapshot" doc:"id or name of the snapshot"`
	CrossSession bool   `query:"crossSession" doc:"one of another session, too"`
}

func (in *SnapshotTarget) access() *driver.SnapshotAccess {
	return &driver.SnapshotAccess{CrossSession: in.CrossSession}
}

func deleteSnapshot(ctx context.Context, ws *workspace.Workspace, in *SnapshotTarget) (*none, error) {
	return nil, ws.DeleteSnapshot(ctx, in.Snapshot, in.access())
}

func rollbackWorkspace(ctx context.Context, ws *workspace.Workspace, in *SnapshotTarget) (*body[driver.SnapshotInfo], error) {
	return reply(ws.Rollback(ctx, in.Snapshot, in.access()))
}

// Fork is the body of /fork.
type Fork client.ForkOptions

type forkInput struct {
	Target
	Body Fork
}

// maxForks bounds what one request may open.
const maxForks = 1000

// forkWorkspace opens workspaces like this one, from a state of it: all of them or none.
func (s snapshotRoutes) forkWorkspace(ctx context.Context, r registry.Record, in *forkInput) (*body[Forked], error) {
	if in.Body.Count < 0 || in.Body.Count > maxForks {
		return nil, fmt.Errorf("fork %d times: %w: count must be 1 to %d; 0 is 1", in.Body.Count, fault.InvalidArgument, maxForks)
	}
	ws, err := s.liveWorkspace(ctx, in.Target)
	if err != nil {
		return nil, err
	}
	info, err := forkedFrom(ctx, ws, &in.Body)
	if err != nil {
		return nil, err
	}
	out := Forked{Snapshot: info}
	for i := range max(in.Body.Count, 1) {
		child, err := s.forkOne(ws.Progress(ctx), r, info.ID, &in.Body, i)
		if err != nil {
			for _, done := range out.Workspaces {
				workspaceRoutes(s).removeUnopened(ctx, done.ID)
			}
			return nil, err
		}
		out.Workspaces = append(out.Workspaces, child)
	}
	return &body[Forked]{out}, nil
}

// forkedFrom returns the snapshot to fork from. Without a name it takes a new one.
func forkedFrom(ctx context.Context, ws *workspace.Workspace, f *Fork) (driver.SnapshotInfo, error) {
	if f.Snapshot == "" {
		return ws.Snapshot(ctx, &driver.SnapshotOptions{Labels: map[string]string{snapshot.CauseLabel: "fork"}})
	}
	list, err := ws.Snapshots(ctx, &driver.ListSnapshotsOptions{SnapshotAccess: driver.SnapshotAccess{CrossSession: true}})
	if err != nil {
		return driver.SnapshotInfo{}, err
	}
	at := slices.IndexFunc(list, func(i driver.SnapshotInfo) bool {
		return i.ID == f.Snapshot || i.Name == f.Snapshot && i.Workspace == ws.ID()
	})
	if at < 0 {
		return driver.SnapshotInfo{}, fault.WithHint(fmt.Errorf("snapshot %q: %w: no snapshot has this id, or this name in the workspace", f.Snapshot, fault.NotFound), fault.HintList, "snapshots")
	}
	return list[at], nil
}

func (s snapshotRoutes) forkOne(ctx context.Context, r registry.Record, from string, f *Fork, i int) (Workspace, error) {
	name := f.Name
	if f.Name != "" && f.Count > 0 {
		name = fmt.Sprintf("%s-%d", f.Name, i+1)
	}
	created, err := s.cfg.Registry.Fork(ctx, r, driver.Source{Snapshot: from, CrossSession: f.CrossSession}, name, f.Labels)
	if err != nil {
		return Workspace{}, err
	}
	out, err := workspaceRoutes(s).acquireAndShow(ctx, created.ID)
	if err != nil {
		workspaceRoutes(s).removeUnopened(ctx, created.ID)
		return Workspace{}, err
	}
	return out.Body, nil
}

// Apply is the body of /apply.
type Apply client.ApplyOptions

type applyInput struct {
	Target
	Body Apply
}

func (s snapshotRoutes) applyChanges(ctx context.Context, target *workspace.Workspace, in *applyInput) (*body[snapshot.Applied], error) {
	source, err := s.liveWorkspace(ctx, Target{ID: in.Body.Source, Owner: in.Owner})
	if err != nil {
		return nil, err
	}
	if source.ID() == target.ID() {
		return nil, badParameter("source", "%q is the workspace itself", in.Body.Source)
	}
	return replyTo(history.Apply(ctx, source, target, &history.ApplyOptions{
		From: in.Body.From, DryRun: in.Body.DryRun,
		MergeOptions: snapshot.MergeOptions{
			Only: in.Body.Paths, Hunks: in.Body.Hunks, Markers: in.Body.Markers, Autorun: in.Body.AllowAutorun, Ignored: in.Body.Ignored,
			Ours: "workspace " + in.ID, Theirs: "workspace " + in.Body.Source,
		},
	}))
}

type diffInput struct {
	Target
	From         string   `query:"from" doc:"id or name of a snapshot, or template:NAME, workspace:NAME or dir:PATH; empty is what the workspace started from, or its newest snapshot"`
	To           string   `query:"to" doc:"the same; empty is the workspace as it is"`
	Paths        []string `query:"path,explode" doc:"only these, with all below them"`
	Context      int      `query:"context" doc:"lines around a change; 0 is 3, and -1 none"`
	Text         bool     `query:"text" doc:"with hunks and numbers of lines"`
	Binary       bool     `query:"binary" doc:"with text, and the content of files that are no text, as git diff --binary has it"`
	CrossSession bool     `query:"crossSession"`
	Ignored      bool     `query:"ignored" doc:"with what .gitignore excludes, and caches; otherwise leftOut lists them"`
}

func (s snapshotRoutes) diffStates(ctx context.Context, ws *workspace.Workspace, in *diffInput) (*body[snapshot.Comparison], error) {
	ctx = sharedContext(ctx, in.From, in.To)
	from, err := s.comparedTree(ctx, ws, in, in.From, Origin)
	if err != nil {
		return nil, err
	}
	to, err := s.comparedTree(ctx, ws, in, in.To, Now)
	if err != nil {
		return nil, err
	}
	return replyTo(snapshot.Diff(ctx, from, to, &snapshot.DiffOptions{
		Text: in.Text, Binary: in.Binary, Context: in.Context, Only: in.Paths, NoGit: true, NoIgnored: !in.Ignored,
	}))
}

// comparedTree returns one side of a comparison: a state of the workspace, or
// template:NAME, workspace:NAME or dir:PATH.
func (s snapshotRoutes) comparedTree(ctx context.Context, ws *workspace.Workspace, in *diffInput, name, otherwise string) (snapshot.Tree, error) {
	if name == "" {
		name = otherwise
	}
	switch word, rest, _ := strings.Cut(name, ":"); word {
	case "template":
		c, err := s.templateCatalog(ctx)
		if err != nil {
			return nil, err
		}
		return c.Tree(ctx, rest)
	case "dir":
		if err := auth.RequireOperator(ctx, "diff: a directory of the host"); err != nil {
			return nil, err
		}
		c, err := s.templateCatalog(ctx)
		if err != nil {
			return nil, err
		}
		return c.Dir(rest)
	case "workspace":
		other, err := s.liveWorkspace(ctx, Target{ID: rest, Owner: in.Owner})
		if err != nil {
			return nil, err
		}
		return history.Tree(ctx, other, Now, nil)
	}
	files, err := s.stateFiles(ctx, ws, name, in.CrossSession)
	if err != nil {
		return nil, err
	}
	return snapshot.Files(files), nil
}

func (s snapshotRoutes) stateFiles(ctx context.Context, ws *workspace.Workspace, name string, crossSession bool) (*driver.FS, error) {
	if isPin(name) {
		return s.pins.get(ws.ID(), name)
	}
	return history.Files(ctx, ws, name, &driver.SnapshotAccess{CrossSession: crossSession})
}

type snapshotPathInput struct {
	SnapshotTarget
	Path     string `query:"path" doc:"empty is the top"`
	NoFollow bool   `query:"nofollow"`
	Digest   bool   `query:"digest"`
	Offset   int64  `query:"offset"`
	Limit    int64  `query:"limit"`
}

// onSnapshot is handle for a route that takes the files of a snapshot, and a path
// in them.
func onSnapshot[O any](s snapshotRoutes, op huma.Operation, f func(ctx context.Context, files *driver.FS, name string, in *snapshotPathInput) (*O, error)) {
	onWorkspace(s, op, func(ctx context.Context, ws *workspace.Workspace, in *snapshotPathInput) (*O, error) {
		name := path.Clean(in.Path)
		if !driver.ValidName(name) {
			return nil, badParameter("path", "%q is not a path in a workspace", in.Path)
		}
		files, err := s.stateFiles(ctx, ws, in.Snapshot, in.CrossSession)
		if err != nil {
			return nil, err
		}
		return f(ctx, files, name, in)
	})
}

func snapshotStat(ctx context.Context, files *driver.FS, name string, in *snapshotPathInput) (*body[driver.Info], error) {
	return reply(files.Stat(ctx, name, &driver.StatOptions{NoFollow: in.NoFollow, Digest: in.Digest}))
}

func snapshotReadDir(ctx context.Context, files *driver.FS, name string, _ *snapshotPathInput) (*body[Entries], error) {
	entries, err := files.ReadDir(ctx, name)
	if entries == nil {
		entries = []driver.Info{}
	}
	return &body[Entries]{Entries{entries}}, err
}

func (s snapshotRoutes) snapshotRead(ctx context.Context, files *driver.FS, name string, in *snapshotPathInput) (*huma.StreamResponse, error) {
	part := driver.ReadOptions{Offset: in.Offset, Limit: in.Limit}
	r, info, err := files.Read(ctx, name, &part)
	if err != nil {
		return nil, err
	}
	return fileRoutes(s).streamFile(r, info, part, http.StatusOK), nil
}
