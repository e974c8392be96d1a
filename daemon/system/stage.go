package system

import (
	"path/filepath"

	"github.com/croft-run/croft/bootstrap"
	"github.com/croft-run/croft/stage"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/tool/skill"
)

// StageOptions returns the options of stages whose memory and artifacts are in a
// data directory, and what closes them.
func StageOptions(data string) (*stage.Options, func() error, error) {
	state, err := stage.NewDirState(filepath.Join(data, "prep"))
	if err != nil {
		return nil, nil, err
	}
	artifacts, bucket, err := stage.OpenArtifacts(filepath.Join(data, "artifacts"), "")
	if err != nil {
		return nil, nil, err
	}
	return &stage.Options{State: state, Artifacts: artifacts}, bucket.Close, nil
}

// closer makes an io.Closer of a function.
type closer func() error

func (c closer) Close() error { return c() }

// skillTools returns the tools for skills and artifacts.
func (s *System) skillTools() ([]*tool.Tool, error) {
	opts, closeIt, err := StageOptions(s.Dir)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.open = append(s.open, closer(closeIt))
	s.mu.Unlock()
	return skill.Tools(skill.Options{Skills: &bootstrap.Skills{Roots: s.settings.Skills}, State: opts.State, Artifacts: opts.Artifacts}), nil
}
