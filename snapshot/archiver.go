package snapshot

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/autorun"
	"github.com/croft-run/croft/internal/search"
	"github.com/croft-run/croft/workspace/driver"
)

// TakeOptions are the options of Take.
type TakeOptions struct {
	// Info describes the snapshot: name, labels, provider, workspace, session,
	// frozen. Take fills in the rest.
	Info driver.SnapshotInfo

	Base   Base     // the lower layers of the tree
	Paths  []string // the paths of the tree, if it is a Subset
	Ignore []string // .gitignore patterns to leave out

	Dir string // as in Manifest

	// Complete makes Take fail if a file is unreadable; see driver.SnapshotOptions.
	Complete bool

	// SkipDenied leaves out files and directories that this user may not read, instead of
	// failing. The manifest lists them with the missing ones.
	SkipDenied bool

	// NoCredentials leaves out known credential files (see secret.CredentialFiles), private
	// keys by their content (see secret.HasPrivateKey), for a store with other readers. The
	// manifest lists them. It implies NoGitCredentials.
	NoCredentials bool

	// NoGitCredentials removes credentials from the files of Git directories: see
	// secret.GitFile.
	NoGitCredentials bool

	// NoGitDigest leaves .git at any level out of the digest of the snapshot: it is
	// history, which going back to a snapshot does not change.
	NoGitDigest bool

	// Cache is the key of the stat cache of a tree of this host: the next Take with
	// the same key reads only changed files. "" disables it.
	Cache string

	// MaxHoles is the maximum size of the holes of a file of this host; 0 is any. A larger file
	// is an error before it is read: the digest is one of all its bytes, and a file of holes
	// costs its writer nothing.
	MaxHoles int64

	// Progress is called now and then; nil is the callback of the context (see
	// driver.WithProgress).
	Progress func(files, bytes int64)

	id    string   // "" is a new one
	after []string // as in Manifest
}

// Take takes a snapshot of a tree. When it returns, the snapshot is on stable
// storage; on an error there is no snapshot.
func (s *Store) Take(ctx context.Context, t Tree, opts *TakeOptions) (*Manifest, error) {
	if opts == nil {
		opts = &TakeOptions{}
	}
	w, err := s.newWriter(ctx)
	if err != nil {
		return nil, err
	}
	defer w.close()
	a, m, err := w.archive(ctx, t, opts)
	if err != nil {
		return nil, err
	}
	s.assignSequence(ctx, m)
	out, err := s.writePendingManifest(ctx, m)
	if err != nil {
		return nil, err
	}
	defer out.Abort()
	var cache sync.WaitGroup
	cache.Go(func() { s.saveCache(opts.Cache, a) }) // in parallel with the fsync
	err = w.publish(ctx, out)
	cache.Wait()
	if err != nil {
		return nil, err
	}
	return m, nil
}

// Store writes a tree to the store without making it a snapshot. Until the returned
// function is called, gc does not remove it if the backend has locks; otherwise not
// for the grace period.
func (s *Store) Store(ctx context.Context, t Tree, opts *TakeOptions) (*Manifest, func(), error) {
	if opts == nil {
		opts = &TakeOptions{}
	}
	w, err := s.newWriter(ctx)
	if err != nil {
		return nil, nil, err
	}
	a, m, err := w.archive(ctx, t, opts)
	if err == nil {
		err = w.flush(ctx)
	}
	if err != nil {
		w.close()
		return nil, nil, err
	}
	s.saveCache(opts.Cache, a)
	return m, w.close, nil
}

