package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/workspace/driver"
)

// HostOptions are the options of HostDir.
type HostOptions struct {
	// Upper marks the directory as an overlayfs upper layer: whiteouts and opaque
	// directories are reported as such.
	Upper bool

	NoGit bool // leaves out entries named .git, at any level
}

// HostDir returns the tree in a directory of this host. Concurrent changes can't
// lead it outside the directory (TOCTOU): each path element is opened relative to
// its parent's descriptor with O_NOFOLLOW. Temporary files of package files are
// left out.
func HostDir(path string, opts *HostOptions) Tree {
	t := &hostTree{path: path}
	if opts != nil {
		t.opts = *opts
	}
	return t
}

type hostTree struct {
	path string
	opts HostOptions
}

func (t *hostTree) Root(context.Context) (Directory, error) {
	fd, err := openRetry(unix.AT_FDCWD, t.path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		return nil, hostError("open", t.path, err)
	}
	return &hostDir{t: t, f: os.NewFile(uintptr(fd), t.path)}, nil
}

type hostDir struct {
	t *hostTree
	f *os.File
}

// hostError says which action failed; nil if err is nil.
func hostError(verb, name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("snapshot: %s %s: %w: %w", verb, name, fault.Of(err), err)
}

// readError is hostError for an entry that can't be opened.
func readError(verb, name string, err error) error {
	if fault.Of(err) != fault.PermissionDenied {
		return hostError(verb, name, err)
	}
	return fmt.Errorf("snapshot: %s %s: %w: this user may not read it; chmod u+rwX %s makes it readable, in the workspace if it is a file of one", verb, name, fault.PermissionDenied, name)
}

