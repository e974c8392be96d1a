package app

import (
	"context"
	"path/filepath"

	"github.com/croft-run/croft/prepare/bootstrap"
	"github.com/croft-run/croft/prepare/stage"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/tool/skill"
)

// openStage opens the staging metadata, in the data directory, and the artifacts.
func (s *System) openStage(ctx context.Context) (err error) {
	if s.staging, err = stage.NewDirState(filepath.Join(s.Dir, "prep")); err != nil {
		return err
	}
	return s.openArtifacts(ctx)
}

// skillTools returns the tools for skills and artifacts.
func (s *System) skillTools() []*tool.Tool {
	return skill.Tools(skill.Options{Skills: &bootstrap.Skills{Roots: s.settings().Skills}, State: s.staging, Artifacts: s.artifactsOf})
}

// artifactsOf returns the artifacts of a workspace.
func (s *System) artifactsOf(workspace string) *stage.Artifacts {
	tenant, _ := s.tenants.Of(context.Background(), workspace) //nolint:forbidigo // a Stage is made once for all calls
	return s.artifacts.In(stage.WorkspacePrefix(tenant, workspace))
}

// closerFunc is a function as an io.Closer.
type closerFunc func() error

func (c closerFunc) Close() error { return c() }
