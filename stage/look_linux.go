package stage

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// below looks at what is in a directory, whose slash path in the tree is rel. It
// asks from the directory's descriptor, which costs half of asking by paths.
func (l *looker) below(dir, rel string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		var st unix.Stat_t
		err := unix.Fstatat(int(f.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return &fs.PathError{Op: "lstat", Path: dir + "/" + name, Err: err}
		}
		at, mode := rel+name, modeOf(st.Mode)
		l.buf = appendStat(l.buf[:0], at, &st)
		l.add(l.buf)
		l.each(at, mode)
		if mode.IsDir() {
			if err := l.below(dir+"/"+name, at+"/"); err != nil {
				return err
			}
		}
	}
	return nil
}

// modeOf is the kind and the permissions of an entry.
func modeOf(m uint32) fs.FileMode {
	mode := fs.FileMode(m & 0o777)
	switch m & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		mode |= fs.ModeDir
	case unix.S_IFLNK:
		mode |= fs.ModeSymlink
	default:
		mode |= fs.ModeIrregular
	}
	return mode
}

// appendStat appends how an entry looks. The time of the last change of an inode
// can't be set by the one who changes it.
func appendStat(buf []byte, at string, st *unix.Stat_t) []byte {
	buf = binary.AppendUvarint(buf, uint64(len(at)))
	buf = append(buf, at...)
	buf = binary.AppendVarint(buf, st.Size)
	buf = binary.AppendVarint(buf, st.Mtim.Nano())
	buf = binary.AppendUvarint(buf, uint64(st.Mode))
	buf = binary.AppendVarint(buf, st.Ctim.Nano())
	buf = binary.AppendUvarint(buf, st.Ino)
	return binary.AppendUvarint(buf, st.Dev)
}

// appendLook is appendStat for what was asked for otherwise.
func appendLook(buf []byte, at string, fi fs.FileInfo) []byte {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return appendStat(buf, at, &unix.Stat_t{Size: st.Size, Mode: st.Mode, Ino: st.Ino, Dev: st.Dev, Mtim: unix.Timespec(st.Mtim), Ctim: unix.Timespec(st.Ctim)})
	}
	return append(buf, at...)
}
