package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// An Owner is the owner of created files.
type Owner struct{ UID, GID int }

// An installer creates the nodes of a tree in directories of this host, under names
// that no other process uses yet.
type installer struct {
	owner      *Owner
	sync       bool
	plainModes bool // without set-user-id, set-group-id and sticky bits
	layer      bool // create whiteouts and opaque directories
	tokens     chan struct{}

	files, bytes atomic.Int64
}

func newInstaller(o *RestoreOptions) *installer {
	return &installer{owner: o.Owner, sync: o.Sync, plainModes: o.PlainModes, layer: o.Upper, tokens: make(chan struct{}, 2*runtime.GOMAXPROCS(0))}
}

// installNode creates a node under a name in the directory to.
func (p *installer) installNode(ctx context.Context, from Directory, n *Node, to int, name string) error {
	var err error
	switch n.Type {
	case driver.TypeFile:
		err = p.makeFile(ctx, from, n, to, name)
	case driver.TypeDir:
		err = p.makeDir(ctx, from, n, to, name)
	case driver.TypeSymlink:
		if err = unix.Symlinkat(n.Target, to, name); err == nil {
			err = p.setOwnerAndTime(to, name, n)
		}
	case TypeWhiteout:
		if !p.layer {
			return nil
		}
		err = makeWhiteout(to, name)
	default:
		return fmt.Errorf("snapshot: make %s: a %s: %w", n.Name, n.Type, fault.Unsupported)
	}
	if _, coded := errors.AsType[fault.Code](err); err != nil && !coded {
		err = hostError("make", n.Name, err)
	}
	return err
}

