package plot

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
	"github.com/croft-run/croft/workspace/driver"
)

// Ensure makes the workspace of spec, or brings the one that is there to its
// policy. own is what the provider keeps in the meta; build, which may be nil,
// adds to the directory of a new workspace before it gets its name.
func (g *Ground) Ensure(ctx context.Context, spec driver.Spec, own json.RawMessage, build func(dir string) error) (*Meta, error) {
	unlock, err := g.Lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	m, err := g.Read(spec.ID)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return g.create(ctx, spec, own, build)
	case err != nil:
		return nil, err
	case m.Dir != cleanDir(spec.Dir):
		return nil, fmt.Errorf("directory %q: %w: the workspace was opened with %q", spec.Dir, fault.InvalidArgument, m.Dir)
	case !bytes.Equal(m.Own, own):
		return nil, fmt.Errorf("what the workspace starts from: %w: it was opened with another configuration", fault.InvalidArgument)
	case samePolicy(m.Policy, spec.Policy):
		return m, nil
	}
	return m, g.setPolicy(ctx, m, spec.Policy)
}

func cleanDir(dir string) string {
	if dir == "" {
		return ""
	}
	return filepath.Clean(dir)
}

// create makes a workspace under a name that says it is new, and then gives it
// its own.
func (g *Ground) create(ctx context.Context, spec driver.Spec, own json.RawMessage, build func(dir string) error) (*Meta, error) {
	m := &Meta{Version: metaVersion, Kind: g.kind, ID: spec.ID, Revision: 1, Policy: spec.Policy, Boot: g.boot, Own: own}
	if spec.Dir != "" {
		real, err := g.checkDir(spec.Dir)
		if err != nil {
			return nil, err
		}
		m.Dir, m.Real = cleanDir(spec.Dir), real
	}
	fresh := g.Path(g.newPrefix + spec.ID)
	if err := RemoveTree(fresh); err != nil { // what a crash left
		return nil, err
	}
	if err := m.build(ctx, fresh, build); err != nil {
		return nil, errors.Join(err, RemoveTree(fresh))
	}
	if err := os.Rename(fresh, g.Path(spec.ID)); err != nil {
		return nil, errors.Join(err, RemoveTree(fresh))
	}
	driver.Step(ctx, "renamed")
	if m.Policy.Durable {
		return m, syncPath(g.root)
	}
	return m, nil
}

// build fills the directory of a new workspace.
func (m *Meta) build(ctx context.Context, dir string, more func(dir string) error) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	driver.Step(ctx, "directory made")
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
	if err := m.write(dir); err != nil {
		return err
	}
	driver.Step(ctx, "meta written")
	return nil
}

// checkDir judges a directory to be used in place and returns where it really is.
func (g *Ground) checkDir(dir string) (string, error) {
	if !filepath.IsAbs(dir) {
		return "", fmt.Errorf("directory %q: %w: it must be an absolute path", dir, fault.InvalidArgument)
	}
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%w: Workspace path does not exist: %s", fault.NotFound, dir)
	}
	if err != nil {
		return "", fmt.Errorf("directory %q: %w: %w", dir, fault.Of(err), err)
	}
	if !info.IsDir() {
		return "", fmt.Errorf("%w: Workspace path is not a directory: %s", fault.InvalidArgument, dir)
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	root, err := filepath.EvalSymlinks(g.root)
	if err != nil {
		return "", err
	}
	if within(real, root) || within(root, real) {
		return "", fmt.Errorf("directory %q: %w: it holds the files of other workspaces, or is one of them", dir, fault.InvalidArgument)
	}
	return real, nil
}

// within reports whether a path is dir or below it. Both are clean.
func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}
