package snapshot

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/autorun"
)

// BundleOptions are the options of ImportBundle.
type BundleOptions struct {
	Prefix string // of the references that are written, such as "refs/croft/demo/"

	// Branch, if set, is moved to the HEAD of the bundle, instead of references with
	// Prefix. It is created, or fast-forwarded.
	Branch string

	MaxBytes int64 // of the pack; 0 is 2 GiB
}

// Imported is the result of ImportBundle.
type Imported struct {
	Refs []ImportedRef `json:"refs"`

	// Autorun are autorun files, up to MaxLeftOutListed, that the commits change
	// against HEAD: a checkout or a merge would bring them into the work tree.
	Autorun []string `json:"autorun,omitempty"`
}

// An ImportedRef is a reference that was written.
type ImportedRef struct {
	Name    string `json:"name"`
	Commit  string `json:"commit"`
	Commits int    `json:"commits"` // that are new in the repository

	old string
}

// ImportBundle takes commits from a bundle that git made in a workspace. The bundle
// is not trusted: git index-pack verifies its objects (--strict), nothing but
// objects and references of branches, tags and HEAD is taken, and no program of the
// source or of the repository runs. Work tree, index, HEAD, configuration and hooks
// stay unchanged.
func (r *Repository) ImportBundle(ctx context.Context, bundle io.Reader, opts *BundleOptions) (*Imported, error) {
	in := bufio.NewReaderSize(bundle, 64<<10)
	head, err := readBundleHeader(in)
	if err != nil {
		return nil, err
	}
	for _, id := range head.needs {
		if _, err := r.Commit(ctx, id); err != nil {
			return nil, fmt.Errorf("snapshot: import commits: %w: they are based on commit %s, which the repository lacks", fault.Conflict, id)
		}
	}
	most := opts.MaxBytes
	if most <= 0 {
		most = 2 << 30
	}
	if _, err := r.runGit(ctx, in, nil, "index-pack", "--stdin", "--fix-thin", "--strict", "--max-input-size="+strconv.FormatInt(most, 10)); err != nil {
		return nil, fmt.Errorf("snapshot: import commits: %w: %w", fault.InvalidArgument, err)
	}
	res := &Imported{Refs: []ImportedRef{}}
	for _, ref := range head.refs {
		if ref.Name, err = r.importedName(ctx, ref.Name, opts); err != nil {
			return nil, err
		}
		if ref.Name == "" {
			continue
		}
		if err := r.checkImported(ctx, &ref, opts); err != nil {
			return nil, err
		}
		if res.Autorun, err = r.addAutorun(ctx, res.Autorun, ref.Commit); err != nil {
			return nil, err
		}
		res.Refs = append(res.Refs, ref)
	}
	if len(res.Refs) == 0 {
		return nil, fmt.Errorf("snapshot: import commits: %w: the bundle has no branch, tag or HEAD to take", fault.NotFound)
	}
	return res, r.writeRefs(ctx, res.Refs)
}

// bundleHeader is what stands before the pack of a bundle.
type bundleHeader struct {
	needs []string // commits that the reader must have
	refs  []ImportedRef
}

// maxBundleLines is the maximum of lines of a header.
const maxBundleLines = 20_000

func readBundleHeader(in *bufio.Reader) (*bundleHeader, error) {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("snapshot: import commits: %w: the bundle is malformed: %s", fault.InvalidArgument, fmt.Sprintf(format, args...))
	}
	head := &bundleHeader{}
	for i := range maxBundleLines {
		raw, err := in.ReadSlice('\n')
		if err != nil {
			return nil, bad("its header: %v", err)
		}
		line := strings.TrimSuffix(string(raw), "\n")
		need, isNeed := strings.CutPrefix(line, "-")
		id, name, _ := strings.Cut(line, " ")
		switch {
		case i == 0 && (line == "# v2 git bundle" || line == "# v3 git bundle"):
		case i == 0:
			return nil, bad("it begins with %.40q", line)
		case line == "":
			return head, nil
		case strings.HasPrefix(line, "@object-format="): // git checks it
		case isNeed:
			if id, _, _ = strings.Cut(need, " "); !isObjectName(id) {
				return nil, bad("%.100q", line)
			}
			head.needs = append(head.needs, id)
		case !isObjectName(id) || name == "":
			return nil, bad("%.100q", line)
		default:
			head.refs = append(head.refs, ImportedRef{Name: name, Commit: id})
		}
	}
	return nil, bad("its header has more than %d lines", maxBundleLines)
}

