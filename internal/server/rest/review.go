package rest

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/history"
	"github.com/croft-run/croft/internal/paths"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace"
)

func (s reviewRoutes) register() {
	patch := shown(s.op(http.MethodGet, onePath+"/patch", "patch", "What differs between two states of a workspace, as a patch that git apply takes"))
	patch.Responses["200"] = &huma.Response{Description: "the patch", Content: map[string]*huma.MediaType{"text/x-patch": {Schema: &huma.Schema{Type: huma.TypeString}}}}
	onWorkspace(s, patch, s.writePatch)
	onWorkspace(s, s.op(http.MethodPost, onePath+"/revert", "revert", "Take changes of a workspace back, by file or by hunk, after a snapshot"), revertChanges)
	onWorkspace(s, operatorOnly(s.op(http.MethodPost, onePath+"/apply-to-host", "apply-to-host", "Merge the changes of a workspace into a directory of the server's host, all or nothing")), s.applyToHost)
	handle(s, operatorOnly(s.op(http.MethodGet, "/v1/host-roots", "list-host-roots", "The directories of the host to which changes may be applied, which the operator lists")), s.listHostRoots)
}

type patchInput struct {
	Target
	From    string   `query:"from" doc:"as in /diff"`
	To      string   `query:"to" doc:"as in /diff"`
	Paths   []string `query:"path,explode" doc:"only these, with all below them"`
	Hunks   []string `query:"hunk,explode" doc:"PATH:N, only the Nth hunk of a file, counted from 1 in /diff with the default context"`
	Ignored bool     `query:"ignored" doc:"with what .gitignore excludes, and caches"`
}

func (s reviewRoutes) writePatch(ctx context.Context, ws *workspace.Workspace, in *patchInput) (*huma.StreamResponse, error) {
	hunks, err := snapshot.ParseHunks(in.Hunks)
	if err != nil {
		return nil, badParameter("hunk", "%v", err)
	}
	only := slices.Concat(in.Paths, hunks.Paths())
	d, err := snapshotRoutes(s).diffStates(ctx, ws, &diffInput{Target: in.Target, From: in.From, To: in.To, Paths: only, Text: true, Binary: true, Ignored: in.Ignored})
	if err != nil {
		return nil, err
	}
	if err := chooseHunks(&d.Body, hunks); err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		_, w := humago.Unwrap(hc)
		w.Header().Set("Content-Type", "text/x-patch; charset=utf-8")
		setDownload(w.Header(), ws.ID()+".patch")
		if err := d.Body.WriteUnified(w); err != nil {
			panic(http.ErrAbortHandler) // abort, so that the client does not take a part for the whole
		}
	}}, nil
}

// chooseHunks leaves only the chosen hunks of files.
func chooseHunks(d *snapshot.Comparison, chosen snapshot.Hunks) error {
	for path, list := range chosen {
		at := slices.IndexFunc(d.Changes, func(c snapshot.FileChange) bool { return c.Path == path })
		if at < 0 {
			return badParameter("hunk", "%.80q did not change", path)
		}
		c := &d.Changes[at]
		var kept []snapshot.Hunk
		for i, h := range c.Hunks {
			if slices.Contains(list, i+1) {
				kept = append(kept, h)
			}
		}
		if most := slices.Max(list); most > len(c.Hunks) {
			return badParameter("hunk", "%.80q has %d hunks, not %d", path, len(c.Hunks), most)
		}
		if len(kept) < len(c.Hunks) && (c.Old == nil || c.New == nil) {
			return badParameter("hunk", "%.80q is %s: take it whole, as path", path, c.Kind)
		}
		c.Hunks = kept
	}
	return nil
}

type revertInput struct {
	Target
	Body client.RevertOptions
}

func revertChanges(ctx context.Context, ws *workspace.Workspace, in *revertInput) (*body[client.Reverted], error) {
	res, err := history.Revert(ctx, ws, &history.RevertOptions{From: in.Body.From, Paths: in.Body.Paths, Hunks: in.Body.Hunks, Shown: in.Body.Shown})
	if err != nil {
		return nil, err
	}
	return &body[client.Reverted]{client.Reverted{Paths: res.Paths, Undo: res.Undo}}, nil
}

