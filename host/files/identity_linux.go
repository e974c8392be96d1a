package files

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// openDirNoSymlinks opens a directory by a path without symlinks.
func openDirNoSymlinks(dir string, flags int) (int, error) {
	oh := unix.OpenHow{Flags: uint64(flags | unix.O_DIRECTORY | unix.O_CLOEXEC), Resolve: unix.RESOLVE_NO_SYMLINKS}
	fd, err := retry(func() (int, error) { return unix.Openat2(unix.AT_FDCWD, dir, &oh) })
	switch {
	case errors.Is(err, unix.ELOOP):
		return -1, errSymlinkInPath
	case errors.Is(err, unix.ENOTDIR):
		if fi, err := os.Lstat(dir); err == nil && fi.Mode()&fs.ModeSymlink != 0 {
			return -1, errSymlinkInPath
		}
		return -1, errNotDir
	}
	return fd, err
}

func identifyDir(dir string) (Identity, error) {
	fd, err := openDirNoSymlinks(dir, unix.O_PATH)
	if err != nil {
		return Identity{}, err
	}
	defer closeFD(fd)
	return system{fd: fd}.dirIdentity()
}

// dirLineage asks the directory itself what is above it, which takes one call for each
// and can't be led astray by who moves things about.
func dirLineage(dir string) ([]Identity, error) {
	fd, err := openDirNoSymlinks(dir, unix.O_PATH)
	if err != nil {
		return nil, err
	}
	defer closeFD(fd)
	last, err := system{fd: fd}.dirIdentity()
	if err != nil {
		return nil, err
	}
	line := []Identity{last}
	deep := strings.Count(strings.TrimSuffix(dir, "/"), "/") // how many are above
	for up := ".."; ; up += "/.." {
		var st unix.Stat_t
		if err := unix.Fstatat(fd, up, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return lineageByPath(dir) // what may not be entered has no way up
		}
		is := Identity{Dev: st.Dev, Ino: st.Ino}
		// Only the root is its own parent, but for a directory that is mounted in
		// itself.
		if is == last && len(line) > deep {
			return line, nil
		}
		line, last = append(line, is), is
	}
}

func (s system) dirIdentity() (Identity, error) {
	var st unix.Stat_t
	if err := unix.Fstat(s.fd, &st); err != nil {
		return Identity{}, err
	}
	return Identity{Dev: st.Dev, Ino: st.Ino}, nil
}

// SameMount reports whether two directories are known to lie in one mount: then the
// one is in the other if, and only if, its path says so.
func SameMount(a, b string) bool {
	var at [2]unix.Statx_t
	for i, dir := range [2]string{a, b} {
		err := unix.Statx(unix.AT_FDCWD, dir, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_MNT_ID, &at[i])
		if err != nil || at[i].Mask&unix.STATX_MNT_ID == 0 { // a kernel before 5.8
			return false
		}
	}
	return at[0].Mnt_id == at[1].Mnt_id
}
