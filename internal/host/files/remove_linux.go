package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

func (s system) remove(ctx context.Context, t cleanName, o *driver.RemoveOptions, sync bool) error {
	p, err := s.openParent(t.name)
	if err != nil {
		return err
	}
	defer p.close()
	if t.mustBeDir {
		err = unix.EISDIR
	} else {
		err = s.unlink(p.dirfd, p.base, 0)
	}
	if errors.Is(err, unix.EISDIR) {
		if o.Recursive {
			r := remover{stopped: ctx.Err, sys: s}
			err = r.remove(p)
		} else {
			err = s.removeEmpty(ctx, p)
		}
	}
	if err == nil && sync {
		err = p.sync()
	}
	return err
}

// unlink is unlink with the check of KeepMounts.
func (s system) unlink(fd int, base string, flags int) error {
	if err := s.mayReplace(atPath{dirfd: fd, base: base}); err != nil {
		return err
	}
	return unlink(fd, base, flags)
}

func unlink(fd int, base string, flags int) error {
	_, err := retry(func() (int, error) { return 0, unix.Unlinkat(fd, base, flags) })
	return err
}

// removeEmpty removes a directory that has no entries besides stale temporary files.
func (s system) removeEmpty(ctx context.Context, p atPath) error {
	err := s.unlink(p.dirfd, p.base, unix.AT_REMOVEDIR)
	switch {
	case errors.Is(err, unix.ENOTDIR):
		return errNotDir
	case !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EEXIST):
		return err
	}
	full := fmt.Errorf("%w: the directory is not empty; set Recursive to remove a tree", fault.AlreadyExists)
	fd, err := openDirAt(p.dirfd, p.base)
	if err != nil {
		return err
	}
	defer closeFD(fd)
	if names, err := readNames(fd); err != nil || len(names) > 0 {
		return errors.Join(full, err)
	}
	if err := removeTemps(ctx, fd); err != nil {
		return err
	}
	if s.unlink(p.dirfd, p.base, unix.AT_REMOVEDIR) != nil {
		return full
	}
	return nil
}

