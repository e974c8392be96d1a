package plot

import (
	"encoding/binary"
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/internal/bare"
)

// A bareWalker goes through directories by bare descriptors: package os takes
// three times as many calls. It follows nothing.
type bareWalker struct{ buf []byte }

// An inner is an entry of a directory. Where the file system does not tell, kind is
// unix.DT_UNKNOWN.
type inner struct {
	name string
	kind byte
}

// openDir opens the directory of a name in another one.
func openDir(at int, name string) (int, error) {
	return bare.Again(func() (int, error) {
		return unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
}

func unlinkAt(at int, name string, flags int) error {
	_, err := bare.Again(func() (int, error) { return 0, unix.Unlinkat(at, name, flags) })
	return err
}

// Where things are in an entry, and what the one with the longest name takes.
const (
	entrySize = int(unsafe.Offsetof(unix.Dirent{}.Reclen))
	entryType = int(unsafe.Offsetof(unix.Dirent{}.Type))
	entryName = int(unsafe.Offsetof(unix.Dirent{}.Name))

	longestEntry = int(unsafe.Sizeof(unix.Dirent{}))
)

// list reads a directory. It takes a batch with room for more for the last one,
// which not every file system promises: who needs all asks for all.
func (w *bareWalker) list(fd int, all bool) ([]inner, error) {
	if w.buf == nil {
		w.buf = make([]byte, 32<<10)
	}
	var list []inner
	for {
		n, err := bare.Again(func() (int, error) { return unix.Getdents(fd, w.buf) })
		if err != nil || n == 0 {
			return list, err
		}
		for rest := w.buf[:n]; len(rest) > 0; {
			size := binary.NativeEndian.Uint16(rest[entrySize:])
			name := unix.ByteSliceToString(rest[entryName:size])
			if name != "." && name != ".." {
				list = append(list, inner{name, rest[entryType]})
			}
			rest = rest[size:]
		}
		if !all && n <= len(w.buf)-longestEntry {
			return list, nil
		}
	}
}

// removePlain removes what has a path, with all below it, and reports whether it
// did. What stands in its way, such as a mode, too many directories in each other,
// or others who work there, it leaves to who goes about it with more patience.
func removePlain(path string) bool {
	err := unlinkAt(unix.AT_FDCWD, path, 0)
	if errors.Is(err, unix.EISDIR) {
		err = new(bareWalker).remove(unix.AT_FDCWD, path, 0)
	}
	return present(err) == nil
}

// remove removes a directory, which lies so many below the top.
func (w *bareWalker) remove(at int, name string, depth int) error {
	err := unlinkAt(at, name, unix.AT_REMOVEDIR)
	if !errors.Is(err, unix.ENOTEMPTY) || depth >= deepest {
		return present(err)
	}
	fd, err := openDir(at, name)
	if err != nil {
		return present(err)
	}
	defer unix.Close(fd) //nolint:errcheck // it was only read
	for _, all := range []bool{false, true, true} {
		if err = w.empty(fd, all, depth+1); err != nil {
			return err
		}
		if err = unlinkAt(at, name, unix.AT_REMOVEDIR); !errors.Is(err, unix.ENOTEMPTY) {
			return present(err)
		}
		if _, err := unix.Seek(fd, 0, unix.SEEK_SET); err != nil {
			return err
		}
	}
	return err
}

// empty removes what is in a directory.
func (w *bareWalker) empty(fd int, all bool, depth int) error {
	entries, err := w.list(fd, all)
	if present(err) != nil {
		return err
	}
	for _, e := range entries {
		err := error(unix.EISDIR)
		if e.kind != unix.DT_DIR {
			err = unlinkAt(fd, e.name, 0)
		}
		if errors.Is(err, unix.EISDIR) {
			err = w.remove(fd, e.name, depth)
		}
		if present(err) != nil {
			return err
		}
	}
	return nil
}

// holdsLittle reports whether a directory holds few entries, and few bytes.
func holdsLittle(dir string) bool {
	l := little{entries: littleEntries, bytes: littleBytes}
	return l.fits(unix.AT_FDCWD, dir)
}

// little is what may still be found.
type little struct {
	bareWalker
	entries int
	bytes   int64
}

// fits reports whether a directory holds no more than that.
func (l *little) fits(at int, name string) bool {
	fd, err := openDir(at, name)
	if err != nil {
		return false
	}
	defer unix.Close(fd) //nolint:errcheck // it was only read
	entries, err := l.list(fd, false)
	if l.entries -= len(entries); err != nil || l.entries < 0 {
		return false
	}
	for _, e := range entries {
		switch e.kind {
		case unix.DT_DIR:
			if !l.fits(fd, e.name) {
				return false
			}
		case unix.DT_REG:
			var st unix.Stat_t
			if err := unix.Fstatat(fd, e.name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
				return false
			}
			if l.bytes -= st.Size; l.bytes < 0 {
				return false
			}
		case unix.DT_UNKNOWN:
			return false
		}
	}
	return true
}
