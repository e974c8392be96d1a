package snapshot

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/croft-run/croft/fault"
)

// UndoOptions are the options of Undo.
type UndoOptions struct {
	Force    bool // also if the applied state was changed since
	DryRun   bool // only report the changes
	Stage    string
	Journals string
	Owner    *Owner // see ApplyOptions

	// Workspace is the name or id of the workspace that was applied; "" is any.
	Workspace string
}

// Undo reverts an Apply to a directory, which must be the directory of that Apply.
// If the applied paths were changed since, it is fault.Conflict. A path that has its state before
// the Apply again stays: an Undo that was killed and then completed, or Git, has reverted it.
func Undo(ctx context.Context, s *Store, id, dir string, opts *UndoOptions) (*RestoreResult, error) {
	if opts == nil {
		opts = &UndoOptions{}
	}
	m, err := undoManifest(ctx, s, id, dir, opts.Workspace)
	if err != nil {
		return nil, err
	}
	if !opts.DryRun {
		if _, err := Recover(ctx, dir, opts.Stage, opts.Journals, s); err != nil {
			return nil, err
		}
	}
	paths := m.pathStrings()
	now := Subset(HostDir(dir, nil), paths)
	digest, each, err := digestPaths(ctx, HostDir(dir, nil), paths)
	if err != nil {
		return nil, err
	}
	if digest != m.Labels[AfterLabel] && !opts.Force {
		names := ""
		var changed []string // none if the digests are not known
		for i, p := range paths {
			if i < len(m.After) && m.After[i] != each[i] {
				changed = append(changed, p)
			}
		}
		only := changed
		if len(changed) == 0 { // which ones is not known
			only = paths
		}
		d, err := Diff(ctx, now, s.StoredTree(m.Root), &DiffOptions{NoRenames: true, Only: only})
		if err != nil {
			return nil, err
		}
		if len(changed) > 0 {
			names = ": " + firstNames(comparedPaths(d))
		}
		if len(d.Changes) > 0 {
			const text = "snapshot: undo %s: %w: the applied files were changed since%s; undo would overwrite them"
			return nil, fmt.Errorf(text, id, fault.Conflict, names)
		}
	}
	if opts.DryRun {
		d, err := Diff(ctx, now, s.StoredTree(m.Root), &DiffOptions{NoRenames: true, Only: paths})
		if err != nil {
			return nil, err
		}
		return &RestoreResult{Changed: len(d.Changes), Paths: comparedPaths(d)}, nil
	}
	owner := opts.Owner
	if owner == nil {
		owner = dirOwner(dir)
	}
	return Restore(ctx, s.StoredTree(m.Root), dir, &RestoreOptions{Only: paths, NoGit: true, Stage: opts.Stage, Journals: opts.Journals, Owner: owner})
}

func comparedPaths(c *Comparison) []string {
	var list []string
	for i := range c.Changes {
		list = append(list, c.Changes[i].Path)
	}
	return list
}

// firstNames lists names, as many as an error or a message has room for.
func firstNames(names []string) string {
	const most = 5
	more := ""
	if n := len(names) - most; n > 0 {
		names, more = names[:most], fmt.Sprintf(" (and %d more)", n)
	}
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = printable(name)
	}
	return strings.Join(quoted, ", ") + more
}

// printable returns a name as it is, or quoted if it has characters that could change what a
// terminal shows.
func printable(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool {
		return !unicode.IsPrint(r) || r == unicode.ReplacementChar || unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r)
	}) {
		return strconv.QuoteToASCII(name)
	}
	return name
}

// undoManifest finds the snapshot of an Apply to a directory.
func undoManifest(ctx context.Context, s *Store, id, dir, workspace string) (*Manifest, error) {
	m, err := s.Get(ctx, id)
	if fault.Of(err) == fault.NotFound || err == nil && (m.Labels[AfterLabel] == "" || len(m.Paths) == 0) {
		return nil, fmt.Errorf("snapshot: undo %s: %w: no apply has this id, or its snapshot was deleted since", id, fault.NotFound)
	}
	if err != nil {
		return nil, err
	}
	real, err := realPath(dir)
	if err != nil {
		return nil, err
	}
	if was := m.Labels[DirLabel]; was != real {
		return nil, fmt.Errorf("snapshot: undo %s: %w: it was applied to %s, not to %s", id, fault.InvalidArgument, was, real)
	}
	if name := cmp.Or(m.Labels[NameLabel], m.Workspace); workspace != "" && workspace != name && workspace != m.Workspace {
		return nil, fmt.Errorf("snapshot: undo %s: %w: it was an apply of workspace %s, not of %s", id, fault.InvalidArgument, name, workspace)
	}
	return m, nil
}
