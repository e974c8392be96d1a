package boundary

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

func (s system) remove(ctx context.Context, t target, o *driver.RemoveOptions, sync bool) error {
	p, err := s.parent(t.name)
	if err != nil {
		return err
	}
	defer p.close()
	if t.dir {
		err = unix.EISDIR
	} else {
		err = unlink(p.fd, p.base, 0)
	}
	if errors.Is(err, unix.EISDIR) {
		if o.Recursive {
			err = removeTree(ctx, p)
		} else {
			err = removeEmpty(ctx, p)
		}
	}
	if err == nil && sync {
		err = p.sync()
	}
	return err
}

func unlink(fd int, base string, flags int) error {
	_, err := retry(func() (int, error) { return 0, unix.Unlinkat(fd, base, flags) })
	return err
}

// removeEmpty removes a directory that has nothing but what a crash left.
func removeEmpty(ctx context.Context, p place) error {
	err := unlink(p.fd, p.base, unix.AT_REMOVEDIR)
	switch {
	case errors.Is(err, unix.ENOTDIR):
		return errNotDir
	case !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EEXIST):
		return err
	}
	full := fmt.Errorf("%w: the directory is not empty; removing it with all below it has to be asked for", fault.AlreadyExists)
	fd, err := openDirAt(p.fd, p.base)
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
	if unlink(p.fd, p.base, unix.AT_REMOVEDIR) != nil {
		return full
	}
	return nil
}

// openDirAt opens a directory in a directory and follows nothing.
func openDirAt(fd int, base string) (int, error) {
	return retry(func() (int, error) {
		return unix.Openat(fd, base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
}

// maxOpenDirs bounds how many descriptors removeTree holds. What is deeper is
// moved up to the top of the tree first, so any depth can be removed.
const maxOpenDirs = 64

// removeTree removes a directory with all below it.
func removeTree(ctx context.Context, p place) error {
	top, err := openDirAt(p.fd, p.base)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return errNotDir
	}
	if err != nil {
		return err
	}
	defer closeFD(top)
	for again := true; again; {
		again = false
		if err := emptyDir(ctx, top, top, 0, &again); err != nil {
			return err
		}
	}
	return unlink(p.fd, p.base, unix.AT_REMOVEDIR)
}

// emptyDir removes all that is in a directory. moved tells that something was
// moved to top and is still to be removed.
func emptyDir(ctx context.Context, top, fd, depth int, moved *bool) error {
	var names []string
	buf := make([]byte, 32<<10)
	if err := eachEntry(fd, buf, func(name []byte, _ byte) { names = append(names, string(name)) }); err != nil {
		return err
	}
	if fd == top { // read again from the start, in the next round
		if _, err := unix.Seek(top, 0, 0); err != nil {
			return err
		}
	}
	for _, base := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := unlink(fd, base, 0)
		if errors.Is(err, unix.EISDIR) {
			err = removeBelow(ctx, top, fd, base, depth+1, moved)
		}
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	return nil
}

func removeBelow(ctx context.Context, top, fd int, base string, depth int, moved *bool) error {
	if depth > maxOpenDirs {
		*moved = true
		return unix.Renameat(fd, base, top, tempName())
	}
	sub, err := openDirAt(fd, base)
	if err != nil {
		return err
	}
	err = emptyDir(ctx, top, sub, depth, moved)
	closeFD(sub)
	if err != nil {
		return err
	}
	return unlink(fd, base, unix.AT_REMOVEDIR)
}

// cleanTemps removes temporary files that nobody writes from the whole tree.
func (s system) cleanTemps(ctx context.Context) error {
	var visit func(name string) error
	visit = func(name string) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		fd, err := s.resolve(name, unix.O_RDONLY|unix.O_DIRECTORY, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS)
		if err != nil {
			return nil // it went, or is not ours to read
		}
		defer closeFD(fd)
		if err := removeTemps(ctx, fd); err != nil {
			return err
		}
		if _, err := unix.Seek(fd, 0, 0); err != nil {
			return err
		}
		var dirs []string
		buf := make([]byte, 32<<10)
		if err := eachEntry(fd, buf, func(base []byte, typ byte) {
			if typ == unix.DT_DIR || typ == unix.DT_UNKNOWN {
				dirs = append(dirs, string(base))
			}
		}); err != nil {
			return err
		}
		for _, base := range dirs {
			if err := visit(join(name, base)); err != nil {
				return err
			}
		}
		return nil
	}
	return visit(".")
}

// removeTemps removes the temporary files of one directory that nobody has
// locked.
func removeTemps(ctx context.Context, fd int) error {
	if _, err := unix.Seek(fd, 0, 0); err != nil {
		return err
	}
	var temps []string
	buf := make([]byte, 32<<10)
	if err := eachEntry(fd, buf, func(base []byte, _ byte) {
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

// removeStale removes a temporary file unless its writer lives. It holds the
// lock meanwhile, so that a writer who comes to lock the file finds it gone.
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
	isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR // a tree that was being imported
	if !isDir && regular(&st) != nil || unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) != nil {
		return
	}
	// Another cleaner may have been faster, and what is left is there the next time.
	if isDir {
		_ = removeTree(context.WithoutCancel(ctx), place{fd: dir, base: base})
		return
	}
	_ = unlink(dir, base, 0)
}
