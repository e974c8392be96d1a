package history

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/paths"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// RevertOptions say what Revert reverts. At least one of Paths and Hunks is required.
type RevertOptions struct {
	From  string            // state since which changes count; "" is Origin
	Paths []string          // changed paths that are reverted whole, with all below them
	Hunks snapshot.Hunks    // by path, the hunks that are reverted, counted from 1 as in snapshot.MergeOptions
	Shown map[string]string // see CheckShown
}

// Reverted is the result of Revert.
type Reverted struct {
	Paths []string // that were changed
	Undo  string   // id of the snapshot of the state before
}

// Revert reverts changes of a workspace: the paths have the state of From again, or that state
// with the hunks that are not reverted. It takes a snapshot first, and rolls back to it if
// writing fails. A path or hunk that did not change is fault.NotFound, and nothing is changed.
func Revert(ctx context.Context, ws *workspace.Workspace, opts *RevertOptions) (*Reverted, error) {
	if len(opts.Paths) == 0 && len(opts.Hunks) == 0 {
		return nil, fmt.Errorf("revert: %w: name paths, hunks or both", fault.InvalidArgument)
	}
	base, now, err := Trees(ctx, ws, opts.From, Now)
	if err != nil {
		return nil, err
	}
	asked := slices.Concat(opts.Paths, opts.Hunks.Paths())
	d, err := snapshot.Diff(ctx, base, now, &snapshot.DiffOptions{Text: true, Only: asked, NoGit: true})
	if err != nil {
		return nil, err
	}
	if err := CheckShown(d, opts.Shown); err != nil {
		return nil, err
	}
	paths, keep, err := chooseReverted(d, opts)
	if err != nil {
		return nil, err
	}
	if len(keep) > 0 {
		// What stays is merged into the old state, so that hunks count as in the difference.
		m, err := snapshot.Merge(ctx, base, base, now, &snapshot.MergeOptions{Only: keep.Paths(), Hunks: keep, Ignored: true, Autorun: true})
		if err != nil {
			return nil, err
		}
		if len(m.Conflicts) > 0 {
			return nil, fmt.Errorf("revert %s: %w: %s", m.Conflicts[0].Path, fault.Conflict, m.Conflicts[0].Reason)
		}
		base, _ = m.ApplyTo(base)
	}
	before, err := acceptTree(ctx, ws, base, paths, "revert")
	if err != nil {
		return nil, err
	}
	return &Reverted{Paths: paths, Undo: before.ID}, nil
}

// chooseReverted returns the paths that change, and for files of which a part is reverted, the
// hunks that stay.
func chooseReverted(d *snapshot.Comparison, opts *RevertOptions) (changed []string, keep snapshot.Hunks, err error) {
	keep = snapshot.Hunks{}
	found := map[string]bool{}
	for _, c := range d.Changes {
		chosen, part := opts.Hunks[c.Path]
		whole := slices.ContainsFunc(opts.Paths, func(p string) bool { return paths.InsideName(p, c.Path) || c.From != "" && paths.InsideName(p, c.From) })
		if !part && !whole {
			continue
		}
		found[c.Path] = true
		changed = append(changed, c.Path)
		if c.From != "" {
			changed = append(changed, c.From)
		}
		if whole {
			continue
		}
		var rest []int
		for i := range c.Hunks {
			if !slices.Contains(chosen, i+1) {
				rest = append(rest, i+1)
			}
		}
		if taken := len(c.Hunks) - len(rest); taken == 0 || taken < len(unique(chosen)) {
			return nil, nil, fmt.Errorf("revert %s: %w: it has %d hunks, not %v", c.Path, fault.NotFound, len(c.Hunks), chosen)
		}
		if len(rest) > 0 && (c.Old == nil || c.New == nil || c.From != "") {
			return nil, nil, fmt.Errorf("revert hunks of %s: %w: it was %s: revert it whole, as a path", c.Path, fault.InvalidArgument, c.Kind)
		}
		if len(rest) > 0 {
			keep[c.Path] = rest
		}
	}
	for path := range opts.Hunks {
		if !found[path] {
			return nil, nil, fmt.Errorf("revert %s: %w: it did not change", path, fault.NotFound)
		}
	}
	for _, p := range opts.Paths {
		if !slices.ContainsFunc(changed, func(name string) bool { return paths.InsideName(p, name) }) {
			return nil, nil, fmt.Errorf("revert %s: %w: it did not change", p, fault.NotFound)
		}
	}
	return changed, keep, nil
}

func unique(list []int) []int { return slices.Compact(slices.Sorted(slices.Values(list))) }

// CheckShown returns fault.Conflict if changes are not those that someone was shown and has decided
// about: an agent may go on meanwhile. By path, shown has the digest of the new content or the
// target of the new symlink, and "" for what was removed. Directories may be left out. Without
// shown everything passes.
func CheckShown(d *snapshot.Comparison, shown map[string]string) error {
	if len(shown) == 0 {
		return nil
	}
	changed := func(path string) error {
		return fmt.Errorf("%s: %w: it has changed since it was shown; look at the changes again", path, fault.Conflict)
	}
	found := map[string]bool{}
	for _, c := range d.Changes {
		found[string([]rune(c.Path))], found[c.From] = true, true
		want, ok := shown[string([]rune(c.Path))] // as JSON has a path that is not UTF-8
		var now string
		if c.New != nil {
			now = cmp.Or(c.New.Digest, c.New.Target)
		}
		isDir := c.New != nil && c.New.Type == driver.TypeDir || c.New == nil && c.Old.Type == driver.TypeDir
		if now != want || !ok && !isDir {
			return changed(c.Path)
		}
	}
	for path := range shown {
		if !found[path] {
			return changed(path)
		}
	}
	return nil
}
