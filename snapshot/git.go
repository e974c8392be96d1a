package snapshot

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/hostgit"
	"github.com/croft-run/croft/workspace/driver"
)

// A Repository is a git repository of this host, used by plumbing commands alone.
// Its configuration and hooks run no program: no filter, hook, pager, helper or
// transport. Its work tree and index are not read.
type Repository struct {
	git *hostgit.Repository
	top string // absolute path of the work tree, without symlinks; of a bare one its directory
}

// OpenRepository returns the repository at a path: a work tree, or a bare one.
func OpenRepository(ctx context.Context, path string) (*Repository, error) {
	git, err := hostgit.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	top, err := realPath(path)
	return &Repository{git, top}, err
}

// Commit returns the commit of a revision; "" is fault.NotFound.
func (r *Repository) Commit(ctx context.Context, revision string) (string, error) {
	return r.git.Commit(ctx, revision)
}

// Tree returns the tree of a commit. All times are the commit's; submodules are
// empty directories.
func (r *Repository) Tree(ctx context.Context, commit string) (Tree, error) {
	raw, err := r.git.Run(ctx, nil, nil, "cat-file", "commit", commit)
	if err != nil {
		return nil, err
	}
	when := commitTime(raw)
	out, err := r.git.Run(ctx, nil, nil, "ls-tree", "-r", "-t", "-z", "-l", "--full-tree", "--end-of-options", commit)
	if err != nil {
		return nil, err
	}
	t := &gitTree{r: r, dirs: map[string][]Node{"": nil}, blobs: map[string]string{}}
	for line := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if line == "" {
			continue
		}
		if err := t.addEntry(ctx, line, when); err != nil {
			return nil, err
		}
	}
	for _, nodes := range t.dirs {
		slices.SortFunc(nodes, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	}
	return t, nil
}

// commitTime returns the committer time of a commit object; the epoch if it is
// malformed. Commands that print commits would run the configured program for
// signatures.
func commitTime(raw []byte) time.Time {
	head, _, _ := bytes.Cut(raw, []byte("\n\n"))
	for line := range strings.Lines(string(head)) {
		if f := strings.Fields(line); len(f) > 2 && f[0] == "committer" {
			sec, _ := strconv.ParseInt(f[len(f)-2], 10, 64)
			return time.Unix(sec, 0).UTC()
		}
	}
	return time.Unix(0, 0).UTC()
}

// gitTree is the tree of a commit.
type gitTree struct {
	r     *Repository
	dirs  map[string][]Node // by path with a trailing slash
	blobs map[string]string // object names, by path
}

// addEntry parses a line of ls-tree: mode, type, object, size and path.
func (t *gitTree) addEntry(ctx context.Context, line string, when time.Time) error {
	head, name, ok := strings.Cut(line, "\t")
	f := strings.Fields(head)
	if !ok || len(f) != 4 || !driver.ValidName(name) {
		return corruptError("the repository lists %q", line)
	}
	dir, base := splitParent(name)
	if dir != "" {
		dir += "/"
	}
	n := Node{Name: base, ModTime: when}
	switch f[0] {
	case "040000", "160000":
		n.Type, n.Mode = driver.TypeDir, 0o755
		t.dirs[name+"/"] = nil
	case "120000":
		target, err := t.r.git.Run(ctx, nil, nil, "cat-file", "blob", f[2])
		if err != nil {
			return err
		}
		n.Type, n.Target = driver.TypeSymlink, string(target)
	default:
		n.Type, n.Mode = driver.TypeFile, 0o644
		if f[0] == "100755" {
			n.Mode = 0o755
		}
		var err error
		if n.Size, err = strconv.ParseInt(f[3], 10, 64); err != nil {
			return corruptError("the repository lists %q", line)
		}
	}
	t.blobs[name] = f[2]
	t.dirs[dir] = append(t.dirs[dir], n)
	return nil
}

func (t *gitTree) Root(context.Context) (Directory, error) { return &gitDir{t, ""}, nil }

type gitDir struct {
	t  *gitTree
	at string
}

func (d *gitDir) Nodes(context.Context) ([]Node, error) { return slices.Clone(d.t.dirs[d.at]), nil }

func (d *gitDir) Dir(_ context.Context, n *Node) (Directory, error) {
	return &gitDir{d.t, d.at + n.Name + "/"}, nil
}

func (d *gitDir) Close() {}

func (d *gitDir) Open(ctx context.Context, n *Node) (io.ReadCloser, error) {
	cmd := d.t.r.git.Command(ctx, nil, "cat-file", "blob", d.t.blobs[d.at+n.Name])
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("snapshot: git cat-file: %w: %w", fault.Unavailable, err)
	}
	return &gitFile{out, cmd}, nil
}

type gitFile struct {
	io.Reader
	cmd *exec.Cmd
}

func (f *gitFile) Close() error {
	if f.cmd.Process != nil {
		f.cmd.Process.Kill() //nolint:errcheck // the process may have exited
	}
	f.cmd.Wait() //nolint:errcheck // its output was read
	return nil
}

// BranchOptions are the options of ApplyBranch.
type BranchOptions struct {
	MergeOptions
	Message string // required
	Author  string // "Name <address>"; "" is Croft
	From    string // start revision of a new branch; "" is HEAD
	DryRun  bool   // only report the changes
}

