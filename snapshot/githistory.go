package snapshot

import (
	"context"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/hostgit"
	"github.com/croft-run/croft/workspace/driver"
)

const (
	maxRefs    = 10_000   // that are compared
	maxGitText = 16 << 20 // bytes of a file of references that are read
)

// compareHistory compares two states of a repository. It reads references and
// reflogs as text: no program of the repository runs, and no object is read.
func compareHistory(ctx context.Context, a, b Tree, dir string) (GitChange, error) {
	change := GitChange{Path: dir}
	old, err := readRefs(ctx, a, dir)
	if err != nil {
		return change, err
	}
	now, err := readRefs(ctx, b, dir)
	if err != nil {
		return change, err
	}
	for name, id := range now {
		if old[name] != id {
			change.Refs++
		}
	}
	for name := range old {
		if _, kept := now[name]; !kept {
			change.Refs++
		}
	}
	before, err := readCommitLog(ctx, a, dir)
	if err != nil {
		return change, err
	}
	after, err := readCommitLog(ctx, b, dir)
	if err != nil {
		return change, err
	}
	for id := range after {
		if !before[id] {
			change.Commits++
		}
	}
	return change, nil
}

// NewTips returns the ids at which branches, tags, the stash and HEAD of the repository dir
// are in b, and none is in a, sorted. An id may be anything that looks like one.
func NewTips(ctx context.Context, a, b Tree, dir string) ([]string, error) {
	old, err := readTips(ctx, a, dir)
	if err != nil {
		return nil, err
	}
	now, err := readTips(ctx, b, dir)
	maps.DeleteFunc(now, func(id string, _ bool) bool { return old[id] })
	return slices.Sorted(maps.Keys(now)), err
}

func readTips(ctx context.Context, t Tree, dir string) (map[string]bool, error) {
	refs, err := readRefs(ctx, t, dir)
	if err != nil {
		return nil, err
	}
	head, err := readGitText(ctx, t, path.Join(dir, "HEAD")) // an id if it is detached
	tips := map[string]bool{}
	if id := strings.TrimSpace(head); hostgit.IsObjectName(id) {
		tips[id] = true
	}
	for name, id := range refs {
		own := strings.HasPrefix(name, "refs/heads/") || strings.HasPrefix(name, "refs/tags/") || name == "refs/stash"
		if own && hostgit.IsObjectName(id) {
			tips[id] = true
		}
	}
	return tips, err
}

// readRefs reads the references of a repository: loose ones, and packed ones.
func readRefs(ctx context.Context, t Tree, dir string) (map[string]string, error) {
	refs := map[string]string{}
	packed, err := readGitText(ctx, t, path.Join(dir, "packed-refs"))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(packed) {
		id, name, ok := strings.Cut(strings.TrimSpace(line), " ")
		if ok && strings.HasPrefix(name, "refs/") && len(refs) < maxRefs {
			refs[name] = id
		}
	}
	in, _, err := openDir(ctx, t, path.Join(dir, "refs"))
	if fault.Of(err) == fault.NotFound || err == nil && in == nil {
		return refs, nil
	}
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return refs, walk(ctx, in, "refs/", func(name string, _ Directory, n *Node) (bool, error) {
		if n.Type != driver.TypeFile || len(refs) >= maxRefs {
			return len(refs) < maxRefs, nil
		}
		text, err := readGitText(ctx, t, path.Join(dir, name))
		refs[name] = strings.TrimSpace(text)
		return false, err
	})
}

// readCommitLog returns the commits that the reflog of HEAD says were made.
func readCommitLog(ctx context.Context, t Tree, dir string) (map[string]bool, error) {
	text, err := readGitText(ctx, t, path.Join(dir, "logs/HEAD"))
	made := map[string]bool{}
	for line := range strings.Lines(text) {
		head, message, _ := strings.Cut(line, "\t")
		ids := strings.Fields(head)
		verb, _, _ := strings.Cut(message, ":")
		switch verb, _, _ := strings.Cut(verb, " "); verb {
		case "commit", "merge", "cherry-pick", "revert", "rebase", "am", "pull":
			if len(ids) > 1 {
				made[ids[1]] = true
			}
		}
	}
	return made, err
}

// readGitText reads a small file; "" if it is missing, too large or not a file.
func readGitText(ctx context.Context, t Tree, name string) (string, error) {
	data, err := readFile(ctx, t, name, maxGitText)
	switch fault.Of(err) {
	case fault.NotFound, fault.InvalidArgument, fault.ResourceExhausted:
		return "", nil
	}
	return string(data), err
}
