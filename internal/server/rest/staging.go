package rest

import (
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"path"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/prepare/stage"
	"github.com/croft-run/croft/workspace/driver"
)

// ArtifactHeader is the header with the artifact of an answer, as ASCII JSON.
const ArtifactHeader = "Croft-Artifact"

const (
	stagingPath   = onePath + "/staging"
	artifactsPath = onePath + "/artifacts"
	artifactPath  = artifactsPath + "/content"
	allArtifacts  = "/v1/artifacts"
)

func (s stagingRoutes) register() {
	handle(s, s.op(http.MethodGet, stagingPath, "load-staging", "The staging metadata of a workspace: staged, prepared and collected files"),
		forTarget(s.stagingTarget, s.loadStaging))
	handle(s, s.op(http.MethodPut, stagingPath, "save-staging", "Replace the staging metadata; the caller holds the lock"),
		forTarget(s.stagingTarget, s.saveStaging))
	handle(s, s.op(http.MethodPost, stagingPath+"/outputs", "record-output", "Add a collection to the staging metadata; does not wait for the lock"),
		forTarget(s.stagingTarget, s.recordOutput))
	lock := s.op(http.MethodPost, stagingPath+"/lock", "lock-staging", "Lock the staging metadata of a workspace while the request lasts")
	lock.Description = "The answer begins when the lock is free, and does not end: the client has the lock until it closes the connection. " +
		"A byte is sent every few seconds."
	lock.Responses["200"] = octetResponse("the lock")
	handle(s, lock, forTarget(s.stagingTarget, s.lockStaging))
	handle(s, shown(s.op(http.MethodGet, artifactsPath, "list-artifacts", "The artifacts of a workspace, each with its latest version; or all versions of one")),
		forTarget(s.workspaceArtifacts, listArtifacts))
	handle(s, s.op(http.MethodGet, allArtifacts, "list-all-artifacts", "The artifacts of all workspaces, destroyed ones included, each with its latest version"), s.listAllArtifacts)
	read := shown(s.op(http.MethodGet, artifactPath, "read-artifact", "The content of an artifact"))
	read.Description = "The header " + ArtifactHeader + " says which version it is."
	read.Responses["200"] = octetResponse("the content")
	handle(s, read, forTarget(s.workspaceArtifacts, readArtifact))
	save := s.op(http.MethodPut, artifactPath, "save-artifact", "Save a new version of an artifact")
	save.RequestBody = &huma.RequestBody{Required: true, Content: octetResponse("").Content}
	save.MaxBodyBytes = 0 // it is a stream
	handle(s, save, s.saveArtifact)
	handle(s, s.op(http.MethodDelete, artifactPath, "delete-artifact", "Delete a version of an artifact, or all of them"),
		forTarget(s.workspaceArtifacts, deleteArtifact))
}

// staging is what is stored of a workspace, by its id.
type staging struct {
	id        string
	artifacts *stage.Artifacts
}

func (s stagingRoutes) stagingTarget(ctx context.Context, t Target) (out staging, err error) {
	rec, err := s.lookupRecord(ctx, t)
	if err == nil && (s.cfg.Staging == nil || s.cfg.Artifacts == nil) {
		err = fmt.Errorf("staging metadata: %w: this server keeps none", fault.Unsupported)
	}
	if err != nil {
		return out, err
	}
	return staging{rec.ID, s.cfg.Artifacts.In(stage.WorkspacePrefix(rec.Tenant, rec.ID))}, nil
}

// workspaceArtifacts returns the artifacts of a workspace, which may be gone: they outlive it.
func (s stagingRoutes) workspaceArtifacts(ctx context.Context, t Target) (*stage.Artifacts, error) {
	of, err := s.stagingTarget(ctx, t)
	if fault.Of(err) != fault.NotFound || !driver.ValidID(t.ID) || s.cfg.Artifacts == nil {
		return of.artifacts, err
	}
	all, lerr := s.listEveryArtifact(ctx)
	at := slices.IndexFunc(all, func(art tenantArtifact) bool { return art.Workspace == t.ID })
	if lerr != nil || at < 0 {
		return nil, err // the workspace left no artifacts
	}
	return s.cfg.Artifacts.In(stage.WorkspacePrefix(all[at].tenant, t.ID)), nil
}

// A tenantArtifact is an artifact with its workspace and the tenant of that.
type tenantArtifact struct {
	tenant string
	client.WorkspaceArtifact
}

// listEveryArtifact lists the artifacts that the principal sees, of all workspaces.
func (s stagingRoutes) listEveryArtifact(ctx context.Context) ([]tenantArtifact, error) {
	list, err := s.cfg.Artifacts.In("").List(ctx)
	var out []tenantArtifact
	for _, art := range list {
		tenant, id, name := stage.ParseWorkspacePrefix(art.Name)
		if name != "" && driver.ValidID(id) && auth.SeesWorkspace(ctx, tenant, id) {
			art.Name = name
			out = append(out, tenantArtifact{tenant, client.WorkspaceArtifact{Workspace: id, Artifact: art}})
		}
	}
	return out, err
}

