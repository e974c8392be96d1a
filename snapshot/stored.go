package snapshot

import (
	"context"
	"io"

	"github.com/croft-run/croft/fault"
)

// StoredTree returns the tree in the store whose object is root.
func (s *Store) StoredTree(root ID) Tree { return &storedTree{s, root} }

type storedTree struct {
	s    *Store
	root ID
}

func (t *storedTree) Root(context.Context) (Directory, error) { return &storedDir{t.s, t.root}, nil }

type storedDir struct {
	s  *Store
	id ID
}

func (d *storedDir) Nodes(ctx context.Context) ([]Node, error) { return d.s.tree(ctx, d.id) }

func (d *storedDir) Dir(_ context.Context, n *Node) (Directory, error) {
	return &storedDir{d.s, n.Content}, nil
}

func (d *storedDir) Close() {}

// Open reads a file chunk by chunk, each verified.
func (d *storedDir) Open(ctx context.Context, n *Node) (io.ReadCloser, error) {
	r := &storedFile{ctx: ctx, s: d.s, name: n.Name, left: n.Size}
	switch {
	case n.Size == 0:
	case n.Size <= ChunkSize:
		r.chunks = []ID{n.Content}
	default:
		var err error
		if r.chunks, err = d.s.chunks(ctx, n.List, n.Size); err != nil {
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
		if err := f.next(); err != nil {
			return 0, err
		}
	}
	n := copy(buf, f.now)
	f.now = f.now[n:]
	return n, nil
}

// next makes the next chunk the present one.
func (f *storedFile) next() error {
	id := f.chunks[0]
	f.chunks = f.chunks[1:]
	want := min(f.left, ChunkSize)
	f.left -= want
	if id.IsZero() {
		f.now = zeros[:want]
		return nil
	}
	data, err := f.s.get(f.ctx, id)
	if err != nil {
		return err
	}
	if int64(len(data)) != want {
		return corrupt("file %s: the chunk %s has %d bytes, not %d", f.name, id, len(data), want)
	}
	f.now = data
	return nil
}

func (f *storedFile) Close() error {
	f.closed = true
	return nil
}