// Branched is the result of ApplyBranch.
type Branched struct {
	*MergedTree
	Done   bool   `json:"done"`
	Branch string `json:"branch"`
	Commit string `json:"commit,omitempty"`
	Parent string `json:"parent,omitempty"`
}

// ApplyBranch merges the changes from base to theirs into a branch, as one commit.
// It creates a missing branch. Work tree, index and HEAD stay unchanged, so a
// branch that is checked out is refused.
func (r *Repository) ApplyBranch(ctx context.Context, base, theirs Tree, branch string, opts *BranchOptions) (*Branched, error) {
	ref := "refs/heads/" + branch
	if err := r.git.CheckBranch(ctx, branch); err != nil {
		return nil, err
	}
	if strings.TrimSpace(opts.Message) == "" {
		return nil, fmt.Errorf("snapshot: branch %q: %w: the message must not be empty", branch, fault.InvalidArgument)
	}
	if where, err := r.git.CheckedOut(ctx, ref); err != nil || where != "" {
		if err == nil {
			err = fmt.Errorf("snapshot: branch %q: %w: the branch is checked out in %s; name another branch", branch, fault.WrongState, where)
		}
		return nil, err
	}
	res := &Branched{Branch: branch}
	old, err := r.Commit(ctx, ref)
	if fault.Of(err) == fault.NotFound {
		from := opts.From
		if from == "" {
			from = "HEAD"
		}
		old = ""
		res.Parent, err = r.Commit(ctx, from)
	} else {
		res.Parent = old
	}
	if err != nil {
		return nil, err
	}
	ours, err := r.Tree(ctx, res.Parent)
	if err != nil {
		return nil, err
	}
	merge := opts.MergeOptions
	merge.to = &destination{root: r.top}
	if res.MergedTree, err = Merge(ctx, withGitModes(base), ours, withGitModes(theirs), &merge); err != nil {
		return nil, err
	}
	if len(res.Conflicts) > 0 && !opts.Markers || len(res.patches) == 0 || opts.DryRun {
		return res, nil
	}
	if res.Commit, err = r.commitPatches(ctx, res, old, ref, opts); err != nil {
		return nil, err
	}
	res.Done = true
	return res, nil
}

// commitPatches writes the patches as a commit on top of the parent.
func (r *Repository) commitPatches(ctx context.Context, res *Branched, old, ref string, opts *BranchOptions) (string, error) {
	temp, err := os.MkdirTemp("", "croft-index-*")
	if err != nil {
		return "", hostError("make", "an index", err)
	}
	defer os.RemoveAll(temp)
	env := append([]string{"GIT_INDEX_FILE=" + filepath.Join(temp, "index")}, r.git.AuthorEnv(ctx, opts.Author)...)
	if _, err := r.git.Run(ctx, nil, env, "read-tree", "--end-of-options", res.Parent); err != nil {
		return "", err
	}
	var info bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(res.patches)) {
		if err := r.writeIndexEntry(ctx, &info, strings.Repeat("0", len(res.Parent)), name, res.patches[name]); err != nil {
			return "", err
		}
	}
	if _, err := r.git.Run(ctx, &info, env, "update-index", "-z", "--index-info"); err != nil {
		return "", err
	}
	tree, err := r.git.Run(ctx, nil, env, "write-tree")
	if err != nil {
		return "", err
	}
	out, err := r.git.Run(ctx, strings.NewReader(opts.Message), env, "commit-tree", "-p", res.Parent, "-F", "-", strings.TrimSpace(string(tree)))
	if err != nil {
		return "", err
	}
	commit := strings.TrimSpace(string(out))
	if old == "" {
		old = strings.Repeat("0", len(commit))
	}
	if _, err := r.git.Run(ctx, nil, env, "update-ref", "-m", "croft: apply", ref, commit, old); err != nil {
		return "", fmt.Errorf("snapshot: branch %s: %w: %w", res.Branch, fault.Conflict, err)
	}
	return commit, nil
}

// writeIndexEntry writes a path's line for update-index. none is the null object
// name.
func (r *Repository) writeIndexEntry(ctx context.Context, info *bytes.Buffer, none, name string, p patch) error {
	if p.node == nil {
		fmt.Fprintf(info, "0 %s\t%s\x00", none, name)
		return nil
	}
	var body io.Reader = strings.NewReader(p.node.Target)
	mode := "120000"
	switch p.node.Type {
	case driver.TypeDir:
		return nil // git does not store directories
	case driver.TypeFile:
		rc, err := p.open(ctx, name, p.node)
		if err != nil {
			return err
		}
		defer rc.Close()
		body, mode = rc, "100644"
		if p.node.Mode&0o100 != 0 {
			mode = "100755"
		}
	}
	sha, err := r.git.Run(ctx, body, nil, "hash-object", "-w", "--stdin", "--no-filters")
	if err != nil {
		return err
	}
	fmt.Fprintf(info, "%s %s\t%s\x00", mode, strings.TrimSpace(string(sha)), name)
	return nil
}

// withGitModes returns a tree with git's modes: files are 0644 or 0755.
func withGitModes(t Tree) Tree {
	return listingTree{t, func(nodes []Node) []Node {
		for i := range nodes {
			n := &nodes[i]
			switch {
			case n.Type == driver.TypeDir, n.Type == driver.TypeFile && n.Mode&0o100 != 0:
				n.Mode = 0o755
			case n.Type == driver.TypeFile:
				n.Mode = 0o644
			}
		}
		return nodes
	}}
}
