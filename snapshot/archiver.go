package snapshot

import (
	"bytes"
	"context"
	"fmt"
	"hash"
	"io"
	"maps"
	pathpkg "path"
	"runtime"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/autorun"
	"github.com/croft-run/croft/internal/search"
	"github.com/croft-run/croft/secret"
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

	// NoCredentials leaves out known credential files (see secret.CredentialFiles),
	// for a store with other readers. The manifest lists them. It implies
	// NoGitCredentials.
	NoCredentials bool

	// NoGitCredentials removes user names and passwords of URLs, and HTTP headers, from
	// the configuration of repositories.
	NoGitCredentials bool

	// NoGitDigest leaves .git at any level out of the digest of the snapshot: it is
	// history, which going back to a snapshot does not change.
	NoGitDigest bool

	// Cache is the key of the stat cache of a tree of this host: the next Take with
	// the same key reads only changed files. "" disables it.
	Cache string

	// Progress is called now and then; nil is the callback of the context (see
	// driver.WithProgress).
	Progress func(files, bytes int64)
}

var credentialFiles = (*search.Ignore)(nil).With(".", []byte(strings.Join(secret.CredentialFiles, "\n")))

// IsCredentialFile reports whether a slash-separated path is a known credential file,
// or a directory of such files.
func IsCredentialFile(path string, dir bool) bool { return credentialFiles.Ignores(path, dir) }

// IsGitConfig reports whether a slash-separated path is the configuration of a Git
// repository, which may contain credentials; see secret.StripGitConfig.
func IsGitConfig(path string) bool {
	dir, name := pathpkg.Split(path)
	return secret.IsGitConfigName(name) && slices.ContainsFunc(strings.Split(dir, "/"), func(name string) bool {
		return autorun.IsGit(name) || strings.HasSuffix(name, ".git") // a bare repository
	})
}

// isGitCredentials reports whether a file in a .git is a store of credentials.
func isGitCredentials(at string, n *Node) bool {
	return slices.Contains([]string{"git-credentials", ".git-credentials", "credentials"}, n.Name) && autorun.InGit(at)
}

