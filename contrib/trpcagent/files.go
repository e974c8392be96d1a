package trpcagent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

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
	return e.markStale(p, p.PutFiles(ctx, list))
}

// PutDirectory copies a host directory.
func (e *Executor) PutDirectory(ctx context.Context, ws codeexecutor.Workspace, src, to string) error {
	return e.StageDirectory(ctx, ws, src, to, codeexecutor.StageOptions{})
}

// StageDirectory stages a host directory. It replaces what is there.
func (e *Executor) StageDirectory(ctx context.Context, ws codeexecutor.Workspace, src, to string, opt codeexecutor.StageOptions) error {
	p, err := e.findWorkspace(ws)
	if err != nil {
		return err
	}
	if src == "" {
		return fmt.Errorf("trpcagent: stage a directory: %w: the source is empty", fault.InvalidArgument)
	}
	_, err = p.StageDirectory(ctx, src, to, &stage.DirectoryOptions{ReadOnly: opt.ReadOnly || e.opts.ReadOnlySkills, AllowMount: opt.AllowMount})
	return e.markStale(p, err)
}

// StageInputs stages inputs, all or none, and records them in metadata.json.
func (e *Executor) StageInputs(ctx context.Context, ws codeexecutor.Workspace, specs []codeexecutor.InputSpec) error {
	p, err := e.findWorkspace(ws)
	if err != nil {
		return err
	}
	list := make([]stage.Input, len(specs))
	for i, s := range specs {
		list[i] = stage.Input(s)
	}
	recs, err := p.StageInputs(withArtifacts(ctx), list)
	if err == nil {
		err = p.changeMetadata(ctx, func(m *codeexecutor.WorkspaceMetadata) {
			for _, r := range recs {
				m.Inputs = append(m.Inputs, codeexecutor.InputRecord(r))
			}
		})
	}
	return e.markStale(p, err)
}

// Collect returns the files that patterns match. If some are left out, because of a limit
// or an error, it returns the others, and an error that says how many.
func (e *Executor) Collect(ctx context.Context, ws codeexecutor.Workspace, patterns []string) ([]codeexecutor.File, error) {
	p, err := e.findWorkspace(ws)
	if err != nil {
		return nil, err
	}
	files, leftOut, err := e.collect(ctx, p, patterns)
	if err == nil && leftOut != "" {
		err = fmt.Errorf("trpcagent: collect: %w: %s", fault.ResourceExhausted, leftOut)
	}
	return files, err
}

// collect returns the files that patterns match, and a line about those that are not
// among them. A truncated file says so itself.
func (e *Executor) collect(ctx context.Context, p *openWorkspace, patterns []string) (_ []codeexecutor.File, leftOut string, _ error) {
	man, err := p.Collect(ctx, patterns)
	if err != nil {
		return nil, "", e.markStale(p, err)
	}
	var files []codeexecutor.File
	for _, f := range man.Files {
		files = append(files, codeexecutor.File{Name: f.Name, Content: f.Content, MIMEType: f.MIMEType, SizeBytes: f.SizeBytes, Truncated: f.Truncated})
	}
	if man.Left+man.Skips > 0 || man.SearchCut {
		leftOut = man.LeftOut()
	}
	return files, leftOut, nil
}

// CollectOutputs collects files, and records that in metadata.json. A file that could not be
// saved is an error with its cause. If files were only skipped, or the record failed, the
// error matches ErrPartialOutputCommit, and the manifest has the files.
func (e *Executor) CollectOutputs(ctx context.Context, ws codeexecutor.Workspace, spec codeexecutor.OutputSpec) (codeexecutor.OutputManifest, error) {
	p, err := e.findWorkspace(ws)
	if err != nil {
		return codeexecutor.OutputManifest{}, err
	}
	man, err := p.CollectOutputs(withArtifacts(ctx), stage.OutputSpec(spec))
	out := codeexecutor.OutputManifest{LimitsHit: man.LimitsHit, Files: make([]codeexecutor.FileRef, len(man.Files))}
	rec := codeexecutor.OutputRecord{Globs: spec.Globs, LimitsHit: man.LimitsHit, Timestamp: time.Now()}
	for i, f := range man.Files {
		out.Files[i] = codeexecutor.FileRef{
			Name: f.Name, MIMEType: f.MIMEType, Content: f.Content, SavedAs: f.SavedAs, Version: f.Version, SizeBytes: f.SizeBytes, Truncated: f.Truncated,
		}
		if f.SavedAs != "" {
			rec.SavedAs, rec.Versions = append(rec.SavedAs, f.SavedAs), append(rec.Versions, f.Version)
		}
		if f.Error != "" && err == nil {
			err = fmt.Errorf("trpcagent: save %s: %s", f.Name, f.Error)
		}
	}
	var partial error
	if man.Skips > 0 {
		partial = fmt.Errorf("trpcagent: collect: %s", man.LeftOut())
	}
	if len(out.Files) > 0 {
		recErr := p.changeMetadata(ctx, func(m *codeexecutor.WorkspaceMetadata) { m.Outputs = append(m.Outputs, rec) })
		if partial = errors.Join(partial, recErr); partial != nil && err == nil {
			partial = errors.Join(partial, codeexecutor.ErrPartialOutputCommit)
		}
	}
	return out, e.markStale(p, errors.Join(err, partial))
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