// Publish makes a stored tree a snapshot, with the description m under a new id and
// time. It is how a snapshot is copied.
func (s *Store) Publish(ctx context.Context, m Manifest) (*Manifest, error) {
	unlock, err := s.lockShared(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if _, err := s.readTree(ctx, m.Root); err != nil {
		return nil, err
	}
	m.ID, m.Created = driver.NewID(), s.now().UTC()
	s.assignSequence(ctx, &m)
	return &m, s.publishManifest(ctx, &m)
}

// archive writes a tree, and describes it.
func (w *objectWriter) archive(ctx context.Context, t Tree, opts *TakeOptions) (*archiver, *Manifest, error) {
	a := &archiver{
		w: w, opts: opts, tokens: make(chan struct{}, 2*runtime.GOMAXPROCS(0)), started: time.Now(),
		missing: slices.Clone(opts.Info.Missing), missingTotal: opts.Info.MissingTotal, // of a copied snapshot
	}
	if len(opts.Ignore) > 0 {
		a.ignore = (*search.Ignore)(nil).With(".", []byte(strings.Join(opts.Ignore, "\n")))
	}
	if opts.NoCredentials {
		a.secret = credentialFiles
	}
	if a.progress = opts.Progress; a.progress == nil {
		a.progress = driver.Progress(ctx)
	}
	a.cache = w.s.loadCache(opts.Cache)
	root, err := t.Root(ctx)
	if err != nil {
		return nil, nil, err
	}
	top := &treeDir{}
	err = a.saveDir(ctx, root, "", top)
	root.Close()
	if err != nil {
		return nil, nil, err
	}
	w.flushPartialBlocks() // in parallel with the manifest
	m := a.buildManifest(ctx, top)
	m.Added = w.content.Load()
	return a, m, nil
}

// buildManifest describes the archived tree.
func (a *archiver) buildManifest(ctx context.Context, top *treeDir) *Manifest {
	digest := driver.NewTreeDigest()
	if a.opts.Base != (Base{}) {
		digest.Add("", driver.Info{Type: "base"}, a.opts.Base.Kind+":"+a.opts.Base.Name)
	}
	top.addToDigest(digest, "", a.opts.NoGitDigest)
	m := &Manifest{SnapshotInfo: a.opts.Info, Root: top.id, Base: a.opts.Base, Dir: a.opts.Dir, Ignore: a.opts.Ignore, LeftOut: a.leftOut}
	if m.Base != (Base{}) || m.Dir != "" {
		m.Node = a.w.s.node
	}
	slices.Sort(m.LeftOut)
	for _, p := range a.opts.Paths {
		m.Paths = append(m.Paths, []byte(p))
	}
	m.After = a.opts.after
	m.ID, m.Tenant = cmp.Or(a.opts.id, driver.NewID()), a.w.s.tenantOf(ctx, a.opts.Info.Workspace)
	m.Labels = maps.Clone(a.opts.Info.Labels)
	m.Created = a.w.s.now().UTC()
	m.Files, m.Bytes, m.Digest = a.files.Load(), a.bytes.Load(), digest.Sum()
	m.Skipped, m.SkippedPaths = a.special, a.specialPaths
	m.Credentials = a.credentials
	slices.Sort(m.SkippedPaths)
	slices.Sort(m.Credentials)
	m.Missing, m.MissingTotal = a.missing, a.missingTotal
	slices.SortFunc(m.Missing, func(a, b driver.Skip) int { return strings.Compare(a.Path, b.Path) })
	return m
}

// tenantOf returns the tenant of a new snapshot: that of its workspace, or that of the context's
// principal.
func (s *Store) tenantOf(ctx context.Context, workspace string) string {
	if s.workspaceTenant != nil && workspace != "" {
		if tenant, ok := s.workspaceTenant(ctx, workspace); ok {
			return tenant
		}
	}
	return auth.Tenant(ctx)
}

// An archiver reads a tree into the store.
type archiver struct {
	w       *objectWriter
	opts    *TakeOptions
	ignore  *search.Ignore
	secret  *search.Ignore
	tokens  chan struct{} // limits concurrent goroutines
	started time.Time
	cache   statCache

	progress func(files, bytes int64)

	files, bytes atomic.Int64

	mu      sync.Mutex
	leftOut []string
	fresh   statCache

	missing      []driver.Skip
	missingTotal int64

	special      int64
	specialPaths []string // the first of them

	credentials []string // the first credential files that were not left out
}

type treeDir struct {
	id    ID
	nodes []Node
	subs  []*treeDir // of the directories in nodes, in order
	git   int        // 1 + length of the path of the Git directory that it is or lies in; 0 if there is none
}

func (d *treeDir) addToDigest(sum *driver.TreeDigest, at string, noGit bool) {
	sub := 0
	for i := range d.nodes {
		n := &d.nodes[i]
		history := noGit && autorun.IsGit(n.Name)
		if info := n.Info(""); !history {
			sum.Add(at+n.Name, info, info.Digest)
		}
		if n.Type != driver.TypeDir {
			continue
		}
		if !history {
			d.subs[sub].addToDigest(sum, at+n.Name+"/", noGit)
		}
		sub++
	}
}

// saveDir archives a directory with its subtree.
func (a *archiver) saveDir(ctx context.Context, dir Directory, at string, out *treeDir) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("snapshot: take: %w", err)
	}
	nodes, err := a.listNodes(ctx, dir)
	if err != nil {
		return wrapPath(at, err)
	}
	if out.git == 0 && (isGitDir(at) || isBareRepository(nodes)) {
		out.git = 1 + len(at)
	}
	nodes = slices.DeleteFunc(nodes, func(n Node) bool { return a.excluded(at, &n, out.git) })
	known := a.cache.filesIn(at)
	var g tasks
	g.tokens = a.tokens
	const batch = 64
	for start := 0; start < len(nodes); start += batch {
		part := nodes[start:min(start+batch, len(nodes))]
		g.run(func() error { return a.saveFiles(ctx, dir, at, known, part, out.git) })
	}
	for i := range nodes {
		n := &nodes[i]
		if n.Type != driver.TypeDir {
			continue
		}
		sub := &treeDir{git: out.git}
		out.subs = append(out.subs, sub)
		g.run(func() error { return a.saveSubdir(ctx, dir, at, n, sub) })
	}
	if err := g.wait(); err != nil {
		return err
	}
	out.nodes = slices.DeleteFunc(nodes, func(n Node) bool { return n.missing })
	out.subs = slices.DeleteFunc(out.subs, func(d *treeDir) bool { return d.id.IsZero() })
	a.rememberFiles(at, out.nodes)
	out.id, err = a.w.putObject(encodeTree(out.nodes))
	return err
}

