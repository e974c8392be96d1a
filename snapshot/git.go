package snapshot

import (
	"bytes"
	"context"
	"errors"
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
	"github.com/croft-run/croft/workspace/driver"
)

// A Repository is a git repository of this host, used by plumbing commands alone.
// Its configuration and hooks run no program: no filter, hook, pager, helper or
// transport. Its work tree and index are not read.
type Repository struct {
	dir string
	top string   // absolute path of the work tree, without symlinks; of a bare one its directory
	env []string // of each command
}

// OpenRepository returns the repository at a path: a work tree, or a bare one.
func OpenRepository(ctx context.Context, path string) (*Repository, error) {
	out, err := (&Repository{dir: path}).runGit(ctx, nil, nil, "rev-parse", "--absolute-git-dir", "--show-prefix")
	if err != nil && strings.Contains(err.Error(), "not a git repository") {
		return nil, fmt.Errorf("snapshot: repository %s: %w: it is not a git repository", path, fault.InvalidArgument)
	}
	if err != nil {
		return nil, fmt.Errorf("snapshot: repository %s: %w: %w", path, fault.InvalidArgument, err)
	}
	dir, prefix, _ := strings.Cut(strings.TrimSuffix(string(out), "\n"), "\n")
	if prefix != "" {
		return nil, fmt.Errorf("snapshot: repository %s: %w: it is a subdirectory (%s) of a repository; name the top of its work tree", path, fault.InvalidArgument, prefix)
	}
	top, err := realPath(path)
	return &Repository{dir: dir, top: top}, err
}

func (r *Repository) runGit(ctx context.Context, in io.Reader, env []string, args ...string) ([]byte, error) {
	cmd := r.gitCommand(ctx, env, args...)
	cmd.Stdin = in
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("git %s: %w", args[0], ctx.Err())
	}
	if errors.Is(err, exec.ErrNotFound) {
		return nil, fmt.Errorf("git: %w: git is not installed", fault.Unavailable)
	}
	if err != nil {
		return nil, fmt.Errorf("git %s: %s: %w", args[0], strings.TrimSpace(stderr.String()), fault.Failed)
	}
	return out, nil
}

func (r *Repository) gitCommand(ctx context.Context, env []string, args ...string) *exec.Cmd {
	safe := []string{
		"-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.attributesFile=/dev/null", "-c", "core.pager=cat",
		"-c", "core.untrackedCache=false", "-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "protocol.allow=never", "-c", "core.alternateRefsCommand=",
	}
	cmd := exec.CommandContext(ctx, "git", append(safe, args...)...)
	cmd.Dir = r.dir
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0",
		"GIT_ALLOW_PROTOCOL=none", "GIT_NO_LAZY_FETCH=1", "GIT_ATTR_NOSYSTEM=1", "GIT_OPTIONAL_LOCKS=0", "GIT_NO_REPLACE_OBJECTS=1",
		// The user named this repository, so its owner does not matter: nothing in
		// it is run.
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
	}, append(slices.Clip(r.env), env...)...)
	return cmd
}

// Commit returns the commit of a revision; "" is fault.NotFound.
func (r *Repository) Commit(ctx context.Context, revision string) (string, error) {
	out, err := r.runGit(ctx, nil, nil, "rev-parse", "--verify", "--quiet", "--end-of-options", revision+"^{commit}")
	if err != nil {
		if ctx.Err() != nil {
			return "", err
		}
		if revision == "HEAD" {
			return "", fmt.Errorf("snapshot: revision %q: %w: the repository has no commit yet", revision, fault.NotFound)
		}
		return "", fmt.Errorf("snapshot: revision %q: %w", revision, fault.NotFound)
	}
	return strings.TrimSpace(string(out)), nil
}

