package wsdir

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/workspace/driver"
)

// Ensure creates the workspace of spec, or updates an existing one to the policy of spec.
// own is the provider's part of the state. build, which may be nil, adds to the directory
// of a new workspace before the directory is renamed to its id.
func (s *Store) Ensure(ctx context.Context, spec driver.Spec, own json.RawMessage, build func(dir string) error) (*State, error) {
	unlock, err := s.Lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	m, err := s.Read(spec.ID)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s.create(ctx, spec, own, build)
	case err != nil:
		return nil, err
	case m.Dir != cleanDir(spec.Dir):
		return nil, fmt.Errorf("directory %q: %w: the workspace was opened with %q", spec.Dir, fault.InvalidArgument, m.Dir)
	case !bytes.Equal(m.Own, own):
		return nil, fmt.Errorf("the configuration of the workspace: %w: it was opened with another one; use a new id", fault.InvalidArgument)
	case samePolicy(m.Policy, spec.Policy):
		return m, nil
	}
	return m, s.setPolicy(ctx, m, spec.Policy)
}

func cleanDir(dir string) string {
	if dir == "" {
		return ""
	}
	return filepath.Clean(dir)
}

// create builds the directory under its .new- name and renames it to the id.
func (s *Store) create(ctx context.Context, spec driver.Spec, own json.RawMessage, build func(dir string) error) (*State, error) {
	m := &State{Version: stateVersion, Kind: s.kind, ID: spec.ID, Revision: 1, Policy: spec.Policy, Session: spec.Session.ID, Boot: s.boot, Own: own}
	if spec.Dir != "" {
		var err error
		if m.Real, m.Is, err = s.checkDir(spec.Dir); err != nil {
			return nil, err
		}
		m.Dir = cleanDir(spec.Dir)
	}
	fresh := s.Path(s.newPrefix + spec.ID)
	if err := recreateDir(fresh); err != nil {
		return nil, err
	}
	driver.Step(ctx, "directory made")
	if err := m.fillDir(ctx, fresh, build); err != nil {
		return nil, errors.Join(err, files.RemoveTree(fresh))
	}
	if err := os.Rename(fresh, s.Path(spec.ID)); err != nil {
		return nil, errors.Join(err, files.RemoveTree(fresh))
	}
	driver.Step(ctx, "renamed")
	if m.Policy.Durable {
		return m, syncPath(s.root)
	}
	return m, nil
}

// recreateDir creates a directory, after removing one that a crash left.
func recreateDir(dir string) error {
	const mode = 0o700
	err := os.Mkdir(dir, mode)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := files.RemoveTree(dir); err != nil {
		return err
	}
	return os.Mkdir(dir, mode)
}

// fillDir writes the content of a new workspace directory.
func (m *State) fillDir(ctx context.Context, dir string, more func(dir string) error) error {
	if m.Dir == "" {
		if err := os.Mkdir(filepath.Join(dir, FilesName), 0o755); err != nil {
			return err
		}
		driver.Step(ctx, "files made")
	}
	if more != nil {
		if err := more(dir); err != nil {
			return err
		}
		driver.Step(ctx, "more made")
	}
	if err := (Dir{dir, m.Kind}).writeInitial(m); err != nil {
		return err
	}
	driver.Step(ctx, "state written")
	return nil
}