// listNodes lists a directory. Without a cache every file is opened, so that it
// need not be stat'ed here.
func (a *archiver) listNodes(ctx context.Context, dir Directory) ([]Node, error) {
	if host, ok := dir.(*hostDir); ok && a.cache == nil {
		return host.listNodes(true)
	}
	return dir.Nodes(ctx)
}

// addLeftOut lists a credential file that was left out.
func (a *archiver) addLeftOut(name string) {
	const listed = 1000
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.leftOut) < listed {
		a.leftOut = append(a.leftOut, name)
	}
}

// excluded reports whether a node is left out: ignored, a credential file, or a
// special file.
func (a *archiver) excluded(at string, n *Node, git int) bool {
	isDir := n.Type == driver.TypeDir
	_, isGitCredentials := a.gitFile(at, n, git)
	switch {
	case a.ignore != nil && a.ignore.Ignores(at+n.Name, isDir):
		return true
	case a.secret != nil && a.secret.Ignores(at+n.Name, isDir) || isGitCredentials:
		a.addLeftOut(at + n.Name)
		return true
	case n.Type == driver.TypeOther:
		a.mu.Lock()
		if a.special++; len(a.specialPaths) < driver.MaxMissingListed {
			a.specialPaths = append(a.specialPaths, at+n.Name)
		}
		a.mu.Unlock()
		return true
	case a.opts.NoGitCredentials && IsCredentialFile(at+n.Name, isDir):
		a.mu.Lock()
		if len(a.credentials) < driver.MaxMissingListed {
			a.credentials = append(a.credentials, at+n.Name)
		}
		a.mu.Unlock()
	}
	return false
}

func (a *archiver) saveSubdir(ctx context.Context, dir Directory, at string, n *Node, out *treeDir) error {
	below, err := childPrefix(at, n.Name)
	if err != nil {
		return err
	}
	sub, err := dir.Dir(ctx, n)
	if err != nil {
		return a.leaveOut(ctx, dir, at, n, err)
	}
	defer sub.Close()
	if err := a.saveDir(ctx, sub, below, out); err != nil {
		return err
	}
	n.Content = out.id
	return nil
}

// leaveOut drops a node that was listed and could not be opened or read, and adds
// it to the missing ones. It returns the errors that end the snapshot.
func (a *archiver) leaveOut(ctx context.Context, dir Directory, at string, n *Node, err error) error {
	switch code := fault.Of(err); {
	case code == fault.NotFound, code == fault.Conflict, code == fault.InvalidArgument:
	case code == fault.PermissionDenied && a.opts.SkipDenied:
	default:
		return wrapPath(at, err)
	}
	skip, code := driver.Skip{Path: at + n.Name, Reason: driver.SkipUnreadable}, fault.Unavailable
	now, ferr := findNode(ctx, dir, n.Name)
	if fault.Of(ferr) == fault.NotFound || ferr == nil && (now == nil || now.Type != n.Type) {
		skip.Reason, code = driver.SkipVanished, fault.Conflict
	}
	if a.opts.Complete {
		return fmt.Errorf("snapshot: take a complete snapshot: %w: %s is %s: %w", code, shortenPath(skip.Path), skip.Reason, err)
	}
	n.missing = true
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.missingTotal++; a.missingTotal <= driver.MaxMissingListed {
		a.missing = append(a.missing, skip)
	}
	return nil
}

func wrapPath(at string, err error) error {
	if at == "" {
		return err
	}
	return fmt.Errorf("in %s: %w", shortenPath(strings.TrimSuffix(at, "/")), err)
}
