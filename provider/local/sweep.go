package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/croft-run/croft/workspace/driver"
)

// Sweep removes the directories of workspaces that are not in live, and what a
// crash left. What belongs to providers of other kinds stays.
func (p *Provider) Sweep(ctx context.Context, live []string) error {
	dead, err := p.bury(ctx, live)
	for _, name := range dead {
		err = errors.Join(err, ctx.Err())
		if ctx.Err() != nil {
			break
		}
		err = errors.Join(err, removeTree(p.path(name)))
		driver.Step(ctx, "removed")
	}
	if err != nil {
		return fmt.Errorf("local: sweep: %w", err)
	}
	return nil
}

// bury gives what is to be removed a name that says so, and returns all such names.
func (p *Provider) bury(ctx context.Context, live []string) ([]string, error) {
	if _, err := os.Lstat(p.root); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	unlock, err := p.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	entries, err := os.ReadDir(p.root)
	if err != nil {
		return nil, err
	}
	var dead []string
	for _, e := range entries {
		name, err := p.judge(e.Name(), live)
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
func (p *Provider) judge(name string, live []string) (string, error) {
	if id, ok := strings.CutPrefix(name, deadPrefix); ok {
		if id, _, _ = strings.Cut(id, "-"); driver.ValidID(id) {
			return name, nil
		}
		return "", nil
	}
	if id, ok := strings.CutPrefix(name, newPrefix); ok && driver.ValidID(id) && !slices.Contains(live, id) {
		return name, nil
	}
	if !driver.ValidID(name) || slices.Contains(live, name) {
		return "", nil
	}
	data, err := os.ReadFile(p.path(name, metaName))
	if err != nil {
		return "", nil //nolint:nilerr // without a meta it is not known to be ours
	}
	if !ours(data, name) {
		return "", nil
	}
	return p.kill(name)
}

// ours reports whether a meta, of this version or another, is of a workspace of
// this kind.
func ours(data []byte, id string) bool {
	var m struct {
		Kind string `json:"kind"`
		ID   string `json:"id"`
	}
	return json.Unmarshal(data, &m) == nil && m.Kind == Kind && m.ID == id
}

// kill renames the directory of a workspace to a dead one's and returns that
// name; where there is no workspace any more, the name that it would have. The
// lock is held.
func (p *Provider) kill(id string) (string, error) {
	dead := deadPrefix + id
	err := os.Rename(p.path(id), p.path(dead))
	if errors.Is(err, fs.ErrExist) { // of a namesake, which someone may be removing just now
		dead += "-" + driver.NewID()
		err = os.Rename(p.path(id), p.path(dead))
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return dead, err
}