func openRetry(dir int, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags|unix.O_CLOEXEC, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// A stat identifies a version of a file's content. A process can't set ctime, so an
// equal stat means equal content, except for writes through a mapping (see
// mayChangeUnseen).
type stat struct {
	dev, ino     uint64
	size         int64
	mtime, ctime int64 // nanoseconds
}

func (d *hostDir) fd() int { return int(d.f.Fd()) }

func (d *hostDir) Close() { d.f.Close() }

func (d *hostDir) Nodes(context.Context) ([]Node, error) { return d.listNodes(false) }

// listNodes lists the directory. With opened, regular files have only name and
// type: the caller opens them, which fills in the rest.
func (d *hostDir) listNodes(opened bool) ([]Node, error) {
	if _, err := d.f.Seek(0, io.SeekStart); err != nil {
		return nil, hostError("list", d.f.Name(), err)
	}
	entries, err := d.readEntries()
	if err != nil {
		return nil, hostError("list", d.f.Name(), err)
	}
	slices.SortFunc(entries, func(a, b entryName) int { return strings.Compare(a.name, b.name) })
	nodes := make([]Node, 0, len(entries))
	for _, e := range entries {
		switch {
		case files.IsTemp(e.name) || d.t.opts.NoGit && e.name == gitEntryName:
			continue
		case opened && e.file:
			nodes = append(nodes, Node{Name: e.name, Type: driver.TypeFile})
			continue
		}
		n, err := d.statNode(e.name)
		if errors.Is(err, unix.ENOENT) {
			continue // removed since it was listed
		}
		if err != nil {
			return nil, hostError("stat", e.name, err)
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// An entryName is a directory entry as getdents(2) reports it.
type entryName struct {
	name string
	file bool // known to be a regular file
}

func (d *hostDir) find(_ context.Context, name string) (*Node, error) {
	if files.IsTemp(name) || d.t.opts.NoGit && name == gitEntryName {
		return nil, nil
	}
	n, err := d.statNode(name)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, hostError("stat", name, err)
	}
	return &n, nil
}

// statNode describes an entry.
func (d *hostDir) statNode(name string) (Node, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(d.fd(), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return Node{}, err
	}
	n := nodeFromStat(name, &st)
	switch n.Type {
	case driver.TypeSymlink:
		target, err := readlink(d.fd(), name, int(st.Size))
		if err != nil {
			return Node{}, err
		}
		n.Target, n.Mode = target, 0
	case driver.TypeOther:
		if d.t.opts.Upper && uint32(st.Mode)&unix.S_IFMT == unix.S_IFCHR && st.Rdev == 0 {
			n.Type, n.Mode = TypeWhiteout, 0
		}
	case driver.TypeDir:
		return n, d.dirAttrs(&n)
	}
	return n, nil
}

func nodeFromStat(name string, st *unix.Stat_t) Node {
	mtime := time.Unix(st.Mtim.Unix())
	n := Node{Name: name, Mode: fs.FileMode(uint32(st.Mode) & 0o7777), ModTime: mtime.UTC(), Type: driver.TypeOther}
	switch uint32(st.Mode) & unix.S_IFMT {
	case unix.S_IFREG:
		n.Type, n.Size = driver.TypeFile, st.Size
		n.stat = &stat{dev: uint64(st.Dev), ino: st.Ino, size: st.Size, mtime: st.Mtim.Nano(), ctime: st.Ctim.Nano()}
	case unix.S_IFDIR:
		n.Type = driver.TypeDir
	case unix.S_IFLNK:
		n.Type = driver.TypeSymlink
	}
	return n
}

func readlink(dir int, name string, size int) (string, error) {
	for buf := make([]byte, max(size+1, 128)); ; buf = make([]byte, 2*len(buf)) {
		n, err := unix.Readlinkat(dir, name, buf)
		if err != nil {
			return "", err
		}
		if n < len(buf) {
			return string(buf[:n]), nil
		}
	}
}

// dirAttrs reads the extended attributes of a directory. A directory that can't be
// opened has none here; entering it fails later.
func (d *hostDir) dirAttrs(n *Node) error {
	fd, err := openRetry(d.fd(), n.Name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return nil
	}
	defer unix.Close(fd) //nolint:errcheck // it was only read
	attrs, err := listXattrs(fd)
	if err != nil {
		return err
	}
	for _, x := range attrs {
		switch x.Name {
		case "trusted.overlay.opaque", "user.overlay.opaque":
			n.Opaque = d.t.opts.Upper && string(x.Value) == "y"
		case "trusted.overlay.redirect", "user.overlay.redirect":
			if d.t.opts.Upper {
				return fmt.Errorf("a directory with an overlayfs redirect: %w", fault.Unsupported)
			}
		}
	}
	n.Xattrs = userXattrs(attrs)
	return nil
}

// userXattrs keeps the attributes that users may set, without those of overlayfs.
func userXattrs(attrs []Xattr) []Xattr {
	return slices.DeleteFunc(attrs, func(x Xattr) bool { return !isUserXattr(x.Name) })
}

func isUserXattr(name string) bool {
	return strings.HasPrefix(name, "user.") && !strings.HasPrefix(name, "user.overlay.")
}

// listXattrs reads the user and overlayfs attributes of an open file, sorted by
// name. A file system without extended attributes has none.
func listXattrs(fd int) ([]Xattr, error) {
	n, err := unix.Flistxattr(fd, nil)
	if err != nil || n == 0 {
		return nil, ignoreNoXattr(err)
	}
	list := make([]byte, n+1024)
	if n, err = unix.Flistxattr(fd, list); err != nil {
		return nil, ignoreNoXattr(err)
	}
	var attrs []Xattr
	for name := range strings.SplitSeq(strings.TrimSuffix(string(list[:n]), "\x00"), "\x00") {
		if !strings.HasPrefix(name, "user.") && !strings.HasPrefix(name, "trusted.overlay.") {
			continue
		}
		value := make([]byte, 64<<10) // the maximum on Linux
		n, err := unix.Fgetxattr(fd, name, value)
		if err != nil {
			if err := ignoreNoXattr(err); err != nil {
				return nil, err
			}
			continue
		}
		attrs = append(attrs, Xattr{Name: name, Value: slices.Clone(value[:n])})
	}
	slices.SortFunc(attrs, func(a, b Xattr) int { return strings.Compare(a.Name, b.Name) })
	return attrs, nil
}

func ignoreNoXattr(err error) error {
	for _, none := range []error{unix.ENOTSUP, unix.EPERM, unix.EACCES, errNoAttr, unix.EINVAL, unix.ERANGE} {
		if errors.Is(err, none) {
			return nil
		}
	}
	return err
}

// Open opens a regular file without blocking. If the entry has become a pipe or
// device since it was listed, Open refuses it.
func (d *hostDir) Open(_ context.Context, n *Node) (io.ReadCloser, error) {
	f, err := d.openFile(n)
	if err != nil {
		return nil, readError("read", n.Name, err)
	}
	return f, nil
}

func (d *hostDir) openFile(n *Node) (*hostFile, error) {
	fd, err := openRetry(d.fd(), n.Name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || uint32(st.Mode)&unix.S_IFMT != unix.S_IFREG {
		unix.Close(fd) //nolint:errcheck // it was only read
		if err == nil {
			err = fmt.Errorf("it is no longer a regular file: %w", fault.Conflict)
		}
		return nil, err
	}
	now := nodeFromStat(n.Name, &st)
	n.Size, n.Mode, n.ModTime, n.stat = now.Size, now.Mode, now.ModTime, now.stat
	return &hostFile{fd: fd, name: n.Name, size: n.Size}, nil
}

// A hostFile is an open file of this host, read up to the size at the time of
// opening, so that a file that grows is not read forever.
type hostFile struct {
	fd   int
	name string
	off  int64
	size int64
	data int64 // up to this offset there is a hole at off, if it is larger
}

// Read does not read the holes of a large file: the kernel would cache them.
func (f *hostFile) Read(buf []byte) (int, error) {
	if f.size > ChunkSize && f.data <= f.off {
		f.data = nextData(f.fd, f.off, f.size)
	}
	if n := min(f.data-f.off, int64(len(buf))); n > 0 {
		clear(buf[:n])
		f.off += n
		return int(n), nil
	}
	n, err := f.readAt(buf, f.off)
	f.off += int64(n)
	if n == 0 && err == nil && len(buf) > 0 {
		err = io.EOF
	}
	return n, err
}

// readAt fills buf as far as there is something to read.
func (f *hostFile) readAt(buf []byte, off int64) (int, error) {
	if rest := f.size - off; int64(len(buf)) > rest {
		buf = buf[:max(rest, 0)]
	}
	total := 0
	for total < len(buf) {
		n, err := unix.Pread(f.fd, buf[total:], off+int64(total))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return total, hostError("read", f.name, err)
		}
		if n == 0 {
			break
		}
		total += n
	}
	return total, nil
}

func (f *hostFile) Close() error {
	if f.fd < 0 {
		return nil
	}
	err := unix.Close(f.fd)
	f.fd = -1
	return err
}

func (d *hostDir) Dir(_ context.Context, n *Node) (Directory, error) {
	fd, err := openRetry(d.fd(), n.Name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return nil, readError("open", n.Name, err)
	}
	return &hostDir{t: d.t, f: os.NewFile(uintptr(fd), n.Name)}, nil
}
