package plot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"time"

	"github.com/croft-run/croft/workspace/driver"
)

// RemoveTree removes a directory with all below it, also where modes forbid it,
// where it is deeper than this process may have files open, and where a call that
// is under way in another process adds to it.
func RemoveTree(dir string) error {
	const patience = 10 * time.Second
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		err := removeTree(dir)
		if !errors.Is(err, fs.ErrExist) || time.Now().After(end) { // which is what a directory says that is not empty
			return err
		}
	}
}

func removeTree(dir string) error {
	err := os.Remove(dir)
	if present(err) == nil {
		return nil
	}
	info, lerr := os.Lstat(dir)
	switch {
	case lerr != nil:
		return present(lerr)
	case !info.IsDir():
		return err
	case info.Mode().Perm()&usable != usable:
		if err := os.Chmod(dir, usable); err != nil {
			return present(err)
		}
	}
	top, err := os.OpenRoot(dir)
	if err != nil {
		return present(err)
	}
	defer top.Close() //nolint:errcheck // nothing is written through it
	r := &remover{top: top, name: ".removed-" + driver.NewID()}
	err = r.empty(top, ".", 0)
	for err == nil && len(r.moved) > 0 {
		last := len(r.moved) - 1
		name := r.moved[last]
		r.moved = r.moved[:last]
		err = r.remove(top, name, name, 0)
	}
	if err != nil {
		return err
	}
	return present(os.Remove(dir))
}

// present is nil for an error that says that something is gone: another process
// removes the same.
func present(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// usable is the mode of a directory that can be emptied.
const usable = 0o700

// deepest is how far down directories are emptied where they are, each with a
// descriptor. Those below are moved to the top first.
const deepest = 64

// A remover empties a directory. Nobody else is in it but by mistake.
type remover struct {
	top   *os.Root
	name  string   // of what is moved there, with a number
	count int      // of those
	moved []string // that are still there
}

// empty removes what is in a directory, which lies at a path below the top and is
// usable.
func (r *remover) empty(d *os.Root, at string, depth int) error {
	f, err := d.Open(".")
	if err != nil {
		return present(err)
	}
	entries, err := f.ReadDir(-1)
	f.Close()
	if present(err) != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() {
			err = present(d.Remove(e.Name()))
		} else if err = open(d, e); err == nil {
			err = r.remove(d, e.Name(), path.Join(at, e.Name()), depth)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// open makes a directory usable that is not.
func open(d *os.Root, e fs.DirEntry) error {
	info, err := e.Info()
	if err == nil && info.Mode().Perm()&usable != usable {
		err = d.Chmod(e.Name(), usable)
	}
	return present(err)
}

// remove removes the directory of a name, which lies at a path below the top.
func (r *remover) remove(d *os.Root, name, at string, depth int) error {
	if depth >= deepest {
		return r.moveUp(d, name, at)
	}
	sub, err := d.OpenRoot(name)
	if err != nil {
		return present(err)
	}
	err = r.empty(sub, at, depth+1)
	if err = errors.Join(err, sub.Close()); err != nil {
		return err
	}
	return present(d.Remove(name))
}

// moveUp takes a directory to the top, where its turn comes later.
func (r *remover) moveUp(d *os.Root, name, at string) error {
	if present(d.Remove(name)) == nil {
		return nil
	}
	r.count++
	to := fmt.Sprintf("%s-%d", r.name, r.count)
	if err := r.top.Rename(at, to); err != nil {
		return present(err)
	}
	r.moved = append(r.moved, to)
	return nil
}