func isObjectName(s string) bool {
	_, err := hex.DecodeString(s)
	return err == nil && (len(s) == 40 || len(s) == 64)
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
	if _, err := r.runGit(ctx, nil, nil, "check-ref-format", to); err != nil {
		return "", fmt.Errorf("snapshot: reference %.200q: %w: the name must be valid", to, fault.InvalidArgument)
	}
	return to, nil
}

// checkImported verifies that all objects of a reference are there, and counts its
// new commits. A branch must be fast-forwarded, and not be checked out.
func (r *Repository) checkImported(ctx context.Context, ref *ImportedRef, opts *BundleOptions) error {
	if _, err := r.runGit(ctx, nil, nil, "rev-list", "--objects", "--quiet", "--not", "--all", "--not", "--end-of-options", ref.Commit); err != nil {
		return fmt.Errorf("snapshot: import commits: %s: %w: objects are missing: %w", ref.Name, fault.InvalidArgument, err)
	}
	out, err := r.runGit(ctx, nil, nil, "rev-list", "--count", "--not", "--all", "--not", "--end-of-options", ref.Commit)
	if err == nil {
		ref.Commits, err = strconv.Atoi(strings.TrimSpace(string(out)))
	}
	if err != nil {
		return err
	}
	old, err := r.runGit(ctx, nil, nil, "for-each-ref", "--format=%(objectname)", "--", ref.Name)
	if err != nil {
		return err
	}
	if ref.old = strings.TrimSpace(string(old)); strings.Contains(ref.old, "\n") {
		return fmt.Errorf("snapshot: reference %s: %w: it is a directory of references", ref.Name, fault.Conflict)
	}
	if opts.Branch == "" {
		return nil
	}
	if where, err := r.checkedOut(ctx, ref.Name); err != nil || where != "" {
		return errors.Join(err, fmt.Errorf("snapshot: branch %q: %w: the branch is checked out in %s; name another branch", opts.Branch, fault.WrongState, where))
	}
	if ref.old == "" {
		return nil
	}
	if _, err := r.runGit(ctx, nil, nil, "merge-base", "--is-ancestor", ref.old, ref.Commit); err != nil {
		return fmt.Errorf("snapshot: branch %q: %w: its commits are not in the history of the workspace's HEAD; name another branch", opts.Branch, fault.Conflict)
	}
	return nil
}

// addAutorun adds the autorun files that differ between HEAD and a commit.
func (r *Repository) addAutorun(ctx context.Context, list []string, commit string) ([]string, error) {
	if _, err := r.Commit(ctx, "HEAD"); err != nil {
		return list, nil // a repository without commits
	}
	if _, err := r.Commit(ctx, commit); err != nil {
		return list, nil // a tag of something else
	}
	out, err := r.runGit(ctx, nil, nil, "diff-tree", "-r", "-z", "--no-renames", "--no-ext-diff", "--no-textconv", "--name-only", "--end-of-options", "HEAD", commit)
	if err != nil {
		return nil, err
	}
	for name := range strings.SplitSeq(string(out), "\x00") {
		if name != "" && len(list) < MaxLeftOutListed && autorun.Is(name) && !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list, nil
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
	if _, err := r.runGit(ctx, &in, nil, "update-ref", "-m", "croft: apply --commits", "-z", "--stdin"); err != nil {
		return fmt.Errorf("snapshot: import commits: %w: %w", fault.Conflict, err)
	}
	return nil
}

// Tips returns the object names of references, at most max of them, the newest
// first.
func (r *Repository) Tips(ctx context.Context, most int) ([]string, error) {
	out, err := r.runGit(ctx, nil, nil, "for-each-ref", "--sort=-creatordate", "--count="+strconv.Itoa(most), "--format=%(objectname)")
	return strings.Fields(string(out)), err
}