// setOwnerAndTime sets owner and mtime of an entry that is not opened, such as a
// symlink.
func (p *installer) setOwnerAndTime(dir int, name string, n *Node) error {
	if p.owner != nil {
		if err := unix.Fchownat(dir, name, p.owner.UID, p.owner.GID, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
	}
	return setTime(dir, name, n)
}

func setTime(dir int, name string, n *Node) error {
	t, err := unix.TimeToTimespec(n.ModTime)
	if err != nil {
		return err
	}
	return unix.UtimesNanoAt(dir, name, []unix.Timespec{t, t}, unix.AT_SYMLINK_NOFOLLOW)
}

func (p *installer) modeBits(n *Node) uint32 {
	if p.plainModes {
		return uint32(n.Mode & 0o777)
	}
	return uint32(n.Mode & 0o7777)
}

// makeDir creates a directory with its subtree.
func (p *installer) makeDir(ctx context.Context, from Directory, n *Node, to int, name string) error {
	if err := unix.Mkdirat(to, name, 0o700); err != nil {
		return err
	}
	fd, err := openRetry(to, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // nothing is written through it
	sub, err := from.Dir(ctx, n)
	if err != nil {
		return err
	}
	defer sub.Close()
	if err := p.installEntries(ctx, sub, fd); err != nil {
		return err
	}
	return p.setDirAttrs(fd, n)
}

// installEntries creates the entries of a directory in parallel.
func (p *installer) installEntries(ctx context.Context, from Directory, to int) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("snapshot: restore: %w", err)
	}
	nodes, err := from.Nodes(ctx)
	if err != nil {
		return err
	}
	g := tasks{tokens: p.tokens}
	const batch = 64
	for start := 0; start < len(nodes); start += batch {
		part := nodes[start:min(start+batch, len(nodes))]
		g.run(func() error {
			for i := range part {
				if part[i].Type == driver.TypeDir {
					continue
				}
				if err := p.installNode(ctx, from, &part[i], to, part[i].Name); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for i := range nodes {
		if n := &nodes[i]; n.Type == driver.TypeDir {
			g.run(func() error { return p.installNode(ctx, from, n, to, n.Name) })
		}
	}
	return g.wait()
}

// setDirAttrs sets the attributes of an open directory, and overlayfs' opaque mark.
func (p *installer) setDirAttrs(fd int, n *Node) error {
	if p.layer && n.Opaque {
		if err := setOpaque(fd); err != nil {
			return err
		}
	}
	return p.setAttrs(fd, n, true)
}

// setAttrs sets the extended attributes, owner, mode and mtime of an open file or
// directory. The owner is set before the mode, since chown clears mode bits.
func (p *installer) setAttrs(fd int, n *Node, fresh bool) error {
	if !fresh || len(n.Xattrs) > 0 {
		if err := setXattrs(fd, n.Xattrs); err != nil {
			return err
		}
	}
	if p.owner != nil {
		if err := unix.Fchown(fd, p.owner.UID, p.owner.GID); err != nil {
			return err
		}
	}
	if err := unix.Fchmod(fd, p.modeBits(n)); err != nil {
		return err
	}
	if p.sync {
		if err := unix.Fsync(fd); err != nil {
			return err
		}
	}
	return setTimeFD(fd, n)
}

// setXattrs makes the user extended attributes equal to want. On a file system
// without extended attributes they are lost.
func setXattrs(fd int, want []Xattr) error {
	have, err := listXattrs(fd)
	if err != nil {
		return err
	}
	for _, x := range userXattrs(have) {
		if !slices.ContainsFunc(want, func(w Xattr) bool { return w.Name == x.Name }) {
			if err := unix.Fremovexattr(fd, x.Name); ignoreNoXattr(err) != nil {
				return err
			}
		}
	}
	for _, x := range want {
		if err := unix.Fsetxattr(fd, x.Name, x.Value, 0); ignoreNoXattr(err) != nil {
			return err
		}
	}
	return nil
}

// makeFile creates a file. Runs of zeros in its content become holes.
func (p *installer) makeFile(ctx context.Context, from Directory, n *Node, to int, name string) (err error) {
	r, err := from.Open(ctx, n)
	if err != nil {
		return err
	}
	defer r.Close()
	host := r
	if c, ok := r.(*checkedFile); ok {
		host = c.ReadCloser
	}
	if f, ok := host.(*hostFile); ok {
		attrs, err := listXattrs(f.fd)
		if err != nil {
			return err
		}
		n.Xattrs = userXattrs(attrs)
	}
	fd, err := unix.Openat(to, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := unix.Close(fd); err == nil {
			err = cerr
		}
	}()
	size, err := copyContent(ctx, fd, r, n)
	if err != nil {
		return err
	}
	if n.Content.IsZero() || n.stat != nil {
		n.Size = size
	}
	if size != n.Size {
		return corruptError("file %s: it has %d bytes, want %d", n.Name, size, n.Size)
	}
	p.reportProgress(ctx, size)
	return p.setAttrs(fd, n, true)
}

// reportProgress calls the progress callback of ctx now and then.
func (p *installer) reportProgress(ctx context.Context, size int64) {
	files, bytes := p.files.Add(1), p.bytes.Add(size)
	if files%256 == 0 {
		if f := driver.Progress(ctx); f != nil {
			f(files, bytes)
		}
	}
}

// copyContent writes the content of r to an empty file.
func copyContent(ctx context.Context, fd int, r io.Reader, n *Node) (int64, error) {
	if f, ok := r.(*storedFile); ok {
		return f.writeSparse(fd)
	}
	var b buffer
	defer b.release()
	buf := b.get(ChunkSize)[:ChunkSize]
	var off int64
	for {
		count, err := io.ReadFull(contextReader{ctx, r}, buf)
		if !bytes.Equal(buf[:count], zeros[:count]) {
			if err := pwriteAll(fd, buf[:count], off); err != nil {
				return off, err
			}
		}
		off += int64(count)
		switch {
		case err == io.EOF || err == io.ErrUnexpectedEOF:
			return off, unix.Ftruncate(fd, off)
		case err != nil:
			return off, fmt.Errorf("snapshot: read %s: %w: %w", n.Name, fault.Of(err), err)
		}
	}
}

// writeSparse writes the chunks of a file; chunks of zeros become holes.
func (f *storedFile) writeSparse(fd int) (int64, error) {
	var off int64
	for f.left > 0 {
		hole := f.chunks[0].IsZero()
		if err := f.nextChunk(); err != nil {
			return off, err
		}
		if !hole {
			if err := pwriteAll(fd, f.now, off); err != nil {
				return off, err
			}
		}
		off += int64(len(f.now))
		if hole && f.left == 0 {
			return off, unix.Ftruncate(fd, off)
		}
	}
	return off, nil
}

func pwriteAll(fd int, data []byte, off int64) error {
	for len(data) > 0 {
		n, err := unix.Pwrite(fd, data, off)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		data, off = data[n:], off+int64(n)
	}
	return nil
}

// removeAll removes a subtree by descriptors, without following symlinks. A missing
// name is not an error.
func removeAll(dir int, name string) error {
	err := unix.Unlinkat(dir, name, 0)
	if err == nil || err == unix.ENOENT { //nolint:errorlint // an errno
		return nil
	}
	fd, oerr := openRetry(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if oerr == unix.EACCES { //nolint:errorlint // an errno
		if unix.Fchmodat(dir, name, 0o700, 0) == nil {
			fd, oerr = openRetry(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
		}
	}
	if oerr == unix.ENOENT { //nolint:errorlint // an errno
		return nil
	}
	if oerr != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return err
	}
	if len(names) > 0 {
		var st unix.Stat_t
		if unix.Fstat(fd, &st) == nil && st.Mode&0o300 != 0o300 {
			unix.Fchmod(fd, 0o700) //nolint:errcheck // the removal reports errors
		}
	}
	for _, sub := range names {
		if err := removeAll(fd, sub); err != nil {
			return err
		}
	}
	if err := unix.Unlinkat(dir, name, unix.AT_REMOVEDIR); err != nil && err != unix.ENOENT {
		return err
	}
	return nil
}

// openBelow opens the directory at a path below root, without following symlinks.
func openBelow(root int, path string) (int, error) {
	fd, err := openRetry(root, ".", unix.O_RDONLY|unix.O_DIRECTORY)
	if path == "." || path == "" {
		return fd, err
	}
	for elem := range strings.SplitSeq(path, "/") {
		if err != nil {
			return -1, err
		}
		var next int
		next, err = openRetry(fd, elem, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
		unix.Close(fd) //nolint:errcheck // nothing is written through it
		fd = next
	}
	return fd, err
}

// isNotExist reports whether a path, or a parent of it, does not exist.
func isNotExist(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)
}
