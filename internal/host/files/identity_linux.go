package files

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// openDirNoSymlinks opens a directory with RESOLVE_NO_SYMLINKS.
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

// dirLineage stats "..", "../.." and so on from a descriptor of the directory: one system
// call for each ancestor, and no TOCTOU race if a directory is renamed meanwhile.
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
	deep := strings.Count(strings.TrimSuffix(dir, "/"), "/") // number of ancestors
	for up := ".."; ; up += "/.." {
		var st unix.Stat_t
		if err := unix.Fstatat(fd, up, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return lineageByPath(dir) // ".." needs search permission
		}
		is := Identity{Dev: st.Dev, Ino: st.Ino}
		// Only the root directory is its own parent, except for a directory that is mounted
		// in itself.
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

// SameMount reports whether two directories are known to lie in one mount. Within one
// mount, a directory lies in another one exactly if its path says so.
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