// StagingMetadata is the staging metadata of a workspace; absent if there is none.
type StagingMetadata struct {
	Metadata *stage.Metadata `json:"metadata,omitempty"`
}

func (s stagingRoutes) loadStaging(ctx context.Context, of staging, _ *Target) (*body[StagingMetadata], error) {
	m, err := s.cfg.Staging.Load(ctx, of.id)
	return &body[StagingMetadata]{StagingMetadata{m}}, err
}

type stagingInput struct {
	Target
	Body StagingMetadata
}

func (s stagingRoutes) saveStaging(ctx context.Context, of staging, in *stagingInput) (*none, error) {
	if in.Body.Metadata == nil {
		return nil, s.cfg.Staging.Delete(ctx, of.id)
	}
	return nil, s.cfg.Staging.Save(ctx, of.id, in.Body.Metadata)
}

type recordInput struct {
	Target
	Body struct {
		Output stage.OutputRecord `json:"output"`
	}
}

func (s stagingRoutes) recordOutput(ctx context.Context, of staging, in *recordInput) (*none, error) {
	return nil, s.cfg.Staging.Record(ctx, of.id, in.Body.Output, stage.DefaultHistory)
}

func (s stagingRoutes) lockStaging(ctx context.Context, of staging, _ *Target) (*huma.StreamResponse, error) {
	ctx, cancel := s.untilDrain(ctx)
	unlock, err := s.cfg.Staging.Lock(ctx, of.id)
	if err != nil {
		cancel()
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		defer cancel()
		defer unlock()
		_, w := humago.Unwrap(hc)
		w.Header().Set("Content-Type", "application/octet-stream")
		out := http.NewResponseController(w)
		const every = 5 * time.Second // a write notices that the client is gone
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			if _, err := w.Write([]byte("\n")); err != nil || out.Flush() != nil {
				return
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}}, nil
}

type artifactsInput struct {
	Target
	Name string `query:"name" doc:"of the one whose versions are listed"`
}

// Artifacts are artifacts of a workspace.
type Artifacts struct {
	Artifacts []stage.Artifact `json:"artifacts"`
}

func listArtifacts(ctx context.Context, a *stage.Artifacts, in *artifactsInput) (*body[Artifacts], error) {
	if in.Name == "" {
		list, err := a.List(ctx)
		return &body[Artifacts]{Artifacts{list}}, err
	}
	list, err := a.History(ctx, in.Name)
	return &body[Artifacts]{Artifacts{list}}, err
}

// WorkspaceArtifacts are artifacts of any workspaces.
type WorkspaceArtifacts struct {
	Artifacts []client.WorkspaceArtifact `json:"artifacts"`
}

func (s stagingRoutes) listAllArtifacts(ctx context.Context, _ *struct{}) (*body[WorkspaceArtifacts], error) {
	out := WorkspaceArtifacts{[]client.WorkspaceArtifact{}}
	if s.cfg.Artifacts == nil {
		return &body[WorkspaceArtifacts]{out}, nil
	}
	list, err := s.listEveryArtifact(ctx)
	for _, art := range list {
		out.Artifacts = append(out.Artifacts, art.WorkspaceArtifact)
	}
	return &body[WorkspaceArtifacts]{out}, err
}

type artifactInput struct {
	Target
	Name    string `query:"name" required:"true"`
	Version int    `query:"version" default:"-1" doc:"-1 is the latest; of delete, all"`
}

func readArtifact(ctx context.Context, a *stage.Artifacts, in *artifactInput) (*huma.StreamResponse, error) {
	content, art, err := a.Open(ctx, in.Name, in.Version)
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		defer content.Close()
		_, w := humago.Unwrap(hc)
		w.Header().Set("Content-Type", "application/octet-stream")
		setDownload(w.Header(), path.Base(art.Name))
		w.Header().Set(ArtifactHeader, asciiJSON(art))
		if _, err := io.Copy(w, content); err != nil {
			panic(http.ErrAbortHandler) // abort, so that the client does not take a part for the whole
		}
	}}, nil
}

func deleteArtifact(ctx context.Context, a *stage.Artifacts, in *artifactInput) (*none, error) {
	return nil, a.Delete(ctx, in.Name, in.Version)
}

type saveInput struct {
	Target
	Name string `query:"name" required:"true"`
	MIME string `query:"mime" doc:"type of the content; application/octet-stream where absent"`

	streamBody
}

func (s stagingRoutes) saveArtifact(ctx context.Context, in *saveInput) (*body[stage.Artifact], error) {
	of, err := s.stagingTarget(ctx, in.Target)
	if err == nil && in.MIME != "" {
		if _, _, bad := mime.ParseMediaType(in.MIME); bad != nil {
			err = badParameter("mime", "%.80q is not a media type such as text/plain", in.MIME)
		}
	}
	var art stage.Artifact
	if err == nil {
		art, err = of.artifacts.Save(ctx, in.Name, in.stream, in.MIME)
	}
	if err != nil {
		in.end()
		return nil, err
	}
	return &body[stage.Artifact]{art}, nil
}
