package snapshot

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/hostgit"
	"github.com/croft-run/croft/workspace/driver"
)

// BundleOptions are the options of ImportBundle.
type BundleOptions struct {
	Prefix string // of the references that are written, such as "refs/croft/demo/"

	// Branch, if set, is moved to the HEAD of the bundle, instead of references with
	// Prefix. It is created, or fast-forwarded.
	Branch string

	// Refs are all references of the source, as history.Refs returns them; nil is those
	// of the bundle, which lacks what the repository has already. With Prefix, other
	// references there are removed.
	Refs []ImportedRef

	MaxBytes int64 // of the pack; 0 is MaxBundle
}

// MaxBundle is the maximum size of a bundle.
const MaxBundle = 256 << 20

// Imported is the result of ImportBundle.
type Imported struct {
	Refs    []ImportedRef `json:"refs"`
	Removed []string      `json:"removed,omitempty"` // references that the source no longer has

	// Autorun are autorun files that the commits change against HEAD: a checkout or a
	// merge would bring them into the work tree. They are the first MaxLeftOutListed
	// of AutorunTotal, those at the top first.
	Autorun      []string `json:"autorun,omitempty"`
	AutorunTotal int      `json:"autorunTotal,omitempty"`
}

// An ImportedRef is a reference that was written.
type ImportedRef struct {
	Name    string `json:"name"`
	Commit  string `json:"commit"`
	Commits int    `json:"commits"` // that are new in the repository

	old string
}

// ImportBundle takes commits from a bundle that git made in a workspace; nil is a
// workspace without new commits. The bundle is not trusted: git index-pack verifies its
// objects (--strict), nothing but objects and references of branches, tags and HEAD is
// taken, and no program of the source or of the repository runs. Work tree, index, HEAD,
// configuration and hooks stay unchanged. A bundle that is refused leaves nothing.
func (r *Repository) ImportBundle(ctx context.Context, bundle io.Reader, opts *BundleOptions) (*Imported, error) {
	if opts.Branch != "" {
		if err := r.git.CheckBranch(ctx, opts.Branch); err != nil {
			return nil, err
		}
	}
	q, err := r.git.Quarantine(ctx)
	if err != nil {
		return nil, err
	}
	defer q.Remove()
	inside, refs := &Repository{q.Repository, r.top}, opts.Refs
	if bundle != nil {
		found, err := q.Receive(ctx, bundle, cmp.Or(opts.MaxBytes, MaxBundle))
		if err != nil {
			return nil, err
		}
		for i := 0; opts.Refs == nil && i < len(found); i++ {
			refs = append(refs, ImportedRef{Name: found[i].Name, Commit: found[i].Commit})
		}
	}
	res, names := &Imported{Refs: []ImportedRef{}}, map[string]bool{}
	found := map[string]bool{}
	for _, ref := range refs {
		if !hostgit.IsObjectName(ref.Commit) {
			return nil, fmt.Errorf("snapshot: import commits: %w: the workspace lists %.100q as a commit", fault.InvalidArgument, ref.Commit)
		}
		if ref.Name, err = r.importedName(ctx, ref.Name, opts); err != nil {
			return nil, err
		}
		if ref.Name == "" {
			continue
		}
		names[ref.Name] = true
		if err := inside.checkImported(ctx, &ref, opts); err != nil {
			return nil, err
		}
		if ref.old == ref.Commit {
			continue
		}
		if err := inside.addAutorun(ctx, found, ref.Commit); err != nil {
			return nil, err
		}
		res.Refs = append(res.Refs, ref)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("snapshot: import commits: %w: the bundle has no branch, tag or HEAD to take", fault.NotFound)
	}
	res.AutorunTotal = len(found)
	res.Autorun = topFirst(slices.Collect(maps.Keys(found)))
	res.Autorun = res.Autorun[:min(len(res.Autorun), MaxLeftOutListed)]
	if err := q.Publish(); err != nil {
		return nil, err
	}
	if opts.Refs != nil && opts.Branch == "" {
		if res.Removed, err = r.git.RemoveRefs(ctx, opts.Prefix, names); err != nil {
			return nil, err
		}
	}
	return res, r.writeRefs(ctx, res.Refs)
}

// topFirst sorts paths by their depth, then by name, so that a flood of files further down
// does not hide those at the top.
func topFirst(paths []string) []string {
	slices.SortFunc(paths, func(a, b string) int {
		return cmp.Or(strings.Count(a, "/")-strings.Count(b, "/"), strings.Compare(a, b))
	})
	return paths
}

// importedName returns the name under which a reference is written; "" if it is not.
func (r *Repository) importedName(ctx context.Context, name string, opts *BundleOptions) (string, error) {
	to := ""
	switch {
	case opts.Branch != "":
		if name == "HEAD" {
			to = "refs/heads/" + opts.Branch
		}
	case name == "HEAD":
		to = opts.Prefix + "HEAD"
	case strings.HasPrefix(name, "refs/heads/"), strings.HasPrefix(name, "refs/tags/"):
		to = opts.Prefix + strings.TrimPrefix(name, "refs/")
	}
	if to == "" {
		return "", nil
	}
	if _, err := r.git.Run(ctx, nil, nil, "check-ref-format", to); err != nil {
		return "", fmt.Errorf("snapshot: reference %.200q: %w: the name must be valid", to, fault.InvalidArgument)
	}
	return to, nil
}

