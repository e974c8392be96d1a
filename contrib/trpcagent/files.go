package trpcagent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
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
	var size int64
	for i, f := range files {
		list[i] = stage.File{Path: f.Path, Content: f.Content, Mode: fs.FileMode(f.Mode)}
		size += int64(len(f.Content))
	}
	if _, err := p.diskRoom(ctx, size); err != nil {
		return e.markStale(p, err)
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
	room, err := p.diskRoom(ctx, 0)
	if err == nil {
		_, err = p.StageDirectory(ctx, src, to, &stage.DirectoryOptions{
			ReadOnly: opt.ReadOnly || e.opts.ReadOnlySkills, AllowMount: opt.AllowMount, MaxBytes: room,
		})
	}
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
	if _, err := p.diskRoom(ctx, 0); err != nil { // their size is not known before
		return e.markStale(p, err)
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

// LeftOutName is the name of the text that Collect, and CollectOutputs with Inline, add to
// the files if matches or patterns were left out: it says which, and why. It is no error,
// because trpc-agent-go's tools discard the files and the output of a program if there is
// one. It sorts behind other names, so that no tool takes it for the main output.
const LeftOutName = "~left-out.txt"

// Collect returns the files that patterns match, and LeftOutName. The only pattern may be
// the path of a dangling symlink: that is a missing file.
func (e *Executor) Collect(ctx context.Context, ws codeexecutor.Workspace, patterns []string) ([]codeexecutor.File, error) {
	p, err := e.findWorkspace(ws)
	if err != nil {
		return nil, err
	}
	files, man, err := e.collect(ctx, p, patterns)
	missing := len(patterns) == 1 && len(files) == 0 && man.Skips == 1 && man.Skipped[0].Code == fault.NotFound
	if text := leftOutText(man); err == nil && text != "" && !missing {
		files = append(files, codeexecutor.File{Name: LeftOutName, Content: text, MIMEType: "text/plain", SizeBytes: int64(len(text))})
	}
	return files, err
}

// collect returns the files that patterns match, and the manifest, which has what was left
// out. A truncated file says so itself.
func (e *Executor) collect(ctx context.Context, p *openWorkspace, patterns []string) ([]codeexecutor.File, stage.Manifest, error) {
	man, err := p.Collect(ctx, patterns)
	if err != nil {
		return nil, man, e.markStale(p, err)
	}
	var files []codeexecutor.File
	for _, f := range man.Files {
		files = append(files, codeexecutor.File{Name: f.Name, Content: f.Content, MIMEType: f.MIMEType, SizeBytes: f.SizeBytes, Truncated: f.Truncated})
	}
	return files, man, nil
}

// leftOutText says what is not among the files of a manifest, one line each; "" if nothing
// was left out.
func leftOutText(man stage.Manifest) string {
	if man.Left+man.Skips == 0 && !man.SearchCut {
		return ""
	}
	var b strings.Builder
	b.WriteString("Not collected:\n")
	for _, s := range man.Skipped {
		fmt.Fprintf(&b, "%s: %s\n", s.Name, s.Reason)
	}
	if more := man.Skips - len(man.Skipped); more > 0 {
		fmt.Fprintf(&b, "%d more files that could not be read\n", more)
	}
	if man.Left > 0 {
		fmt.Fprintf(&b, "files beyond the limits: %d\n", man.Left)
	}
	if man.SearchCut {
		b.WriteString("more files match than the search returns\n")
	}
	return b.String()
}

// CollectOutputs collects files, and records that in metadata.json. A file that could not be
// saved is an error with its cause. If files were skipped, LeftOutName of an inline manifest
// says which. Where there is no content, and where the record failed, the error matches
// ErrPartialOutputCommit, and the manifest has the files.
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
	switch text := leftOutText(man); {
	case man.Skips == 0:
	case spec.Inline:
		out.Files = append(out.Files, codeexecutor.FileRef{Name: LeftOutName, Content: text, MIMEType: "text/plain", SizeBytes: int64(len(text))})
	default:
		partial = fmt.Errorf("trpcagent: collect: %s", man.LeftOut())
	}
	if len(man.Files) > 0 {
		recErr := p.changeMetadata(ctx, func(m *codeexecutor.WorkspaceMetadata) { m.Outputs = append(m.Outputs, rec) })
		partial = errors.Join(partial, recErr)
	}
	onlyOne := len(man.Files) == 0 && len(spec.Globs) == 1 && spec.MaxFiles == 1 // workspace_save_artifact: its error has the reason
	if partial != nil && err == nil && !onlyOne {
		partial = errors.Join(partial, codeexecutor.ErrPartialOutputCommit)
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
