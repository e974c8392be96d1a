package files

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLinks is the number of symlinks that one path may lead through, as in the kernel.
const maxLinks = 40

// walkBeneath emulates openat2 for kernels without it, such as gVisor's. It opens element
// by element through descriptors and follows a symlink only by reading its text. Whatever
// is renamed meanwhile, each element is looked up in a directory that was reached from the
// root, and ".." returns to the descriptor of the parent. As with openat2, EAGAIN means
// that the path changed during the walk.
func (s system) walkBeneath(name string, flags int, how uint64) (int, error) {
	w := beneathWalk{dirs: []int{s.fd}, todo: strings.Split(name, "/"), flags: flags, how: how}
	defer w.close()
	return w.run()
}

// beneathWalk is the state of one walkBeneath.
type beneathWalk struct {
	dirs  []int // from the root, which the caller closes, to the current directory
	todo  []string
	flags int
	how   uint64
	links int
}

func (w *beneathWalk) close() {
	for _, fd := range w.dirs[1:] {
		closeFD(fd)
	}
}

func (w *beneathWalk) run() (int, error) {
	for len(w.todo) > 0 {
		elem := w.todo[0]
		w.todo = w.todo[1:]
		switch elem {
		case "", ".":
			continue
		case "..":
			last := len(w.dirs) - 1
			if last == 0 {
				return -1, unix.EXDEV
			}
			closeFD(w.dirs[last])
			w.dirs = w.dirs[:last]
			continue
		}
		if fd, err := w.openElem(elem); fd >= 0 || err != nil {
			return fd, err
		}
	}
	return w.openat(".", w.flags&^unix.O_NOFOLLOW)
}

func (w *beneathWalk) openat(elem string, flags int) (int, error) {
	return retry(func() (int, error) { return unix.Openat(w.dirs[len(w.dirs)-1], elem, flags|unix.O_CLOEXEC, 0) })
}

// openElem opens the next element. A result other than -1 ends the walk.
func (w *beneathWalk) openElem(elem string) (int, error) {
	fd, err := w.openat(elem, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		closeFD(fd)
		return -1, err
	}
	last := len(w.todo) == 0
	switch typ := st.Mode & unix.S_IFMT; {
	case typ == unix.S_IFLNK && (!last || w.flags&unix.O_NOFOLLOW == 0):
		closeFD(fd)
		return -1, w.followSymlink(elem)
	case !last && typ == unix.S_IFDIR:
		w.dirs = append(w.dirs, fd)
		return -1, nil
	case !last:
		closeFD(fd)
		return -1, unix.ENOTDIR
	}
	closeFD(fd)
	end, err := w.openat(elem, w.flags|unix.O_NOFOLLOW)
	if errors.Is(err, unix.ELOOP) && w.flags&unix.O_NOFOLLOW == 0 {
		return -1, unix.EAGAIN // it was replaced by a symlink
	}
	return end, err
}

// followSymlink inserts the elements of a symlink before the remaining ones.
func (w *beneathWalk) followSymlink(elem string) error {
	if w.links++; w.links > maxLinks || w.how&unix.RESOLVE_NO_SYMLINKS != 0 {
		return unix.ELOOP
	}
	text := make([]byte, unix.PathMax)
	n, err := retry(func() (int, error) { return unix.Readlinkat(w.dirs[len(w.dirs)-1], elem, text) })
	switch {
	case errors.Is(err, unix.EINVAL):
		return unix.EAGAIN // it was replaced
	case err != nil:
		return err
	case text[0] == '/':
		return unix.EXDEV
	}
	w.todo = append(strings.Split(string(text[:n]), "/"), w.todo...)
	return nil
}