// Tree returns the tree of a commit. All times are the commit's; submodules are
// empty directories.
func (r *Repository) Tree(ctx context.Context, commit string) (Tree, error) {
	raw, err := r.runGit(ctx, nil, nil, "cat-file", "commit", commit)
	if err != nil {
		return nil, err
	}
	when := commitTime(raw)
	out, err := r.runGit(ctx, nil, nil, "ls-tree", "-r", "-t", "-z", "-l", "--full-tree", "--end-of-options", commit)
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
		target, err := t.r.runGit(ctx, nil, nil, "cat-file", "blob", f[2])
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
	cmd := d.t.r.gitCommand(ctx, nil, "cat-file", "blob", d.t.blobs[d.at+n.Name])
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
	if err := r.checkBranchName(ctx, branch); err != nil {
		return nil, err
	}
	if strings.TrimSpace(opts.Message) == "" {
		return nil, fmt.Errorf("snapshot: branch %q: %w: the message must not be empty", branch, fault.InvalidArgument)
	}
	if where, err := r.checkedOut(ctx, ref); err != nil || where != "" {
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
	if res.MergedTree, err = Merge(ctx, &gitView{base}, ours, &gitView{theirs}, &merge); err != nil {
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

// checkBranchName refuses the names that git branch refuses, and @, which git takes for HEAD.
func (r *Repository) checkBranchName(ctx context.Context, name string) error {
	_, err := r.runGit(ctx, nil, nil, "check-ref-format", "refs/heads/"+name)
	if err != nil || name == "HEAD" || name == "@" || strings.HasPrefix(name, "-") {
		return fmt.Errorf("snapshot: branch %.200q: %w: git takes no branch of that name; "+
			"a name has letters, digits and single '.', '-' or '/' within, and is not HEAD or @", name, fault.InvalidArgument)
	}
	return nil
}

// checkedOut returns the work tree that has a branch checked out; "" if there is
// none.
func (r *Repository) checkedOut(ctx context.Context, ref string) (string, error) {
	out, err := r.runGit(ctx, nil, nil, "worktree", "list", "--porcelain", "-z")
	if err != nil {
		return "", err
	}
	where := ""
	for line := range strings.SplitSeq(string(out), "\x00") {
		if path, ok := strings.CutPrefix(line, "worktree "); ok {
			where = path
		}
		if line == "branch "+ref {
			return where, nil
		}
	}
	return "", nil
}

// commitPatches writes the patches as a commit on top of the parent.
func (r *Repository) commitPatches(ctx context.Context, res *Branched, old, ref string, opts *BranchOptions) (string, error) {
	temp, err := os.MkdirTemp("", "croft-index-*")
	if err != nil {
		return "", hostError("make", "an index", err)
	}
	defer os.RemoveAll(temp)
	env := append([]string{"GIT_INDEX_FILE=" + filepath.Join(temp, "index")}, r.authorEnv(ctx, opts.Author)...)
	if _, err := r.runGit(ctx, nil, env, "read-tree", "--end-of-options", res.Parent); err != nil {
		return "", err
	}
	var info bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(res.patches)) {
		if err := r.writeIndexEntry(ctx, &info, strings.Repeat("0", len(res.Parent)), name, res.patches[name]); err != nil {
			return "", err
		}
	}
	if _, err := r.runGit(ctx, &info, env, "update-index", "-z", "--index-info"); err != nil {
		return "", err
	}
	tree, err := r.runGit(ctx, nil, env, "write-tree")
	if err != nil {
		return "", err
	}
	out, err := r.runGit(ctx, strings.NewReader(opts.Message), env, "commit-tree", "-p", res.Parent, "-F", "-", strings.TrimSpace(string(tree)))
	if err != nil {
		return "", err
	}
	commit := strings.TrimSpace(string(out))
	if old == "" {
		old = strings.Repeat("0", len(commit))
	}
	if _, err := r.runGit(ctx, nil, env, "update-ref", "-m", "croft: apply", ref, commit, old); err != nil {
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
	sha, err := r.runGit(ctx, body, nil, "hash-object", "-w", "--stdin", "--no-filters")
	if err != nil {
		return err
	}
	fmt.Fprintf(info, "%s %s\t%s\x00", mode, strings.TrimSpace(string(sha)), name)
	return nil
}

// authorEnv returns the environment for author and committer: the given one, or
// that of the repository's configuration, or Croft.
func (r *Repository) authorEnv(ctx context.Context, author string) []string {
	name, mail := r.configValue(ctx, "user.name"), r.configValue(ctx, "user.email")
	if name == "" || mail == "" {
		name, mail = "Croft", "croft@localhost"
	}
	if n, rest, ok := strings.Cut(author, "<"); ok {
		name, mail = strings.TrimSpace(n), strings.TrimSuffix(strings.TrimSpace(rest), ">")
	}
	return []string{"GIT_AUTHOR_NAME=" + name, "GIT_AUTHOR_EMAIL=" + mail, "GIT_COMMITTER_NAME=" + name, "GIT_COMMITTER_EMAIL=" + mail}
}

// configValue is a value of the repository's configuration; "" if unset.
func (r *Repository) configValue(ctx context.Context, key string) string {
	out, err := r.runGit(ctx, nil, nil, "config", "--get", key)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// gitView is a tree with git's modes: files are 0644 or 0755.
type gitView struct{ Tree }

func (v *gitView) Root(ctx context.Context) (Directory, error) {
	dir, err := v.Tree.Root(ctx)
	return &gitViewDir{dir}, err
}

type gitViewDir struct{ Directory }

func (d *gitViewDir) Nodes(ctx context.Context) ([]Node, error) {
	nodes, err := d.Directory.Nodes(ctx)
	for i := range nodes {
		n := &nodes[i]
		switch {
		case n.Type == driver.TypeDir:
			n.Mode = 0o755
		case n.Type == driver.TypeFile && n.Mode&0o100 != 0:
			n.Mode = 0o755
		case n.Type == driver.TypeFile:
			n.Mode = 0o644
		}
	}
	return nodes, err
}

func (d *gitViewDir) Dir(ctx context.Context, n *Node) (Directory, error) {
	sub, err := d.Directory.Dir(ctx, n)
	if err != nil {
		return nil, err
	}
	return &gitViewDir{sub}, nil
}
