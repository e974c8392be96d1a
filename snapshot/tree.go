package snapshot

import (
	"context"
	"fmt"
	"hash"
	"io"
	"path"
	"strings"
	"sync"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// A Tree is a tree of files. Its methods are safe for concurrent use.
type Tree interface {
	// Root opens the directory at the top.
	Root(ctx context.Context) (Directory, error)
}

// A Directory is an open directory of a tree. It does not follow symlinks.
type Directory interface {
	// Nodes lists the directory, sorted by name.
	Nodes(ctx context.Context) ([]Node, error)

	// Open opens a file that Nodes listed.
	Open(ctx context.Context, n *Node) (io.ReadCloser, error)

	// Dir opens a subdirectory that Nodes listed.
	Dir(ctx context.Context, n *Node) (Directory, error)

	// Close releases the directory.
	Close()
}

// Walk calls visit for each node of the tree, parents before children, siblings in
// order. visit returns whether to enter a directory.
func Walk(ctx context.Context, t Tree, visit func(path string, dir Directory, n *Node) (descend bool, err error)) error {
	root, err := t.Root(ctx)
	if err != nil {
		return err
	}
	defer root.Close()
	return walk(ctx, root, "", visit)
}

// maxPath is the maximum length of a directory's path, four times PATH_MAX. A walk
// holds the paths of all parents, which takes memory quadratic in this.
const maxPath = 16 << 10

// childPrefix returns the path prefix of a directory's entries.
func childPrefix(at, name string) (string, error) {
	if len(at)+len(name) > maxPath {
		return "", fmt.Errorf("snapshot: directory %s: %w: its path is longer than %d bytes", shortenPath(at+name), fault.ResourceExhausted, maxPath)
	}
	return at + name + "/", nil
}

// shortenPath keeps the end of a long path.
func shortenPath(path string) string {
	const most = 300
	if len(path) <= most {
		return path
	}
	return "..." + strings.ToValidUTF8(path[len(path)-most:], "?")
}

func walk(ctx context.Context, dir Directory, at string, visit func(string, Directory, *Node) (bool, error)) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("snapshot: walk: %w", err)
	}
	nodes, err := dir.Nodes(ctx)
	if err != nil {
		return err
	}
	for i := range nodes {
		n := &nodes[i]
		name := at + n.Name
		descend, err := visit(name, dir, n)
		if err != nil {
			return err
		}
		if n.Type != driver.TypeDir || !descend {
			continue
		}
		below, err := childPrefix(at, n.Name)
		if err != nil {
			return err
		}
		sub, err := dir.Dir(ctx, n)
		if err != nil {
			return err
		}
		err = walk(ctx, sub, below, visit)
		sub.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// Digest is the digest of a tree, as driver.TreeDigest defines it.
func Digest(ctx context.Context, t Tree) (string, error) {
	sum := driver.NewTreeDigest()
	err := Walk(ctx, t, func(name string, dir Directory, n *Node) (bool, error) {
		if err := fillContent(ctx, dir, n); err != nil {
			return false, err
		}
		sum.Add(name, n.Info(name), n.Info(name).Digest)
		return true, nil
	})
	return sum.Sum(), err
}

// fillContent sets Content of a file's node, which it reads unless the digest is
// known.
func fillContent(ctx context.Context, dir Directory, n *Node) error {
	if n.Type != driver.TypeFile || !n.Content.IsZero() {
		return nil
	}
	r, err := dir.Open(ctx, n)
	if err != nil {
		return err
	}
	defer r.Close()
	n.Content, err = digestReader(ctx, r, n.Name)
	return err
}

// digestReader returns the digest of all that r yields, of the file of that name.
func digestReader(ctx context.Context, r io.Reader, name string) (ID, error) {
	p := hashers.Get().(*hasher)
	defer hashers.Put(p)
	p.sum.Reset()
	if _, err := io.CopyBuffer(p.sum, contextReader{ctx, r}, p.buf); err != nil {
		return ID{}, fmt.Errorf("snapshot: read %s: %w: %w", name, fault.Of(err), err)
	}
	return ID(p.sum.Sum(nil)), nil
}

// A hasher is what the digest of a file needs: more memory than most files.
type hasher struct {
	sum hash.Hash
	buf []byte
}

var hashers = sync.Pool{New: func() any { return &hasher{driver.NewDigest(), make([]byte, 32<<10)} }}

type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(buf []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(buf)
}

// Lookup finds the node at name in a tree. The caller must close the directory of
// the node, which is nil for ".".
func Lookup(ctx context.Context, t Tree, name string) (Directory, *Node, error) {
	if !driver.ValidName(name) {
		return nil, nil, fmt.Errorf("snapshot: name %q: %w", name, fault.InvalidArgument)
	}
	if name == "." {
		return nil, &Node{Name: ".", Type: driver.TypeDir, Mode: 0o755}, nil
	}
	dir, err := t.Root(ctx)
	if err != nil {
		return nil, nil, err
	}
	elems := strings.Split(name, "/")
	for i, elem := range elems {
		n, err := findNode(ctx, dir, elem)
		if err == nil && n == nil {
			err = fmt.Errorf("snapshot: %s: %w", name, fault.NotFound)
		}
		if err == nil && i < len(elems)-1 && n.Type != driver.TypeDir {
			err = fmt.Errorf("snapshot: %s: %w: %s is not a directory", name, fault.NotFound, path.Join(elems[:i+1]...))
		}
		if err == nil && i == len(elems)-1 {
			return dir, n, nil
		}
		var sub Directory
		if err == nil {
			sub, err = dir.Dir(ctx, n)
		}
		dir.Close()
		if err != nil {
			return nil, nil, err
		}
		dir = sub
	}
	panic("unreachable")
}

// A finder is a directory that finds one entry without listing all of them.
type finder interface {
	find(ctx context.Context, name string) (*Node, error)
}

// findNode returns the node under a name; nil if there is none.
func findNode(ctx context.Context, dir Directory, name string) (*Node, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	if f, ok := dir.(finder); ok {
		return f.find(ctx, name)
	}
	nodes, err := dir.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	for i := range nodes {
		if nodes[i].Name == name {
			return &nodes[i], nil
		}
	}
	return nil, nil
}

// OpenFile opens the file at name in a tree.
func OpenFile(ctx context.Context, t Tree, name string) (io.ReadCloser, *Node, error) {
	dir, n, err := Lookup(ctx, t, name)
	if err != nil {
		return nil, nil, err
	}
	if dir == nil || n.Type != driver.TypeFile {
		if dir != nil {
			dir.Close()
		}
		return nil, nil, fmt.Errorf("snapshot: read %s: %w: it is not a regular file", name, fault.InvalidArgument)
	}
	r, err := dir.Open(ctx, n)
	if err != nil {
		dir.Close()
		return nil, nil, err
	}
	return &openedFile{r, dir}, n, nil
}

// openedFile is an open file that keeps its directory open.
type openedFile struct {
	io.ReadCloser
	dir Directory
}

func (f *openedFile) Close() error {
	f.dir.Close()
	return f.ReadCloser.Close()
}

// Empty is the empty tree.
var Empty Tree = empty{}

type empty struct{}

func (empty) Root(context.Context) (Directory, error)       { return empty{}, nil }
func (empty) Nodes(context.Context) ([]Node, error)         { return nil, nil }
func (empty) Close()                                        {}
func (empty) Dir(context.Context, *Node) (Directory, error) { return nil, fault.NotFound }
func (empty) Open(context.Context, *Node) (io.ReadCloser, error) {
	return nil, fault.NotFound
}
