package trpcagent

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"sync"

	"trpc.group/trpc-go/trpc-agent-go/codeexecutor"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/prepare/stage"
	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// CreateWorkspace opens a workspace with trpc-agent-go's layout. Its Path is unique, and the
// directory on this host where the provider has one. A second workspace with the same id
// gets an id of its own in the result, unless it persists: then both are the same.
func (e *Executor) CreateWorkspace(ctx context.Context, execID string, pol codeexecutor.WorkspacePolicy) (codeexecutor.Workspace, error) {
	id := workspace.NewID()
	pol.Persist = pol.Persist || e.opts.Persist
	if pol.Persist && execID != "" {
		e.making.Lock()
		defer e.making.Unlock()
		id = persistentID(execID)
		if p := e.findOpen(id); p != nil {
			return p.handle, nil
		}
	}
	p, err := e.openWorkspace(ctx, id, execID, e.opts.TrustedLocal, pol)
	if err != nil {
		return codeexecutor.Workspace{}, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := e.reopened[execID]; pol.Persist {
		if n > 0 { // a handle of before must not end this one
			p.handle.ID += "~" + strconv.Itoa(n)
		}
		e.reopened[execID]++
	}
	if _, taken := e.open[p.handle.ID]; taken || p.handle.ID == "" {
		p.handle.ID += "~" + id
	}
	e.open[p.handle.ID] = p
	return p.handle, nil
}

// persistentID returns the id of the workspace that persists for an execution id.
func persistentID(execID string) string {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	id := make([]byte, driver.IDLength)
	sum := sha256.Sum256([]byte(execID))
	for i, b := range sum[:driver.IDLength] {
		id[i] = letters[int(b)%len(letters)]
	}
	return string(id)
}

// findOpen returns the open workspace with an id of Croft, or nil.
func (e *Executor) findOpen(id string) *openWorkspace {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range e.open {
		if p.ws.ID() == id {
			return p
		}
	}
	return nil
}

// openWorkspace opens a workspace. inWorkDir makes Options.WorkDir the workspace itself.
func (e *Executor) openWorkspace(ctx context.Context, id, execID string, inWorkDir bool, pol codeexecutor.WorkspacePolicy) (*openWorkspace, error) {
	spec := workspace.Spec{
		ID: id, Kind: e.kind, Policy: e.opts.Policy, Config: e.opts.Config, Want: e.wanted(), Session: workspace.SessionRef{ID: execID},
	}
	if pol.Isolated && spec.Policy.Isolation.Rank() == 0 {
		spec.Policy.Isolation = driver.IsolationProcess // at least
		if e.traits.Isolation.Rank() > 0 {
			spec.Policy.Isolation = e.traits.Isolation // what the provider gives without being asked
		}
	}
	p := &openWorkspace{handle: codeexecutor.Workspace{ID: execID}, persist: pol.Persist}
	switch enforced := e.traits.Limits[driver.ResourceDisk].Enforced() && e.opts.WorkDir == ""; {
	case pol.MaxDiskBytes < 0:
		return nil, fmt.Errorf("trpcagent: create workspace: %w: MaxDiskBytes is %d, and at least 0 is allowed", fault.InvalidArgument, pol.MaxDiskBytes)
	case enforced:
		spec.Policy.Limits = spec.Policy.Limits.With(driver.Limits{driver.ResourceDisk: {Max: pol.MaxDiskBytes}})
	default:
		p.softDisk = pol.MaxDiskBytes
	}
	if e.opts.WorkDir != "" {
		spec.Dir = e.opts.WorkDir
		if !inWorkDir {
			spec.Dir = filepath.Join(e.opts.WorkDir, "ws_"+id)
			p.ownDir = spec.Dir
		}
		if err := os.MkdirAll(spec.Dir, 0o755); err != nil {
			return nil, fmt.Errorf("trpcagent: create the work directory: %w: %w", fault.Of(err), err)
		}
	}
	err := e.openSpec(ctx, p, spec)
	if err == nil {
		err = e.layOut(ctx, p)
	}
	if err != nil {
		return nil, fmt.Errorf("trpcagent: create workspace: %w", errors.Join(err, e.endWorkspace(context.WithoutCancel(ctx), p)))
	}
	return p, nil
}

// openSpec opens the workspace of a spec, and sets its path.
func (e *Executor) openSpec(ctx context.Context, p *openWorkspace, spec workspace.Spec) error {
	opts := &workspace.Options{Session: spec.Session, Log: e.opts.Log, Renew: func(ctx context.Context, stale *driver.Workspace) (*driver.Workspace, error) {
		return e.reattach(ctx, p, stale)
	}}
	hostDir := ""
	if find := e.p.Features().HostDir; find != nil && spec.Dir == "" {
		hostDir = find(spec.ID)
	}
	same, err := withPath(spec, hostDir)
	if err != nil {
		return err
	}
	if p.ws, err = e.mux.Open(ctx, same, opts); fault.Of(err) == fault.InvalidArgument || fault.Of(err) == fault.Unsupported {
		p.ws, err = e.mux.Open(ctx, spec, opts) // the sandbox can't have that path
	}
	if err != nil {
		return err
	}
	root := path.Join("/", p.ws.Traits().Root)
	info, err := os.Stat(hostDir)
	switch p.handle.Path = root; {
	case spec.Dir != "" || root == hostDir:
	case err == nil && info.IsDir():
		p.handle.Path = hostDir
	default:
		p.handle.Path = path.Join("/workspaces", spec.ID) // unique, as trpc-agent-go locks by it
	}
	// metadata.json has trpc-agent-go's format, so the stage writes none.
	p.Stage, err = stage.New(p.ws, &stage.Options{State: e.opts.State, HostRoots: e.opts.HostRoots, NoCopy: true, Exclude: codeexecutor.IsRootMetadataTempPath, Log: e.opts.Log})
	return err
}

// withPath gives a workspace of a sandbox the path that its files have on the host, so that
// a path is the same inside and outside.
func withPath(spec workspace.Spec, dir string) (workspace.Spec, error) {
	if spec.Kind != sandbox.Kind || dir == "" {
		return spec, nil
	}
	config := map[string]any{}
	if len(spec.Config) > 0 {
		if err := json.Unmarshal(spec.Config, &config); err != nil {
			return spec, fmt.Errorf("config: %w: %w", fault.InvalidArgument, err)
		}
	}
	if _, set := config["at"]; set {
		return spec, nil
	}
	config = maps.Clone(config)
	config["at"] = dir
	var err error
	spec.Config, err = json.Marshal(config)
	return spec, err
}

// layOut creates the directories, metadata.json and the inputs of a new workspace.
func (e *Executor) layOut(ctx context.Context, p *openWorkspace) error {
	if _, err := p.EnsureLayout(ctx); err != nil {
		return err
	}
	if err := p.createMetadata(ctx); err != nil {
		return err
	}
	if e.opts.InputsDir == "" {
		return nil
	}
	if _, err := p.StageDirectory(ctx, e.opts.InputsDir, stage.DirInputs, nil); err != nil {
		return err
	}
	return p.changeMetadata(ctx, func(m *codeexecutor.WorkspaceMetadata) {
		m.Inputs = append(m.Inputs, codeexecutor.InputRecord{From: "host://" + e.opts.InputsDir, To: stage.DirInputs, Resolved: e.opts.InputsDir, Mode: stage.ModeCopy, Timestamp: m.UpdatedAt})
	})
}

// reattach attaches to a workspace again whose guest has died. Its files are as they were.
func (e *Executor) reattach(ctx context.Context, p *openWorkspace, stale *driver.Workspace) (*driver.Workspace, error) {
	d, err := e.p.Resolve(ctx, stale.Ref)
	if err != nil {
		return nil, fmt.Errorf("trpcagent: attach to the workspace again: %w", err)
	}
	p.renewals.Lock()
	defer p.renewals.Unlock()
	p.stale = append(p.stale, stale)
	return d, nil
}

// Cleanup destroys a workspace or, if its policy persists it, closes it. An unknown
// workspace is not an error, nor is a handle from before an earlier Cleanup.
func (e *Executor) Cleanup(ctx context.Context, ws codeexecutor.Workspace) error {
	p, err := e.findWorkspace(ws)
	if err != nil {
		return nil //nolint:nilerr // it is cleaned up
	}
	e.mu.Lock()
	if p.ended {
		e.mu.Unlock()
		return nil
	}
	p.ended = true
	delete(e.open, ws.ID)
	e.mu.Unlock()
	return e.endWorkspace(ctx, p)
}

// endWorkspace closes or destroys a workspace.
func (e *Executor) endWorkspace(ctx context.Context, p *openWorkspace) error {
	var errs []error
	switch {
	case p.ws == nil:
	case p.persist:
		errs = append(errs, p.ws.Close(ctx))
	default:
		errs = append(errs, p.ws.Destroy(ctx), e.opts.State.Delete(ctx, p.ws.ID()))
	}
	p.renewals.Lock()
	defer p.renewals.Unlock()
	for _, d := range p.stale {
		errs = append(errs, d.Life.Close(ctx))
	}
	p.stale = nil
	if p.ownDir != "" && !p.persist {
		errs = append(errs, os.RemoveAll(p.ownDir))
	}
	return errors.Join(errs...)
}

// Destroy removes the workspace that persists for an execution id, with its files.
func (e *Executor) Destroy(ctx context.Context, execID string) error {
	e.making.Lock()
	defer e.making.Unlock()
	id := persistentID(execID)
	p := e.findOpen(id)
	if p == nil {
		var err error
		if p, err = e.openWorkspace(ctx, id, execID, e.opts.TrustedLocal, codeexecutor.WorkspacePolicy{Persist: true}); err != nil {
			return err
		}
	}
	e.mu.Lock()
	delete(e.open, p.handle.ID)
	p.ended, p.persist = true, false
	e.mu.Unlock()
	return e.endWorkspace(ctx, p)
}

// Close closes or destroys all open workspaces.
func (e *Executor) Close(ctx context.Context) error {
	e.mu.Lock()
	all, code := e.open, e.code
	e.open, e.code = map[string]*openWorkspace{}, map[string]*codeSession{}
	for _, p := range all {
		p.ended = true
	}
	e.mu.Unlock()
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		errs []error
	)
	for _, p := range all {
		wg.Go(func() {
			err := e.endWorkspace(ctx, p)
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		})
	}
	wg.Wait()
	for _, c := range code {
		errs = append(errs, e.endCode(ctx, c))
	}
	if e.onEnd != nil {
		errs = append(errs, e.onEnd())
	}
	return errors.Join(errs...)
}
