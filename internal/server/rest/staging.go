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

func (s *Server) stagingRoutes() {
	handle(s, s.op(http.MethodGet, stagingPath, "load-staging", "The staging metadata of a workspace: staged, prepared and collected files"), s.loadStaging)
	handle(s, s.op(http.MethodPut, stagingPath, "save-staging", "Replace the staging metadata; the caller holds the lock"), s.saveStaging)
	handle(s, s.op(http.MethodPost, stagingPath+"/outputs", "record-output", "Add a collection to the staging metadata; does not wait for the lock"), s.recordOutput)
	lock := s.op(http.MethodPost, stagingPath+"/lock", "lock-staging", "Lock the staging metadata of a workspace while the request lasts")
	lock.Description = "The answer begins when the lock is free, and does not end: the client has the lock until it closes the connection. " +
		"A byte is sent every few seconds."
	lock.Responses["200"] = octetResponse("the lock")
	handle(s, lock, s.lockStaging)
	handle(s, shown(s.op(http.MethodGet, artifactsPath, "list-artifacts", "The artifacts of a workspace, each with its latest version; or all versions of one")), s.listArtifacts)
	handle(s, s.op(http.MethodGet, allArtifacts, "list-all-artifacts", "The artifacts of all workspaces, destroyed ones included, each with its latest version"), s.listAllArtifacts)
	read := shown(s.op(http.MethodGet, artifactPath, "read-artifact", "The content of an artifact"))
	read.Description = "The header " + ArtifactHeader + " says which version it is."
	read.Responses["200"] = octetResponse("the content")
	handle(s, read, s.readArtifact)
	save := s.op(http.MethodPut, artifactPath, "save-artifact", "Save a new version of an artifact")
	save.RequestBody = &huma.RequestBody{Required: true, Content: octetResponse("").Content}
	save.MaxBodyBytes = 0 // it is a stream
	handle(s, save, s.saveArtifact)
	handle(s, s.op(http.MethodDelete, artifactPath, "delete-artifact", "Delete a version of an artifact, or all of them"), s.deleteArtifact)
}

// stagingTarget returns the id of a workspace, and its artifacts.
func (s *Server) stagingTarget(ctx context.Context, t Target) (id string, a *stage.Artifacts, err error) {
	rec, err := s.lookupRecord(ctx, t)
	if err != nil {
		return "", nil, err
	}
	if s.cfg.Staging == nil || s.cfg.Artifacts == nil {
		return "", nil, fmt.Errorf("staging metadata: %w: this server keeps none", fault.Unsupported)
	}
	return rec.ID, s.cfg.Artifacts.In(stage.WorkspacePrefix(rec.Tenant, rec.ID)), nil
}

// workspaceArtifacts returns the artifacts of a workspace, which may be gone: they outlive it.
func (s *Server) workspaceArtifacts(ctx context.Context, t Target) (*stage.Artifacts, error) {
	_, a, err := s.stagingTarget(ctx, t)
	if fault.Of(err) != fault.NotFound || !driver.ValidID(t.ID) || s.cfg.Artifacts == nil {
		return a, err
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
func (s *Server) listEveryArtifact(ctx context.Context) ([]tenantArtifact, error) {
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

func (s *Server) loadStaging(ctx context.Context, in *Target) (*body[StagingMetadata], error) {
	id, _, err := s.stagingTarget(ctx, *in)
	if err != nil {
		return nil, err
	}
	m, err := s.cfg.Staging.Load(ctx, id)
	return &body[StagingMetadata]{StagingMetadata{m}}, err
}

type stagingInput struct {
	Target
	Body StagingMetadata
}

func (s *Server) saveStaging(ctx context.Context, in *stagingInput) (*none, error) {
	id, _, err := s.stagingTarget(ctx, in.Target)
	if err != nil {
		return nil, err
	}
	if in.Body.Metadata == nil {
		return nil, s.cfg.Staging.Delete(ctx, id)
	}
	return nil, s.cfg.Staging.Save(ctx, id, in.Body.Metadata)
}

type recordInput struct {
	Target
	Body struct {
		Output stage.OutputRecord `json:"output"`
	}
}

func (s *Server) recordOutput(ctx context.Context, in *recordInput) (*none, error) {
	id, _, err := s.stagingTarget(ctx, in.Target)
	if err != nil {
		return nil, err
	}
	return nil, s.cfg.Staging.Record(ctx, id, in.Body.Output, stage.DefaultHistory)
}

func (s *Server) lockStaging(ctx context.Context, in *Target) (*huma.StreamResponse, error) {
	id, _, err := s.stagingTarget(ctx, *in)
	if err != nil {
		return nil, err
	}
	ctx, cancel := s.untilDrain(ctx)
	unlock, err := s.cfg.Staging.Lock(ctx, id)
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

func (s *Server) listArtifacts(ctx context.Context, in *artifactsInput) (*body[Artifacts], error) {
	a, err := s.workspaceArtifacts(ctx, in.Target)
	if err != nil {
		return nil, err
	}
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

func (s *Server) listAllArtifacts(ctx context.Context, _ *struct{}) (*body[WorkspaceArtifacts], error) {
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

func (s *Server) readArtifact(ctx context.Context, in *artifactInput) (*huma.StreamResponse, error) {
	a, err := s.workspaceArtifacts(ctx, in.Target)
	if err != nil {
		return nil, err
	}
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

func (s *Server) deleteArtifact(ctx context.Context, in *artifactInput) (*none, error) {
	a, err := s.workspaceArtifacts(ctx, in.Target)
	if err != nil {
		return nil, err
	}
	return nil, a.Delete(ctx, in.Name, in.Version)
}

type saveInput struct {
	Target
	Name string `query:"name" required:"true"`
	MIME string `query:"mime" doc:"type of the content; application/octet-stream where absent"`

	streamBody
}

func (s *Server) saveArtifact(ctx context.Context, in *saveInput) (*body[stage.Artifact], error) {
	_, a, err := s.stagingTarget(ctx, in.Target)
	if err == nil && in.MIME != "" {
		if _, _, bad := mime.ParseMediaType(in.MIME); bad != nil {
			err = badParameter("mime", "%.80q is not a media type such as text/plain", in.MIME)
		}
	}
	var art stage.Artifact
	if err == nil {
		art, err = a.Save(ctx, in.Name, in.stream, in.MIME)
	}
	if err != nil {
		in.end()
		return nil, err
	}
	return &body[stage.Artifact]{art}, nil
}