// StripGitConfig reads the configuration of a Git repository, without its credentials.
func StripGitConfig(r io.Reader) (stripped []byte, changed bool, err error) {
	const most = 16 << 20
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil {
		return nil, false, err
	}
	if len(data) > most {
		return nil, false, fmt.Errorf("%w: a Git configuration has at most %d bytes", fault.InvalidArgument, most)
	}
	stripped = secret.StripGitConfig(data)
	return stripped, !bytes.Equal(stripped, data), nil
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
	slices.Sort(m.LeftOut)
	for _, p := range a.opts.Paths {
		m.Paths = append(m.Paths, []byte(p))
	}
	m.ID, m.Tenant = driver.NewID(), a.w.s.tenantOf(ctx, a.opts.Info.Workspace)
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
	if isBareRepository(nodes) {
		for i := range nodes {
			nodes[i].gitConfig = secret.IsGitConfigName(nodes[i].Name)
		}
	}
	nodes = slices.DeleteFunc(nodes, func(n Node) bool { return a.excluded(at, &n) })
	known := a.cache.filesIn(at)
	var g tasks
	g.tokens = a.tokens
	const batch = 64
	for start := 0; start < len(nodes); start += batch {
		part := nodes[start:min(start+batch, len(nodes))]
		g.run(func() error { return a.saveFiles(ctx, dir, at, known, part) })
	}
	for i := range nodes {
		n := &nodes[i]
		if n.Type != driver.TypeDir {
			continue
		}
		sub := &treeDir{}
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

// excluded reports whether a node is left out: ignored, a credential file, or a
// special file.
func (a *archiver) excluded(at string, n *Node) bool {
	isDir := n.Type == driver.TypeDir
	switch {
	case a.ignore != nil && a.ignore.Ignores(at+n.Name, isDir):
		return true
	case a.secret != nil && a.secret.Ignores(at+n.Name, isDir) || a.opts.NoGitCredentials && isGitCredentials(at, n):
		const listed = 1000
		a.mu.Lock()
		if len(a.leftOut) < listed {
			a.leftOut = append(a.leftOut, at+n.Name)
		}
		a.mu.Unlock()
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
	switch fault.Of(err) {
	case fault.NotFound, fault.Conflict, fault.InvalidArgument:
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

// saveFiles archives the files among nodes; known are those of the cache.
func (a *archiver) saveFiles(ctx context.Context, dir Directory, at string, known []cachedFile, nodes []Node) error {
	for i := range nodes {
		n := &nodes[i]
		if n.Type != driver.TypeFile {
			continue
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("snapshot: take: %w", err)
		}
		strip := a.stripsCredentials(at, n)
		if strip || !a.fromCache(known, n) { // a stripped file has another size
			if err := a.saveFile(ctx, dir, at, n, strip); err != nil {
				if err := a.leaveOut(ctx, dir, at, n, err); err != nil {
					return err
				}
				continue
			}
		}
		files, bytes := a.files.Add(1), a.bytes.Add(n.Size)
		if a.progress != nil && files%256 == 0 {
			a.progress(files, bytes)
		}
	}
	return nil
}

// fromCache fills in a file from the stat cache, or from the tree itself, if its
// content is in the store.
func (a *archiver) fromCache(files []cachedFile, n *Node) bool {
	if n.stat == nil {
		return !n.Content.IsZero() && a.isStored(n)
	}
	i := sort.Search(len(files), func(i int) bool { return files[i].name >= n.Name })
	if i == len(files) || files[i].name != n.Name || files[i].stat != *n.stat {
		return false
	}
	c := &files[i]
	n.Content, n.List, n.Xattrs = c.content, c.list, c.xattrs
	if !a.isStored(n) {
		n.Content, n.List, n.Xattrs = ID{}, ID{}, nil
		return false
	}
	return true
}

// isStored reports whether the whole content of a file is in the store.
func (a *archiver) isStored(n *Node) bool {
	if n.Size == 0 {
		return true
	}
	if n.Size <= ChunkSize {
		return a.w.hasObject(n.Content)
	}
	if n.List.IsZero() || !a.w.s.hasObject(n.List) {
		return false
	}
	chunks, err := a.w.s.readChunkList(a.w.base, n.List, n.Size)
	return err == nil && !slices.ContainsFunc(chunks, func(id ID) bool { return !id.IsZero() && !a.w.hasObject(id) })
}

// stripsCredentials reports whether a file is saved without credentials.
func (a *archiver) stripsCredentials(at string, n *Node) bool {
	return (a.opts.NoCredentials || a.opts.NoGitCredentials) && (n.gitConfig || IsGitConfig(at+n.Name))
}

// isBareRepository reports whether git takes a directory with these entries for a
// repository.
func isBareRepository(nodes []Node) bool {
	found := 0
	for i := range nodes {
		if slices.Contains([]string{"HEAD", "objects", "refs"}, nodes[i].Name) {
			found++
		}
	}
	return found == 3
}

// saveFile archives a file, with strip without the credentials of a Git configuration.
func (a *archiver) saveFile(ctx context.Context, dir Directory, at string, n *Node, strip bool) error {
	r, err := dir.Open(ctx, n)
	if err != nil {
		return err
	}
	defer r.Close()
	if strip {
		return a.saveStripped(ctx, r, at, n)
	}
	if f, ok := r.(*hostFile); ok {
		return a.saveHostFile(ctx, f, n)
	}
	return a.readStream(ctx, r, n)
}

// saveStripped archives a Git configuration without its credentials.
func (a *archiver) saveStripped(ctx context.Context, r io.Reader, at string, n *Node) error {
	stripped, changed, err := StripGitConfig(r)
	if err != nil {
		return wrapPath(at+n.Name, err)
	}
	if changed {
		a.mu.Lock()
		a.leftOut = append(a.leftOut, "credentials in "+at+n.Name)
		a.mu.Unlock()
	}
	n.stat = nil // do not cache it: the size differs
	return a.readStream(ctx, bytes.NewReader(stripped), n)
}

// saveHostFile archives a file of this host, with its extended attributes.
func (a *archiver) saveHostFile(ctx context.Context, f *hostFile, n *Node) error {
	attrs, err := listXattrs(f.fd)
	if err != nil {
		return hostError("read the attributes of", n.Name, err)
	}
	n.Xattrs = userXattrs(attrs)
	if a.isCacheable(n) && mayChangeUnseen(f.fd, a.started.Sub(n.stat.changeTime())) {
		n.stat = nil // do not cache it
	}
	if n.Size > ChunkSize {
		return a.readSparse(ctx, f, n)
	}
	_, err = a.readSmall(f, n, int(n.Size))
	return err
}

// readSmall reads a file of at most most bytes, one chunk or less, directly into a
// block. If the file is larger, first is the data read so far.
func (a *archiver) readSmall(r io.Reader, n *Node, most int) (first []byte, err error) {
	f := a.w.acquireBlock()
	start := len(f.buf)
	room := f.buf[start : start+most+1]
	count, err := io.ReadFull(r, room)
	if err != io.EOF && err != io.ErrUnexpectedEOF {
		first = slices.Clone(room[:count])
		a.w.returnBlock(f)
		return first, err
	}
	n.Size, n.Content = int64(count), sum(room[:count])
	if !a.w.claimObject(n.Content) {
		a.w.returnBlock(f)
		return nil, nil
	}
	f.buf = f.buf[:start+count]
	return nil, a.w.endObject(f, n.Content, count)
}

// maxFile is the maximum size of a file: its chunk list must fit into one object. A
// larger file is refused before it is read, which for a sparse file could take
// days.
const maxFile = maxObject / int64(len(ID{})) * ChunkSize

func tooLarge(n *Node, size int64) error {
	return fmt.Errorf("snapshot: file %s: %w: it has %d bytes; the maximum is %d", n.Name, fault.ResourceExhausted, size, maxFile)
}

// A chunkList collects the chunks of a large file.
type chunkList struct {
	a     *archiver
	whole hash.Hash
	ids   []byte
	size  int64
}

func (l *chunkList) add(chunk []byte) error {
	l.whole.Write(chunk)
	l.size += int64(len(chunk))
	var id ID
	if !bytes.Equal(chunk, zeros[:len(chunk)]) {
		var err error
		if id, err = l.a.w.putObject(chunk); err != nil {
			return err
		}
	}
	l.ids = append(l.ids, id[:]...)
	return nil
}

func (l *chunkList) fillNode(n *Node) (err error) {
	n.Size = l.size
	n.Content = ID(l.whole.Sum(nil))
	if n.Size > ChunkSize {
		n.List, err = l.a.w.putObject(l.ids)
	}
	return err
}

// readStream reads a file of unknown size.
func (a *archiver) readStream(ctx context.Context, r io.Reader, n *Node) error {
	first, err := a.readSmall(r, n, ChunkSize)
	if err != nil || first == nil {
		return err
	}
	l := &chunkList{a: a, whole: driver.NewDigest()}
	rest := io.MultiReader(bytes.NewReader(first), contextReader{ctx, r})
	var b buffer
	defer b.release()
	chunk := b.get(ChunkSize)[:ChunkSize]
	for {
		count, err := io.ReadFull(rest, chunk)
		if l.size > maxFile-ChunkSize && count > 0 {
			return tooLarge(n, l.size+int64(count))
		}
		if count > 0 {
			if err := l.add(chunk[:count]); err != nil {
				return err
			}
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return l.fillNode(n)
		}
		if err != nil {
			return err
		}
	}
}

// readSparse reads a large file of this host; holes are not read.
func (a *archiver) readSparse(ctx context.Context, f *hostFile, n *Node) error {
	if f.size > maxFile {
		return tooLarge(n, f.size)
	}
	l := &chunkList{a: a, whole: driver.NewDigest()}
	var b buffer
	defer b.release()
	buf := b.get(ChunkSize)
	var data int64 // offset of the next data
	for off := int64(0); off < f.size; {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("snapshot: take: %w", err)
		}
		want := min(ChunkSize, f.size-off)
		if data < off || off == 0 {
			data = nextData(f.fd, off, f.size)
		}
		chunk := zeros[:want]
		if data < off+want {
			count, err := f.readAt(buf[:want], off)
			if err != nil {
				return err
			}
			chunk = buf[:count]
		}
		if err := l.add(chunk); err != nil {
			return err
		}
		off += int64(len(chunk))
		if int64(len(chunk)) < want {
			break // truncated meanwhile
		}
	}
	return l.fillNode(n)
}

// A buffer is a pooled buffer of a chunk and one more byte, which detects a larger
// file.
type buffer struct{ buf []byte }

var buffers = sync.Pool{New: func() any { b := make([]byte, ChunkSize+1); return &b }}

// get returns a buffer for a file of the given size.
func (b *buffer) get(size int64) []byte {
	if b.buf == nil {
		b.buf = *buffers.Get().(*[]byte)
	}
	return b.buf[:min(max(size, 0)+1, ChunkSize+1)]
}

func (b *buffer) release() {
	if b.buf != nil {
		buffers.Put(&b.buf)
	}
}

// tasks runs functions concurrently while there are tokens, and inline otherwise.
type tasks struct {
	tokens chan struct{}
	wg     sync.WaitGroup
	mu     sync.Mutex
	err    error
}

func (g *tasks) run(f func() error) {
	g.mu.Lock()
	failed := g.err != nil
	g.mu.Unlock()
	if failed {
		return
	}
	select {
	case g.tokens <- struct{}{}:
		g.wg.Go(func() {
			defer func() { <-g.tokens }()
			g.setError(f())
		})
	default:
		g.setError(f())
	}
}

func (g *tasks) setError(err error) {
	if err == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err == nil {
		g.err = err
	}
}

func (g *tasks) wait() error {
	g.wg.Wait()
	return g.err
}
