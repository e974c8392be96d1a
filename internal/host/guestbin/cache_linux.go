package guestbin

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/atomicfile"
)

// FindCached is Find, and keeps a copy of the embedded program in the directory cache, from
// which later processes read it instead of decompressing it. No other user may write to the
// directory, and no workspace may see it. A copy belongs to one build of this program. What
// is executed is a sealed memfd as with Find. A copy that can't be used is made again.
func FindCached(path, cache string) (*Binary, error) {
	if path != "" || cache == "" {
		return Find(path)
	}
	name, err := copyName(cache)
	if err != nil {
		return Find("")
	}
	if b, err := readCopy(name); err == nil {
		return b, nil
	}
	b, err := Find("")
	if err == nil && b.From == fromEmbedded {
		_ = writeCopy(name, b.Path) // the next process decompresses it, too
	}
	return b, err
}

// copyName returns the path of the copy, which has the version of the running program.
func copyName(cache string) (string, error) {
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		return "", err
	}
	defer f.Close()
	id := buildID(f)
	if id == "" { // a digest of the program takes longer than decompressing
		return "", fmt.Errorf("%s: %w: this program has no build ID", Name, fault.Unsupported)
	}
	version, err := contentVersion(f, 0)
	return filepath.Join(cache, Name+"-"+version), err
}

func readCopy(name string) (*Binary, error) {
	f, err := OpenOwned(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if buildID(f) == "" {
		return nil, fmt.Errorf("%s: %w: it is damaged", name, fault.Failed)
	}
	path, err := writeMemfd(f)
	if err != nil {
		return nil, err
	}
	return openBinary(path, fromEmbedded)
}

// writeCopy writes the program at path to name, and removes the copies of other builds.
func writeCopy(name, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	old, err := filepath.Glob(filepath.Join(filepath.Dir(name), Name+"-*"))
	if err != nil {
		return err
	}
	// After a power loss the file is complete, or does not exist.
	err = atomicfile.WriteTo(name, atomicfile.Options{Durable: true}, func(w io.Writer) error {
		_, err := io.Copy(w, f)
		return err
	})
	if err != nil {
		return err
	}
	for _, other := range old {
		if other != name {
			_ = os.Remove(other) // the next build tries again
		}
	}
	return nil
}

// OpenOwned opens a regular file that only this process's user can have written.
func OpenOwned(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok || !info.Mode().IsRegular() || info.Mode()&0o022 != 0 || int(st.Uid) != os.Geteuid() {
			err = fmt.Errorf("%s: %w: another user may have written it", name, fault.PermissionDenied)
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
