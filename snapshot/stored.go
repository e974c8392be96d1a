package snapshot

import (
	"context"
	"io"
	"slices"
	"sync"

	"github.com/croft-run/croft/fault"
)

// StoredTree returns the stored tree with the given root object.
func (s *Store) StoredTree(root ID) Tree { return &storedTree{s: s, root: root} }

type storedTree struct {
	s    *Store
	root ID

	mu   sync.Mutex
	last []dirListing // guarded by mu; recently searched directories
}

type dirListing struct {
	id    ID
	nodes []Node
}

// listings is the number of directory listings that a tree caches for lookups.
const listings = 4

func (t *storedTree) Root(context.Context) (Directory, error) { return &storedDir{t.s, t, t.root}, nil }

// cachedNodes lists a directory. The caller must not change the result.
func (t *storedTree) cachedNodes(ctx context.Context, id ID) ([]Node, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range t.last {
		if l.id == id {
			return l.nodes, nil
		}
	}
	nodes, err := t.s.readTree(ctx, id)
	if err != nil {
		return nil, err
	}
	if len(t.last) == listings {
		t.last = slices.Delete(t.last, 0, 1)
	}
	t.last = append(t.last, dirListing{id, nodes})
	return nodes, nil
}

type storedDir struct {
	s  *Store
	t  *storedTree
	id ID
}

func (d *storedDir) find(ctx context.Context, name string) (*Node, error) {
	nodes, err := d.t.cachedNodes(ctx, d.id)
	if err != nil {
		return nil, err
	}
	return searchNodes(nodes, name), nil
}

func (d *storedDir) Nodes(ctx context.Context) ([]Node, error) { return d.s.readTree(ctx, d.id) }

func (d *storedDir) Dir(_ context.Context, n *Node) (Directory, error) {
	return &storedDir{d.s, d.t, n.Content}, nil
}

func (d *storedDir) Close() {}

// Open opens a file that is read and verified chunk by chunk.
func (d *storedDir) Open(ctx context.Context, n *Node) (io.ReadCloser, error) {
	r := &storedFile{ctx: ctx, s: d.s, name: n.Name, left: n.Size}
	switch {
	case n.Size == 0:
	case n.Size <= ChunkSize:
		r.chunks = []ID{n.Content}
	default:
		var err error
		if r.chunks, err = d.s.readChunkList(ctx, n.List, n.Size); err != nil {
			return nil, err
		}
	}
	return r, nil
}

type storedFile struct {
	ctx    context.Context
	s      *Store
	name   string
	chunks []ID // to come
	now    []byte
	left   int64
	closed bool
}

var zeros [ChunkSize]byte

func (f *storedFile) Read(buf []byte) (int, error) {
	if f.closed {
		return 0, fault.WrongState
	}
	if len(f.now) == 0 {
		if f.left == 0 {
			return 0, io.EOF
		}
		if err := f.nextChunk(); err != nil {
			return 0, err
		}
	}
	n := copy(buf, f.now)
	f.now = f.now[n:]
	return n, nil
}

// nextChunk reads the next chunk into now.
func (f *storedFile) nextChunk() error {
	id := f.chunks[0]
	f.chunks = f.chunks[1:]
	want := min(f.left, ChunkSize)
	f.left -= want
	if id.IsZero() {
		f.now = zeros[:want]
		return nil
	}
	data, err := f.s.readObject(f.ctx, id)
	if err != nil {
		return err
	}
	if int64(len(data)) != want {
		return corruptError("file %s: the chunk %s has %d bytes, not %d", f.name, id, len(data), want)
	}
	f.now = data
	return nil
}

func (f *storedFile) Close() error {
	f.closed = true
	return nil
}
