package trpcagent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"trpc.group/trpc-go/trpc-agent-go/codeexecutor"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/prepare/stage"
)

// PutFiles puts files into a workspace, all or none.
func (e *Executor) PutFiles(ctx context.Context, ws codeexecutor.Workspace, files []codeexecutor.PutFile) error {
	p, err := e.findWorkspace(ws)
	if err != nil {
		return err
	}
	list := make([]stage.File, len(files))
	for i, f := range files {
		list[i] = stage.File{Path: f.Path, Content: f.Content, Mode: fs.FileMode(f.Mode)}
	}
	return markStale(p.PutFiles(ctx, list))
}

// StageDirectory stages a host directory.
func (e *Executor) StageDirectory(ctx context.Context, ws codeexecutor.Workspace, src, to string, opt codeexecutor.StageOptions) error {
	p, err := e.findWorkspace(ws)
	if err != nil {
		return err
	}
	_, err = p.StageDirectory(ctx, src, to, &stage.DirectoryOptions{ReadOnly: opt.ReadOnly, AllowMount: opt.AllowMount})
	return markStale(err)
}

// StageInputs stages inputs, all or none.
func (e *Executor) StageInputs(ctx context.Context, ws codeexecutor.Workspace, specs []codeexecutor.InputSpec) error {
	p, err := e.findWorkspace(ws)
	if err != nil {
		return err
	}
	list := make([]stage.Input, len(specs))
	for i, s := range specs {
		list[i] = stage.Input(s)
	}
	_, err = p.StageInputs(withArtifacts(ctx), list)
	return markStale(err)
}

// Collect returns the files that patterns match. If some are left out, because of a limit
// or an error, it returns the others, and an error that says how many.
func (e *Executor) Collect(ctx context.Context, ws codeexecutor.Workspace, patterns []string) ([]codeexecutor.File, error) {
	files, leftOut, err := e.collect(ctx, ws, patterns)
	if err == nil && leftOut != "" {
		err = fmt.Errorf("trpcagent: collect: %w: %s", fault.ResourceExhausted, leftOut)
	}
	return files, err
}

// collect returns the files that patterns match, and a line about those that are not
// among them. A truncated file says so itself.
func (e *Executor) collect(ctx context.Context, ws codeexecutor.Workspace, patterns []string) (_ []codeexecutor.File, leftOut string, _ error) {
	p, err := e.findWorkspace(ws)
	if err != nil {
		return nil, "", err
	}
	man, err := p.Collect(ctx, patterns)
	if err != nil {
		return nil, "", markStale(err)
	}
	files := make([]codeexecutor.File, len(man.Files))
	for i, f := range man.Files {
		files[i] = codeexecutor.File{Name: f.Name, Content: f.Content, MIMEType: f.MIMEType, SizeBytes: f.SizeBytes, Truncated: f.Truncated}
	}
	if man.Left+man.Skips > 0 || man.SearchCut {
		leftOut = man.LeftOut()
	}
	return files, leftOut, nil
}

// CollectOutputs collects files. If some could not be saved, the manifest has the others,
// and the error matches ErrPartialOutputCommit.
func (e *Executor) CollectOutputs(ctx context.Context, ws codeexecutor.Workspace, spec codeexecutor.OutputSpec) (codeexecutor.OutputManifest, error) {
	p, err := e.findWorkspace(ws)
	if err != nil {
		return codeexecutor.OutputManifest{}, err
	}
	man, err := p.CollectOutputs(withArtifacts(ctx), stage.OutputSpec(spec))
	out := codeexecutor.OutputManifest{LimitsHit: man.LimitsHit, Files: make([]codeexecutor.FileRef, len(man.Files))}
	for i, f := range man.Files {
		out.Files[i] = codeexecutor.FileRef{
			Name: f.Name, MIMEType: f.MIMEType, Content: f.Content, SavedAs: f.SavedAs, Version: f.Version, SizeBytes: f.SizeBytes, Truncated: f.Truncated,
		}
		if f.Error != "" && err == nil {
			err = fmt.Errorf("trpcagent: save %s: %s", f.Name, f.Error)
		}
	}
	if man.Skips > 0 && err == nil {
		err = fmt.Errorf("trpcagent: collect: %s", man.LeftOut())
	}
	if err != nil && len(out.Files) > 0 {
		err = errors.Join(err, codeexecutor.ErrPartialOutputCommit)
	}
	return out, markStale(err)
}

// withArtifacts makes the artifact service in a context the one of stages.
func withArtifacts(ctx context.Context) context.Context {
	if svc, ok := codeexecutor.ArtifactServiceFromContext(ctx); !ok || svc == nil {
		return ctx
	}
	return stage.WithArtifacts(ctx, artifactService{})
}

// artifactService uses the artifact service in the context of a call.
type artifactService struct{}

// Save reads the whole body into memory, because the service takes a slice.
func (artifactService) Save(ctx context.Context, name string, body io.Reader, mime string) (stage.Artifact, error) {
	data, err := io.ReadAll(body)
	if err != nil {
		return stage.Artifact{}, err
	}
	version, err := codeexecutor.SaveArtifactHelper(ctx, name, data, mime)
	if err != nil {
		return stage.Artifact{}, fmt.Errorf("trpcagent: save artifact %q: %w: %w", name, fault.Unavailable, err)
	}
	return stage.Artifact{Name: name, Version: version, MIME: mime, Size: int64(len(data))}, nil
}

// Open loads a version, or the latest.
func (artifactService) Open(ctx context.Context, name string, version int) (io.ReadCloser, stage.Artifact, error) {
	var want *int
	if version != stage.Latest {
		want = &version
	}
	data, mime, got, err := codeexecutor.LoadArtifactHelper(ctx, name, want)
	if err != nil {
		return nil, stage.Artifact{}, fmt.Errorf("trpcagent: load artifact %q: %w: %w", name, fault.NotFound, err)
	}
	return io.NopCloser(bytes.NewReader(data)), stage.Artifact{Name: name, Version: got, MIME: mime, Size: int64(len(data))}, nil
}
