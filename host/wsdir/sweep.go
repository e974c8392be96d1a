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

	"github.com/croft-run/croft/host/files"
	"github.com/croft-run/croft/workspace/driver"
)

// Sweep removes the directories of workspaces that are not in live, and what a
// crash left. What belongs to providers of other kinds stays. end, which may be
// nil, is called with each directory before it is removed.
func (g *Store) Sweep(ctx context.Context, live []string, end func(ctx context.Context, dir string) error) error {
	dead, err := g.bury(ctx, live)
	for _, name := range dead {
		err = errors.Join(err, ctx.Err())
		if ctx.Err() != nil {
			break
		}
		err = errors.Join(err, g.remove(ctx, name, end))
		driver.Step(ctx, "removed")
	}
	if err != nil {
		return fmt.Errorf("%s: sweep: %w", g.kind, err)
	}
	return nil
}

// HasWorkspaces reports whether there is a directory of a workspace of this kind,
// whole or not.
func (g *Store) HasWorkspaces() (bool, error) {
	entries, err := os.ReadDir(g.root)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("%s: look for workspaces: %w", g.kind, err)
	}
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		if strings.HasPrefix(e.Name(), g.newPrefix) || strings.HasPrefix(e.Name(), g.deadPrefix) {
			return true
		}
		if !driver.ValidID(e.Name()) {
			return false
		}
		_, err := os.Lstat(g.Dir(e.Name()).state())
		return !errors.Is(err, fs.ErrNotExist)
	}), nil
}

// remove removes the directory with the given name, after end.
func (g *Store) remove(ctx context.Context, name string, end func(ctx context.Context, dir string) error) error {
	if err := g.end(ctx, name, end); err != nil {
		return err
	}
	return files.RemoveTree(g.Path(name))
}

// end calls end, which may be nil, with the directory of that name.
func (g *Store) end(ctx context.Context, name string, end func(ctx context.Context, dir string) error) error {
	if end == nil {
		return nil
	}
	if err := end(ctx, g.Path(name)); err != nil {
		return err
	}
	driver.Step(ctx, "ended")
	return nil
}

// bury gives what is to be removed a name that says so, and returns all such names.
func (g *Store) bury(ctx context.Context, live []string) ([]string, error) {
	if _, err := os.Lstat(g.root); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	unlock, err := g.Lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	entries, err := os.ReadDir(g.root)
	if err != nil {
		return nil, err
	}
	var dead []string
	for _, e := range entries {
		name, err := g.judge(e.Name(), live)
		if err != nil {
			return dead, err
		}
		if name != "" {
			dead = append(dead, name)
			driver.Step(ctx, "buried")
		}
	}
	return dead, nil
}

// judge decides about one entry of the root; it returns the name of what is to
// be removed, or "".
func (g *Store) judge(name string, live []string) (string, error) {
	if id, ok := strings.CutPrefix(name, g.deadPrefix); ok {
		if id, _, _ = strings.Cut(id, "-"); driver.ValidID(id) {
			return name, nil
		}
		return "", nil
	}
	if id, ok := strings.CutPrefix(name, g.newPrefix); ok && driver.ValidID(id) && !slices.Contains(live, id) {
		return name, nil
	}
	if !driver.ValidID(name) || slices.Contains(live, name) {
		return "", nil
	}
	data, err := os.ReadFile(g.Dir(name).state())
	if err != nil {
		return "", nil // without a state it is not known to be ours
	}
	if torn(data) {
		return g.kill(name)
	}
	if !g.ours(data, name) {
		return "", nil
	}
	return g.kill(name)
}

// ours reports whether a state, of this version or another, is of a workspace of
// this kind.
func (g *Store) ours(data []byte, id string) bool {
	var m struct {
		Kind string `json:"kind"`
		ID   string `json:"id"`
	}
	return json.Unmarshal(data, &m) == nil && m.Kind == g.kind && m.ID == id
}

// kill renames the directory of a workspace to a dead one's and returns that
// name; where there is no workspace any more, the name that it would have. The
// lock is held.
func (g *Store) kill(id string) (string, error) {
	dead := g.deadPrefix + id
	err := os.Rename(g.Path(id), g.Path(dead))
	if errors.Is(err, fs.ErrExist) { // of a namesake, which someone may be removing just now
		dead += "-" + driver.NewID()
		err = os.Rename(g.Path(id), g.Path(dead))
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return dead, err
}

// buryOne is kill with the lock taken for it.
func (g *Store) buryOne(ctx context.Context, id string) (dead string, err error) {
	unlock, err := g.Lock(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	if dead, err = g.kill(id); err == nil {
		driver.Step(ctx, "buried")
	}
	return dead, err
}
