// Package entry looks at entries of directories that a workload changes meanwhile: by the
// descriptor of the directory, without following a symlink, and without blocking on a FIFO.
package entry

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"
)

const (
	// MaxDepth bounds nested directories; each needs a descriptor.
	MaxDepth = 100

	// MaxTree bounds the entries of one directory tree, and maxHashed the bytes of one
	// file, whose content counts for a digest. Beyond, the change time counts.
	MaxTree   = 10_000
	maxHashed = 4 << 20
)

// Exists reports whether there is an entry, also a symlink that leads nowhere.
func Exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

// OpenDir opens a directory without following a symlink at its end.
func OpenDir(at int, name string) (int, error) {
	return unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// OpenRegular opens a regular file of a directory; nil if it is another type. It never
// blocks on a FIFO and follows no symlink.
func OpenRegular(dir int, name string) (*os.File, *unix.Stat_t, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		unix.Close(fd) //nolint:errcheck // it was only looked at
		return nil, nil, err
	}
	return os.NewFile(uintptr(fd), name), &st, nil
}

// ReadRegular returns the beginning of a regular file of a directory.
func ReadRegular(dir int, name string, most int64) ([]byte, error) {
	f, _, err := OpenRegular(dir, name)
	if f == nil || err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most))
}

// A Digest is a digest of entries.
type Digest struct{ sum hash.Hash }

// NewDigest returns a digest of nothing.
func NewDigest() *Digest { return &Digest{sha256.New()} }

// Add adds an entry of a directory, with all below it. It returns the type of the entry, 0 if
// it does not exist.
func (d *Digest) Add(fd int, name string) (kind uint32) { return d.add(fd, name, 0, new(int)) }

// String returns the digest in hexadecimal digits.
func (d *Digest) String() string { return fmt.Sprintf("%x", d.sum.Sum(nil)[:16]) }

func (d *Digest) add(fd int, name string, depth int, seen *int) uint32 {
	var st unix.Stat_t
	if unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return 0
	}
	kind := st.Mode & unix.S_IFMT
	fmt.Fprintf(d.sum, "%s\x00%o\x00", path.Base(name), kind)
	switch kind {
	case unix.S_IFLNK:
		buf := make([]byte, unix.PathMax)
		n, _ := unix.Readlinkat(fd, name, buf)
		d.sum.Write(buf[:max(n, 0)])
	case unix.S_IFREG:
		f, st, err := OpenRegular(fd, name)
		if f == nil || err != nil {
			fmt.Fprintf(d.sum, "unreadable %v", err)
			break
		}
		defer f.Close()
		if n, err := io.Copy(d.sum, io.LimitReader(f, maxHashed)); n == maxHashed || err != nil {
			fmt.Fprintf(d.sum, "%d %d.%09d", st.Size, st.Ctim.Sec, st.Ctim.Nsec)
		}
		fmt.Fprintf(d.sum, "\x00%o", st.Mode&0o111) // whether it is executable
	case unix.S_IFDIR:
		d.addDir(fd, name, depth, seen)
	}
	return kind
}

func (d *Digest) addDir(fd int, name string, depth int, seen *int) {
	sub, err := OpenDir(fd, name)
	if err != nil {
		fmt.Fprintf(d.sum, "unreadable")
		return
	}
	dir := os.NewFile(uintptr(sub), name)
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if *seen += len(names); err != nil || *seen > MaxTree || depth > MaxDepth {
		fmt.Fprintf(d.sum, "too large: %d", len(names))
		return
	}
	slices.Sort(names)
	for _, name := range names {
		d.add(sub, name, depth+1, seen)
	}
}
