package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// system is the root on Linux: a descriptor of the directory.
type system struct {
	fd         int
	commit     commitFunc
	keepMounts bool
}

func openSystem(dir string, noSymlinks bool) (system, error) {
	if noSymlinks {
		fd, err := openDirNoSymlinks(dir, unix.O_RDONLY)
		return system{fd: fd}, err
	}
	fd, err := retry(func() (int, error) {
		return unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if errors.Is(err, unix.ENOTDIR) {
		return system{}, errNotDir
	}
	return system{fd: fd}, err
}

// FromFD returns the root at an open directory and takes ownership of the descriptor: Close
// closes it, and so does FromFD on an error.
func FromFD(fd int, opts *Options) (*Root, error) {
	// An O_PATH descriptor can't be listed, so the directory is opened again.
	dir, err := retry(func() (int, error) {
		return unix.Openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if errors.Is(err, unix.ENOTDIR) {
		err = errNotDir
	}
	if errClose := unix.Close(fd); err == nil && errClose != nil {
		closeFD(dir)
		err = errClose
	}
	if err != nil {
		return nil, opError("open", "descriptor "+strconv.Itoa(fd), err)
	}
	return newRoot(system{fd: dir}, opts), nil
}

func (s system) close() error { return unix.Close(s.fd) }

// reopen opens the same directory again.
func (s system) reopen() (system, error) {
	fd, err := retry(func() (int, error) {
		return unix.Openat(s.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	return system{fd: fd}, err
}

// openTries bounds the repetitions of openat2, which answers EAGAIN if any rename or mount
// on the machine races with resolving "..".
const openTries = 1000

// open opens a path below the root. This is the sandbox boundary: every path with more than
// one element, or whose last element may be followed, is resolved here.
func (s system) open(name string, flags int) (int, error) {
	return s.resolvePath(name, flags, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_MAGICLINKS)
}

func (s system) resolvePath(name string, flags int, how uint64) (int, error) {
	oh := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: how}
	for try := 0; ; try++ {
		fd, err := s.openat2(name, &oh)
		switch err {
		case nil:
			return fd, nil
		case unix.EINTR: //nolint:errorlint // an errno, as the kernel answers
			continue
		case unix.EAGAIN:
			if try < openTries {
				runtime.Gosched()
				continue
			}
			return -1, fault.Transient(fmt.Errorf("%w: the path kept changing; try again", fault.Unavailable))
		case unix.EXDEV:
			return -1, errLeaves
		case unix.ENOTDIR:
			return -1, errNotDir
		case unix.ELOOP:
			return -1, fmt.Errorf("%w: too many symlinks, or a magic link of /proc", fault.InvalidArgument)
		}
		return -1, err
	}
}

// openat2 calls openat2(2), or walkBeneath if the kernel lacks it.
func (s system) openat2(name string, how *unix.OpenHow) (int, error) {
	fd, err := unix.Openat2(s.fd, name, how)
	if errors.Is(err, unix.ENOSYS) {
		return s.walkBeneath(name, int(how.Flags), how.Resolve)
	}
	return fd, err
}

// closeFD closes a descriptor whose close error does not matter: it was only read from, or
// is synced.
func closeFD(fd int) { _ = unix.Close(fd) }

// retry repeats a system call on EINTR.
func retry[T any](call func() (T, error)) (T, error) {
	for {
		v, err := call()
		if !errors.Is(err, unix.EINTR) {
			return v, err
		}
	}
}

// An atPath is a directory descriptor and the name of an entry in that directory, which
// need not exist: the arguments of the *at system calls.
type atPath struct {
	dirfd int
	base  string
	owned bool // close closes dirfd
}

// openParent opens the directory of a clean name other than ".".
func (s system) openParent(name string) (atPath, error) {
	dir, base := splitName(name)
	if dir == "." {
		return atPath{dirfd: s.fd, base: base}, nil
	}
	fd, err := s.open(dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if errors.Is(err, unix.EACCES) { // searchable, but not readable
		fd, err = s.open(dir, unix.O_PATH|unix.O_DIRECTORY)
	}
	return atPath{dirfd: fd, base: base, owned: true}, err
}

func (p atPath) close() {
	if p.owned {
		closeFD(p.dirfd)
	}
}

// sync calls fsync on the directory.
func (p atPath) sync() error { return fsync(p.dirfd) }

func fsync(fd int) error {
	_, err := retry(func() (int, error) { return 0, unix.Fsync(fd) })
	return err
}

func (s system) stat(ctx context.Context, t cleanName, o *driver.StatOptions) (driver.Info, error) {
	flags := unix.O_PATH
	if t.mustBeDir {
		flags |= unix.O_DIRECTORY
	}
	if o.NoFollow && !t.mustBeDir {
		flags |= unix.O_NOFOLLOW
	}
	fd, err := s.open(t.name, flags)
	if err != nil {
		return driver.Info{}, err
	}
	defer closeFD(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return driver.Info{}, err
	}
	info := infoOf(t.name, &st)
	if info.Type == driver.TypeSymlink {
		info.Target, err = readlink(fd, "")
	}
	if o.Digest && info.Type == driver.TypeFile {
		// The digest and the description must be of one descriptor.
		info, err = s.statDigest(ctx, t)
	}
	if o.ChangeToken {
		info.ChangeToken = changeToken(&st)
	}
	return info, err
}

// statDigest describes a file from the descriptor that the digest is read from.
func (s system) statDigest(ctx context.Context, t cleanName) (driver.Info, error) {
	body, info, err := s.read(t, new(driver.ReadOptions))
	if err != nil {
		return info, err
	}
	defer body.Close()
	info.Digest, err = driver.DigestReader(withContext(ctx, body))
	return info, err
}

// infoOf converts stat data.
func infoOf(name string, st *unix.Stat_t) driver.Info {
	info := driver.Info{
		Path: name, Type: driver.TypeOther, Size: st.Size, Mode: fs.FileMode(st.Mode & 0o7777),
		ModTime: time.Unix(st.Mtim.Unix()).UTC(),
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		info.Type = driver.TypeFile
	case unix.S_IFDIR:
		info.Type, info.Size = driver.TypeDir, 0
	case unix.S_IFLNK:
		info.Type = driver.TypeSymlink
	}
	return info
}

// changeToken returns the ctime and inode number of a file: see driver.Info.ChangeToken.
func changeToken(st *unix.Stat_t) string {
	const base = 36
	buf := strconv.AppendInt(make([]byte, 0, 24), st.Ctim.Nano(), base)
	return string(strconv.AppendUint(append(buf, '.'), st.Ino, base))
}

// readlink returns the target of a symlink. base is "" if fd is the symlink itself.
func readlink(fd int, base string) (string, error) {
	buf := make([]byte, maxName+1)
	n, err := retry(func() (int, error) { return unix.Readlinkat(fd, base, buf) })
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

func (s system) mkdir(t cleanName, o *driver.MkdirOptions, sync bool) error {
	if t.name == "." {
		if o.Parents {
			return nil
		}
		return errExists
	}
	if o.Parents {
		if err := s.mkdirParents(t.name, sync); err != nil {
			return err
		}
	}
	p, err := s.openParent(t.name)
	if err != nil {
		return err
	}
	defer p.close()
	mode := o.Mode
	if mode == 0 {
		mode = 0o755
	}
	err = p.mkdir(mode, sync)
	if errors.Is(err, unix.EEXIST) && o.Parents {
		return s.checkExistingDir(t.name)
	}
	return err
}

// checkExistingDir is checkDir for a name that exists: any other type is errExists.
func (s system) checkExistingDir(name string) error {
	err := s.checkDir(name)
	if errors.Is(err, errNotDir) {
		return errExists
	}
	return err
}

// mkdir creates a directory with exactly that mode, regardless of the umask.
func (p atPath) mkdir(mode fs.FileMode, sync bool) error {
	_, err := retry(func() (int, error) { return 0, unix.Mkdirat(p.dirfd, p.base, uint32(mode.Perm())) })
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstatat(p.dirfd, p.base, &st, unix.AT_SYMLINK_NOFOLLOW); err == nil && st.Mode&0o7777 != uint32(mode) {
		fd, err := retry(func() (int, error) {
			return unix.Openat(p.dirfd, p.base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		})
		if err != nil {
			return err
		}
		defer closeFD(fd)
		// A directory inherits the set-group-id bit of its parent.
		if err := unix.Fchmod(fd, uint32(mode)|st.Mode&unix.S_ISGID); err != nil {
			return err
		}
	}
	if sync {
		return p.sync()
	}
	return nil
}

// mkdirParents creates the missing parents of name.
func (s system) mkdirParents(name string, sync bool) error {
	dir, _ := splitName(name)
	if dir == "." {
		return nil
	}
	if err := s.checkDir(dir); !errors.Is(err, unix.ENOENT) {
		return err
	}
	if err := s.mkdirParents(dir, sync); err != nil {
		return err
	}
	p, err := s.openParent(dir)
	if err != nil {
		return err
	}
	defer p.close()
	if err := p.mkdir(0o755, sync); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	return nil
}

func (s system) rename(from, to cleanName, o *driver.RenameOptions, sync bool) error {
	if o.Parents {
		if err := s.mkdirParents(to.name, sync); err != nil {
			return err
		}
	}
	f, err := s.openParent(from.name)
	if err != nil {
		return err
	}
	defer f.close()
	t, err := s.openParent(to.name)
	if err != nil {
		return err
	}
	defer t.close()
	for _, p := range []atPath{f, t} {
		if err := s.mayReplace(p); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	// With a trailing slash the kernel requires a directory.
	fbase, tbase := f.base+trailingSlash(from), t.base+trailingSlash(to)
	var flags uint
	if o.CreateOnly {
		flags = unix.RENAME_NOREPLACE
	}
	if _, err := retry(func() (int, error) { return 0, unix.Renameat2(f.dirfd, fbase, t.dirfd, tbase, flags) }); err != nil {
		return err
	}
	if sync {
		return errors.Join(f.sync(), t.sync())
	}
	return nil
}

func trailingSlash(t cleanName) string {
	if t.mustBeDir {
		return "/"
	}
	return ""
}

// chmod changes the mode of this name only: a file with more hard links, which may be
// outside the root, is replaced by a copy first, as in Write.
func (s system) chmod(ctx context.Context, t cleanName, mode fs.FileMode, sync bool) error {
	flags := unix.O_PATH
	if t.mustBeDir {
		flags |= unix.O_DIRECTORY
	}
	fd, err := s.open(t.name, flags)
	if err != nil {
		return err
	}
	defer closeFD(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if k := st.Mode & unix.S_IFMT; k != unix.S_IFREG && k != unix.S_IFDIR {
		return errNotRegular
	}
	if st.Mode&unix.S_IFMT == unix.S_IFREG && st.Nlink > 1 {
		if err := s.breakHardLinks(ctx, t, sync); err != nil {
			return err
		}
		return s.chmod(ctx, t, mode, sync)
	}
	err = chmodPath(fd, uint32(mode))
	if err == nil && sync {
		err = s.syncFile(t)
	}
	return err
}

// chmodPath is fchmod for an O_PATH descriptor.
func chmodPath(fd int, mode uint32) error {
	err := unix.Fchmodat(fd, "", mode, unix.AT_EMPTY_PATH)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL) {
		// Before Linux 6.6, only /proc/self/fd gives access to the file of an O_PATH descriptor.
		err = unix.Chmod(procPath(fd), mode)
	}
	return err
}

// breakHardLinks replaces a file by a copy that has no other links.
func (s system) breakHardLinks(ctx context.Context, t cleanName, sync bool) error {
	body, info, err := s.read(t, new(driver.ReadOptions))
	if err != nil {
		return err
	}
	defer body.Close()
	_, err = s.write(ctx, t.name, body, &driver.WriteOptions{Sync: sync, ModTime: info.ModTime})
	return err
}

// procPath returns the path of an open descriptor in /proc.
func procPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

func (s system) syncFile(t cleanName) error {
	fd, err := s.open(t.name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return err
	}
	defer closeFD(fd)
	return fsync(fd)
}

func (s system) symlink(dest, name string, sync bool) error {
	dir, _ := splitName(name)
	if err := s.checkStaysInside(dir, dest); err != nil {
		return err
	}
	return s.symlinkUnchecked(dest, name, sync)
}

// symlinkUnchecked creates a symlink with any target.
func (s system) symlinkUnchecked(dest, name string, sync bool) error {
	p, err := s.openParent(name)
	if err != nil {
		return err
	}
	defer p.close()
	if _, err := retry(func() (int, error) { return 0, unix.Symlinkat(dest, p.dirfd, p.base) }); err != nil {
		return err
	}
	if sync {
		return p.sync()
	}
	return nil
}

// checkStaysInside resolves dest from dir as far as it exists, because dir may contain
// symlinks, after which ".." differs from its lexical meaning. All elements before the last
// ".." must be directories.
func (s system) checkStaysInside(dir, dest string) error {
	elems := strings.Split(dest, "/")
	at := dir
	for i, elem := range elems {
		at += "/" + elem
		if len(at) > maxName {
			return fmt.Errorf("%w: the target is too long", fault.InvalidArgument)
		}
		flags, back := unix.O_PATH, slices.Contains(elems[i+1:], "..")
		if back {
			flags |= unix.O_DIRECTORY | unix.O_NOFOLLOW
		}
		fd, err := s.open(at, flags)
		switch {
		case err == nil:
			closeFD(fd)
		case back && (errors.Is(err, unix.ENOENT) || errors.Is(err, errNotDir)):
			return errDotDotTarget
		case errors.Is(err, unix.ENOENT):
			return nil
		default:
			return err
		}
	}
	return nil
}

// sameFile reports whether two names are the same inode.
func (s system) sameFile(a, b string) (bool, error) {
	var st [2]unix.Stat_t
	for i, name := range []string{a, b} {
		fd, err := s.open(name, unix.O_PATH)
		if err != nil {
			return false, err
		}
		err = unix.Fstat(fd, &st[i])
		closeFD(fd)
		if err != nil {
			return false, err
		}
	}
	return st[0].Dev == st[1].Dev && st[0].Ino == st[1].Ino, nil
}
