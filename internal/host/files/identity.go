package files

import (
	"fmt"
	"path/filepath"

	"github.com/croft-run/croft/fault"
)

// An Identity is the device and inode number of a directory: it differs from that of every
// other directory that exists at the same time. The device number may change at a reboot or
// a new mount; an inode number may be reused after the directory is removed.
type Identity struct{ Dev, Ino uint64 }

var errSymlinkInPath = fmt.Errorf("%w: the path has a symlink", fault.SandboxViolation)

// Identify returns the identity of the directory at a path. If any element of the path is a
// symlink, the error is fault.SandboxViolation.
func Identify(dir string) (Identity, error) {
	is, err := identifyDir(dir)
	return is, opError("identify", dir, err)
}

// Lineage returns the identities of the directory at a path and of all its ancestors, up to
// the root of the host. If any element of the path is a symlink, the error is
// fault.SandboxViolation.
func Lineage(dir string) ([]Identity, error) {
	line, err := dirLineage(dir)
	return line, opError("identify", dir, err)
}

// lineageByPath is dirLineage by the path of each ancestor.
func lineageByPath(dir string) ([]Identity, error) {
	var line []Identity
	for at := dir; ; at = filepath.Dir(at) {
		is, err := identifyDir(at)
		if err != nil {
			return nil, err
		}
		line = append(line, is)
		if at == filepath.Dir(at) {
			return line, nil
		}
	}
}

// Identity returns the identity of the root's directory, also after it was renamed.
func (r *Root) Identity() (Identity, error) {
	if !r.acquire() {
		return Identity{}, opError("identify", ".", ErrClosed)
	}
	defer r.endCall()
	is, err := r.sys.dirIdentity()
	return is, opError("identify", ".", err)
}

// Resolve returns a path of the host with symlinks followed in the part of it that exists.
func Resolve(path string) string {
	path = filepath.Clean(path)
	for dir, rest := path, ""; ; dir, rest = filepath.Dir(dir), filepath.Join(filepath.Base(dir), rest) {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(real, rest)
		}
		if dir == filepath.Dir(dir) {
			return path
		}
	}
}
