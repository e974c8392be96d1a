package protect

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
)

// A placeholder is a file or directory that is created where Git would read one.
type placeholder struct {
	name    string
	content string // of a file
	dir     bool
}

// The content of commondir names the directory itself, which is the default.
var placeholders = []placeholder{{name: "commondir", content: ".\n"}, {name: "config"}, {name: "hooks", dir: true}}

// reservePlaceholder adds a file that Git reads, and creates it if it does not exist. The
// guest holds a flock on what was created, as long as it lives.
func (p *protection) reservePlaceholder(dir string, h placeholder) error {
	if p.late {
		return nil
	}
	name := path.Join(dir, h.name)
	err := p.createPlaceholder(dir, name, h)
	switch {
	case errors.Is(err, os.ErrExist):
		if p.isOurPlaceholder(name, h) {
			p.made = append(p.made, name)
		}
	case errors.Is(err, os.ErrPermission), errors.Is(err, syscall.EROFS):
		return nil // the workload can't create it either
	case err != nil:
		return fmt.Errorf("reserve %s: %w: %w", name, fault.Of(err), err)
	default:
		p.made = append(p.made, name)
	}
	if info, err := p.root.Lstat(name); err != nil || info.Mode()&os.ModeSymlink != 0 {
		return fmt.Errorf("%s is a symlink, and can't be made read-only: %w", name, fault.Unsupported)
	}
	if len(p.made) > 0 && p.made[len(p.made)-1] == name {
		if err := p.lockPlaceholder(name); err != nil {
			return err
		}
	}
	p.addReadOnly(name)
	return nil
}

func (p *protection) createPlaceholder(dir, name string, h placeholder) error {
	if h.dir {
		if err := p.root.Mkdir(name, 0o755); err != nil {
			return err
		}
	} else {
		f, err := p.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		_, err = f.WriteString(h.content)
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	info, err := p.root.Stat(path.Clean(dir))
	if err != nil {
		return err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && os.Geteuid() == 0 {
		return p.root.Lchown(name, int(st.Uid), int(st.Gid))
	}
	return nil
}

// isOurPlaceholder reports whether an existing file is a placeholder of this or another
// guest.
func (p *protection) isOurPlaceholder(name string, h placeholder) bool {
	if h.dir || h.content == "" {
		return false // it could be an empty one of the user
	}
	return string(p.readFile(name, int64(len(h.content))+1)) == h.content
}

// lockPlaceholder passes a shared flock on a placeholder to the guest, which shows other
// processes that the placeholder is in use.
func (p *protection) lockPlaceholder(name string) error {
	f, err := p.root.Open(name)
	if err != nil {
		return fmt.Errorf("reserve %s: %w: %w", name, fault.Of(err), err)
	}
	p.keep(f)
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
		return fmt.Errorf("reserve %s: %w: %w", name, fault.Unavailable, err)
	}
	return nil
}

// RemovePlaceholders removes placeholders that no guest uses and whose content is unchanged.
func RemovePlaceholders(made []string) error {
	var errs []error
	for _, name := range made {
		if err := removePlaceholder(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, fmt.Errorf("remove the placeholder %s: %w: %w", name, fault.Of(err), err))
		}
	}
	return errors.Join(errs...)
}

func removePlaceholder(name string) error {
	i := slices.IndexFunc(placeholders, func(h placeholder) bool { return h.name == filepath.Base(name) })
	h := placeholder{name: filepath.Base(name)}
	if i >= 0 {
		h = placeholders[i]
	}
	// os.OpenRoot keeps the removal inside the directory, even if it was replaced since.
	root, err := os.OpenRoot(filepath.Dir(name))
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // closing a directory can lose nothing
	info, err := root.Lstat(h.name)
	if err != nil || i >= 0 && info.IsDir() != h.dir || !info.IsDir() && !info.Mode().IsRegular() {
		return err
	}
	h.dir = info.IsDir()
	f, err := root.OpenFile(h.name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return nil // another guest uses it
	}
	if !h.dir {
		if data, err := io.ReadAll(io.LimitReader(f, 16)); err != nil || string(data) != h.content {
			return err
		}
	}
	err = root.Remove(h.name)
	if errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.EEXIST) {
		return nil // the user has put files into it
	}
	return err
}
