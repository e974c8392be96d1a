package snapshot

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/croft-run/croft/internal/hostgit"
	"github.com/croft-run/croft/workspace/driver"
)

// A destination is what a merge must know of the host that its result goes to.
type destination struct {
	root  string // absolute path of the top, without symlinks
	files bool   // the merge is into the files at root, not into a commit
}

// autorunTargets returns the paths of ours that autorun files lead to by symlinks from
// the top, and those that the git of the destination runs: a change of such a file is a
// change of the autorun file.
func (m *merger) autorunTargets(ctx context.Context, names []string, changes []FileChange) (*pathSet, error) {
	root, readlink, targets := "/", os.Readlink, []string{}
	if m.opts.to != nil {
		var changed []string
		for _, c := range changes {
			changed = append(changed, c.Path)
		}
		root = m.opts.to.root
		targets = append(targets, hostgit.Runs(ctx, root, changed)...)
	}
	var failed error
	if m.opts.to == nil || !m.opts.to.files {
		readlink = func(at string) (string, error) {
			rel, err := filepath.Rel(root, at)
			if err != nil || !filepath.IsLocal(rel) || rel == "." {
				return "", os.ErrNotExist
			}
			n, err := statAt(ctx, m.ours, filepath.ToSlash(rel))
			if err != nil {
				failed = err
			}
			if n == nil || n.Type != driver.TypeSymlink {
				return "", os.ErrNotExist
			}
			return n.Target, nil
		}
	}
	for _, name := range names {
		for _, at := range hostgit.LinkTargets(filepath.Join(root, name), readlink)[1:] {
			if rel, err := filepath.Rel(root, at); err == nil && filepath.IsLocal(rel) {
				targets = append(targets, filepath.ToSlash(rel))
			}
		}
	}
	// A file system may ignore case.
	for i := range targets {
		targets[i] = strings.ToLower(targets[i])
	}
	return newPathSet(targets), failed
}
