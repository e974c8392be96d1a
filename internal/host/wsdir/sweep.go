package wsdir

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/workspace/driver"
)

// Sweep removes the directories of workspaces that are not in live, and those that a crash
// left half made. Directories of other kinds stay. end, which may be nil, is called with
// each directory before it is removed.
func (s *Store) Sweep(ctx context.Context, live []string, end func(ctx context.Context, dir string) error) error {
	dead, err := s.renameAllDead(ctx, live)
	for _, name := range dead {
		err = errors.Join(err, ctx.Err())
		if ctx.Err() != nil {
			break
		}
		err = errors.Join(err, s.removeDir(ctx, name, end))
		driver.Step(ctx, "removed")
	}
	if err != nil {
		return fmt.Errorf("%s: sweep: %w", s.kind, err)
	}
	return nil
}

// HasWorkspaces reports whether the root has a directory of a workspace of this kind, also
// one that is new or dead.
func (s *Store) HasWorkspaces(context.Context) (bool, error) {
	entries, err := os.ReadDir(s.root)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("%s: list the workspace directories: %w", s.kind, err)
	}
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		if strings.HasPrefix(e.Name(), s.newPrefix) || strings.HasPrefix(e.Name(), s.deadPrefix) {
			return true
		}
		if !driver.ValidID(e.Name()) {
			return false
		}
		_, err := os.Lstat(s.Dir(e.Name()).statePath())
		return !errors.Is(err, fs.ErrNotExist)
	}), nil
}

func (s *Store) removeDir(ctx context.Context, name string, end func(ctx context.Context, dir string) error) error {
	if err := s.callEnd(ctx, name, end); err != nil {
		return err
	}
	return files.RemoveTree(s.Path(name))
}

func (s *Store) callEnd(ctx context.Context, name string, end func(ctx context.Context, dir string) error) error {
	if end == nil {
		return nil
	}
	if err := end(ctx, s.Path(name)); err != nil {
		return err
	}
	driver.Step(ctx, "ended")
	return nil
}

// renameAllDead gives each directory that is to be removed its .dead- name, and returns
// those names.
func (s *Store) renameAllDead(ctx context.Context, live []string) ([]string, error) {
	if _, err := os.Lstat(s.root); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	unlock, err := s.Lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	entries, err := os.ReadDir(s.root)
	if err != nil {
		return nil, err
	}
	var dead []string
	for _, e := range entries {
		name, err := s.renameIfDead(e.Name(), live)
		if err != nil {
			return dead, err
		}
		if name != "" {
			dead = append(dead, name)
			driver.Step(ctx, "renamed dead")
		}
	}
	return dead, nil
}

// renameIfDead returns the name of an entry of the root that is to be removed, after
// renaming it if it is a workspace directory, or "".
func (s *Store) renameIfDead(name string, live []string) (string, error) {
	if id, ok := strings.CutPrefix(name, s.deadPrefix); ok {
		if id, _, _ = strings.Cut(id, "-"); driver.ValidID(id) {
			return name, nil
		}
		return "", nil
	}
	if id, ok := strings.CutPrefix(name, s.newPrefix); ok && driver.ValidID(id) && !slices.Contains(live, id) {
		return name, nil
	}
	if !driver.ValidID(name) || slices.Contains(live, name) {
		return "", nil
	}
	data, err := os.ReadFile(s.Dir(name).statePath())
	if err != nil {
		return "", nil // without a state file its kind is not known
	}
	if isTorn(data) {
		return s.renameDead(name)
	}
	if !s.isOwnState(data, name) {
		return "", nil
	}
	return s.renameDead(name)
}

// isOwnState reports whether a state file, of any version, belongs to the workspace id of
// this kind.
func (s *Store) isOwnState(data []byte, id string) bool {
	var m struct {
		Kind string `json:"kind"`
		ID   string `json:"id"`
	}
	return json.Unmarshal(data, &m) == nil && m.Kind == s.kind && m.ID == id
}

// renameDead renames the directory of a workspace to its .dead- name and returns that name,
// also if there is no such directory. The lock of the root is held.
func (s *Store) renameDead(id string) (string, error) {
	dead := s.deadPrefix + id
	err := os.Rename(s.Path(id), s.Path(dead))
	if errors.Is(err, fs.ErrExist) { // an earlier workspace of that id, which may be under removal
		dead += "-" + driver.NewID()
		err = os.Rename(s.Path(id), s.Path(dead))
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return dead, err
}

func (s *Store) lockAndRenameDead(ctx context.Context, id string) (dead string, err error) {
	unlock, err := s.Lock(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	if dead, err = s.renameDead(id); err == nil {
		driver.Step(ctx, "renamed dead")
	}
	return dead, err
}