// HostApply says where changes may be applied on this host.
type HostApply struct {
	Roots     func() []string // the configured directories; none refuses every call
	Forbidden string          // the data directory, which no directory may overlap
	Journals  string          // see snapshot.ApplyOptions
}

type hostApplyInput struct {
	Target
	Body client.HostApplyOptions
}

// applyToHost merges the changes of a workspace into a directory, as croft ws apply does.
func (s reviewRoutes) applyToHost(ctx context.Context, ws *workspace.Workspace, in *hostApplyInput) (*body[snapshot.Applied], error) {
	b := in.Body
	dir, err := s.checkHostDir(b.Dir)
	if err != nil {
		return nil, err
	}
	base, theirs, err := history.Trees(ctx, ws, b.From, Now)
	if err != nil {
		return nil, err
	}
	d, err := snapshot.Diff(ctx, base, theirs, &snapshot.DiffOptions{Only: slices.Concat(b.Paths, b.Hunks.Paths()), NoGit: true, NoIgnored: !b.Ignored})
	if err == nil {
		err = history.CheckShown(d, b.Shown)
	}
	if err != nil {
		return nil, err
	}
	opts := snapshot.ApplyOptions{
		MergeOptions: snapshot.MergeOptions{Only: b.Paths, Hunks: b.Hunks, Markers: b.Markers, Autorun: b.AllowAutorun, Ignored: b.Ignored, Ours: b.Dir},
		DryRun:       b.DryRun, Undo: s.cfg.Snapshots, Journals: s.cfg.Host.Journals,
	}
	if len(b.Shown) > 0 {
		opts.Expect = d.Sides() // which were shown
	}
	if len(d.Changes) > 0 {
		done, err := snapshot.Recover(ctx, dir, "", s.cfg.Host.Journals, s.cfg.Snapshots)
		for _, r := range done {
			s.log.Warn(r.String())
		}
		if err != nil {
			return nil, err
		}
	}
	return replyTo(snapshot.ApplyCompared(ctx, base, theirs, d, dir, ws.ID(), in.ID, opts))
}

// checkHostDir returns a directory of the host without symlinks, if it is in a configured one.
func (s reviewRoutes) checkHostDir(dir string) (string, error) {
	roots := s.hostRoots()
	if len(roots) == 0 {
		err := fmt.Errorf("directory %.200q: %w: no directory of this host is configured", dir, fault.PermissionDenied)
		return "", fault.WithHint(err, fault.HintSetting, "host roots")
	}
	if !filepath.IsAbs(dir) {
		return "", badParameter("dir", "%.200q is not an absolute path", dir)
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", fmt.Errorf("directory %.200q: %w", dir, fault.Of(err))
	}
	inside := func(root string) bool {
		root, err := filepath.EvalSymlinks(root)
		return err == nil && paths.Inside(root, real)
	}
	if !slices.ContainsFunc(roots, inside) {
		err := fmt.Errorf("directory %.200q: %w: it is in none of the configured directories: %s", dir, fault.PermissionDenied, strings.Join(roots, ", "))
		return "", fault.WithHint(err, fault.HintSetting, "host roots")
	}
	if data, err := filepath.EvalSymlinks(s.cfg.Host.Forbidden); err == nil && (paths.Inside(data, real) || paths.Inside(real, data)) {
		return "", fmt.Errorf("directory %.200q: %w: it overlaps Croft's data directory", dir, fault.PermissionDenied)
	}
	if info, err := os.Stat(real); err != nil || !info.IsDir() {
		return "", badParameter("dir", "%.200q is not a directory", dir)
	}
	return real, nil
}

func (s reviewRoutes) hostRoots() []string {
	if s.cfg.Host.Roots == nil {
		return nil
	}
	return s.cfg.Host.Roots()
}

// HostRoots is the answer of GET /v1/host-roots.
type HostRoots struct {
	Roots []string `json:"roots"`
}

func (s reviewRoutes) listHostRoots(context.Context, *none) (*body[HostRoots], error) {
	return &body[HostRoots]{HostRoots{append([]string{}, s.hostRoots()...)}}, nil
}