// checkImported verifies that all objects of a reference are there, and counts its
// new commits. A branch must be fast-forwarded, and not be checked out.
func (r *Repository) checkImported(ctx context.Context, ref *ImportedRef, opts *BundleOptions) error {
	if _, err := r.git.Run(ctx, nil, nil, "rev-list", "--objects", "--quiet", "--not", "--all", "--not", "--end-of-options", ref.Commit); err != nil {
		return fmt.Errorf("snapshot: import commits: %s: %w: objects are missing: %w", ref.Name, fault.InvalidArgument, err)
	}
	out, err := r.git.Run(ctx, nil, nil, "rev-list", "--count", "--not", "--all", "--not", "--end-of-options", ref.Commit)
	if err == nil {
		ref.Commits, err = strconv.Atoi(strings.TrimSpace(string(out)))
	}
	if err != nil {
		return err
	}
	old, err := r.git.Run(ctx, nil, nil, "for-each-ref", "--format=%(refname) %(objectname)", "--", ref.Name)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(old)) {
		if name, id, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " "); name == ref.Name {
			ref.old = id
		}
	}
	if opts.Branch == "" {
		return nil
	}
	if where, err := r.git.CheckedOut(ctx, ref.Name); err != nil || where != "" {
		return errors.Join(err, fmt.Errorf("snapshot: branch %q: %w: the branch is checked out in %s; name another branch", opts.Branch, fault.WrongState, where))
	}
	if ref.old == "" {
		return nil
	}
	if _, err := r.git.Run(ctx, nil, nil, "merge-base", "--is-ancestor", ref.old, ref.Commit); err != nil {
		return fmt.Errorf("snapshot: branch %q: %w: its commits are not in the history of the workspace's HEAD; name another branch", opts.Branch, fault.Conflict)
	}
	return nil
}

// addAutorun adds the autorun files that differ between HEAD and a commit. A repository
// without commits has no files.
func (r *Repository) addAutorun(ctx context.Context, found map[string]bool, commit string) error {
	if _, err := r.Commit(ctx, commit); err != nil {
		return nil // a tag of something else
	}
	head, err := r.Commit(ctx, "HEAD")
	if fault.Of(err) == fault.NotFound {
		var out []byte
		out, err = r.git.Run(ctx, strings.NewReader(""), nil, "hash-object", "-t", "tree", "--stdin")
		head = strings.TrimSpace(string(out))
	}
	if err != nil {
		return err
	}
	out, err := r.git.Run(ctx, nil, nil, "diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-ext-diff", "--no-textconv", "--end-of-options", head, commit)
	if err != nil {
		return err
	}
	var changes []FileChange
	fields := strings.Split(string(out), "\x00")
	for i := 0; i+1 < len(fields); i += 2 { // :MODE MODE OBJECT OBJECT STATUS, path
		c := FileChange{Path: fields[i+1], New: &Side{Type: driver.TypeFile}}
		if _, modes, _ := strings.Cut(fields[i], " "); strings.HasPrefix(modes, "120000") {
			c.New.Type = driver.TypeSymlink
		}
		changes = append(changes, c)
	}
	names := map[string]bool{} // of both trees, in lower case
	for _, tree := range []string{head, commit} {
		out, err := r.git.Run(ctx, nil, nil, "ls-tree", "-r", "-t", "-z", "--name-only", "--full-tree", "--end-of-options", tree)
		if err != nil {
			return err
		}
		for name := range strings.SplitSeq(strings.ToLower(string(out)), "\x00") {
			names[name] = true
		}
	}
	m := &merger{ours: Empty, opts: MergeOptions{to: &destination{root: r.top, files: true}}}
	m.hasName = func(_ context.Context, name string) (bool, error) { return names[strings.ToLower(name)], nil }
	_, dropped, err := m.splitAutorun(ctx, changes)
	for _, c := range dropped {
		found[c.Path] = true
	}
	return err
}

// writeRefs writes references in one transaction.
func (r *Repository) writeRefs(ctx context.Context, refs []ImportedRef) error {
	var in bytes.Buffer
	for _, ref := range refs {
		old := ref.old
		if old == "" {
			old = strings.Repeat("0", len(ref.Commit))
		}
		fmt.Fprintf(&in, "update %s\x00%s\x00%s\x00", ref.Name, ref.Commit, old)
	}
	if _, err := r.git.Run(ctx, &in, nil, "update-ref", "-m", "croft: apply --commits", "-z", "--stdin"); err != nil {
		return fmt.Errorf("snapshot: import commits: %w: %w", fault.Conflict, err)
	}
	return nil
}

// Tips returns the object names of references, at most max of them, the newest
// first.
func (r *Repository) Tips(ctx context.Context, most int) ([]string, error) {
	out, err := r.git.Run(ctx, nil, nil, "for-each-ref", "--sort=-creatordate", "--count="+strconv.Itoa(most), "--format=%(objectname)")
	return strings.Fields(string(out)), err
}
