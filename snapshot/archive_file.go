package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"sort"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/secret"
	"github.com/croft-run/croft/workspace/driver"
)

// saveFiles archives the files among nodes; known are those of the cache.
func (a *archiver) saveFiles(ctx context.Context, dir Directory, at string, known []cachedFile, nodes []Node, git int) error {
	for i := range nodes {
		n := &nodes[i]
		if n.Type != driver.TypeFile {
			continue
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("snapshot: take: %w", err)
		}
		clean, _ := a.gitFile(at, n, git)
		if clean != nil || !a.fromCache(known, n) { // a clean file has another size
			err := a.saveFile(ctx, dir, at, n, clean)
			if errors.Is(err, errCredential) {
				n.missing = true
				a.addLeftOut(at + n.Name)
				continue
			}
			if err != nil {
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

// gitFile is secret.GitFile for a node of a directory; git is as in treeDir.
func (a *archiver) gitFile(at string, n *Node, git int) (clean func([]byte) []byte, leaveOut bool) {
	if git == 0 || n.Type != driver.TypeFile || !a.opts.NoCredentials && !a.opts.NoGitCredentials {
		return nil, false
	}
	return secret.GitFile((at + n.Name)[git-1:])
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

// saveFile archives a file, or what clean makes of it.
func (a *archiver) saveFile(ctx context.Context, dir Directory, at string, n *Node, clean func([]byte) []byte) error {
	r, err := dir.Open(ctx, n)
	if err != nil {
		return err
	}
	defer r.Close()
	if clean != nil {
		return a.saveClean(ctx, r, at, n, clean)
	}
	if f, ok := r.(*hostFile); ok {
		return a.saveHostFile(ctx, f, n)
	}
	return a.readStream(ctx, r, n)
}

// saveClean archives a file of a Git directory without its credentials.
func (a *archiver) saveClean(ctx context.Context, r io.Reader, at string, n *Node, clean func([]byte) []byte) error {
	cleaned, changed, ok, err := CleanGitFile(r, clean)
	if err != nil {
		return wrapPath(at+n.Name, err)
	}
	if !ok {
		return errCredential
	}
	if changed {
		a.addLeftOut("credentials in " + at + n.Name)
	}
	n.stat = nil // do not cache it: the size differs
	return a.readStream(ctx, bytes.NewReader(cleaned), n)
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
	if a.secret != nil && secret.HasPrivateKey(room[:count]) {
		a.w.returnBlock(f)
		return nil, errCredential
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
	if err := a.checkHoles(f, n); err != nil {
		return err
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

// checkHoles refuses a file with larger holes than allowed.
func (a *archiver) checkHoles(f *hostFile, n *Node) error {
	var st unix.Stat_t
	if a.opts.MaxHoles == 0 || f.size <= a.opts.MaxHoles || unix.Fstat(f.fd, &st) != nil {
		return nil
	}
	const block = 512 // the unit of st_blocks
	if holes := f.size - st.Blocks*block; holes > a.opts.MaxHoles {
		return fmt.Errorf("snapshot: file %s: %w: %d of its %d bytes are holes, which take too long to compare; the maximum is %d: "+
			"shorten it with truncate, or remove it, in the workspace if it is a file of one", n.Name, fault.ResourceExhausted, holes, f.size, a.opts.MaxHoles)
	}
	return nil
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