// openDirAt opens a directory in a directory without following a symlink.
func openDirAt(fd int, base string) (int, error) {
	return retry(func() (int, error) {
		return unix.Openat(fd, base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
}

// maxOpenDirs bounds the descriptors of a remover. Deeper directories are moved to the top
// of the tree first, so that trees of any depth can be removed.
const maxOpenDirs = 64

// removeTree removes a directory with all below it.
func removeTree(ctx context.Context, p atPath) error {
	r := remover{stopped: ctx.Err}
	return r.remove(p)
}

// forceRemove removes a path of the host and all below it.
func forceRemove(path string) error {
	p := atPath{dirfd: unix.AT_FDCWD, base: path}
	err := unlink(p.dirfd, p.base, 0)
	if errors.Is(err, unix.EISDIR) {
		r := remover{stopped: func() error { return nil }, force: true}
		err = r.remove(p)
	}
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return &fs.PathError{Op: "remove", Path: path, Err: err}
}

// A remover removes one tree.
type remover struct {
	stopped func() error // returns an error when the removal is cancelled
	sys     system       // for KeepMounts
	force   bool         // changes modes of directories that prevent the removal
	top     int          // the directory at the top of the tree
	moved   bool         // a directory was moved to top and is not removed yet
}

func (r *remover) remove(p atPath) (err error) {
	r.top, err = r.openDir(p.dirfd, p.base)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return errNotDir
	}
	if err != nil {
		return err
	}
	defer closeFD(r.top)
	for r.moved = true; r.moved; {
		r.moved = false
		if err := r.removeEntries(r.top, 0); err != nil {
			return err
		}
	}
	return r.sys.unlink(p.dirfd, p.base, unix.AT_REMOVEDIR)
}

// openDir opens a directory for removal of its entries.
func (r *remover) openDir(at int, base string) (int, error) {
	fd, err := openDirAt(at, base)
	if !r.force {
		return fd, err
	}
	const usable = 0o700
	if errors.Is(err, unix.EACCES) {
		closed, err := retry(func() (int, error) {
			return unix.Openat(at, base, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		})
		if err != nil {
			return -1, err
		}
		defer closeFD(closed)
		if err := chmodPath(closed, usable); err != nil {
			return -1, err
		}
		return openDirAt(at, base)
	}
	var st unix.Stat_t
	if err == nil && unix.Fstat(fd, &st) == nil && st.Mode&usable != usable {
		_ = unix.Fchmod(fd, usable) // the removal of the entries reports an error
	}
	return fd, err
}

// removeEntries removes all entries of a directory, which is depth levels below the top.
func (r *remover) removeEntries(fd, depth int) error {
	var names []string
	if err := EachEntry(fd, func(name []byte, _ byte) { names = append(names, string(name)) }); err != nil {
		return err
	}
	if fd == r.top { // the next round reads it from the start
		if _, err := unix.Seek(fd, 0, 0); err != nil {
			return err
		}
	}
	for _, base := range names {
		if err := r.stopped(); err != nil {
			return err
		}
		err := r.sys.unlink(fd, base, 0)
		if errors.Is(err, unix.EISDIR) {
			err = r.removeSubdir(fd, base, depth+1)
		}
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	return nil
}

func (r *remover) removeSubdir(fd int, base string, depth int) error {
	if depth > maxOpenDirs {
		if err := r.sys.mayReplace(atPath{dirfd: fd, base: base}); err != nil {
			return err
		}
		r.moved = true
		return unix.Renameat(fd, base, r.top, tempName())
	}
	sub, err := r.openDir(fd, base)
	if err != nil {
		return err
	}
	err = r.removeEntries(sub, depth)
	closeFD(sub)
	if err != nil {
		return err
	}
	return r.sys.unlink(fd, base, unix.AT_REMOVEDIR)
}

// cleanTemps removes unlocked temporary files from the whole tree.
func (s system) cleanTemps(ctx context.Context) error {
	var visit func(name string) error
	visit = func(name string) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		fd, err := s.openDirBelow(name)
		if err != nil {
			return nil // removed meanwhile, or not readable
		}
		defer closeFD(fd)
		if err := removeTemps(ctx, fd); err != nil {
			return err
		}
		if _, err := unix.Seek(fd, 0, 0); err != nil {
			return err
		}
		var dirs []string
		if err := EachEntry(fd, func(base []byte, typ byte) {
			if typ == unix.DT_DIR || typ == unix.DT_UNKNOWN {
				dirs = append(dirs, string(base))
			}
		}); err != nil {
			return err
		}
		for _, base := range dirs {
			if err := visit(joinName(name, base)); err != nil {
				return err
			}
		}
		return nil
	}
	return visit(".")
}

// removeTemps removes the unlocked temporary files of one directory.
func removeTemps(ctx context.Context, fd int) error {
	if _, err := unix.Seek(fd, 0, 0); err != nil {
		return err
	}
	var temps []string
	if err := EachEntry(fd, func(base []byte, _ byte) {
		if IsTemp(string(base)) {
			temps = append(temps, string(base))
		}
	}); err != nil {
		return err
	}
	for _, base := range temps {
		removeStale(ctx, fd, base)
	}
	return nil
}

// removeStale removes a temporary file or directory unless its writer holds the flock. It
// holds the flock meanwhile, so that lockTemp of a new writer finds the file removed.
func removeStale(ctx context.Context, dir int, base string) {
	fd, err := retry(func() (int, error) {
		return unix.Openat(dir, base, openFlags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return
	}
	defer closeFD(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return
	}
	isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR // an unfinished import
	if !isDir && checkRegular(&st) != nil || unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) != nil {
		return
	}
	// Errors are ignored: another process may remove it too, and the next cleaning retries.
	if isDir {
		_ = removeTree(context.WithoutCancel(ctx), atPath{dirfd: dir, base: base})
		return
	}
	_ = unlink(dir, base, 0)
}
