package files

import (
	"fmt"
	"path/filepath"

	"github.com/croft-run/croft/fault"
)

// An Identity tells a directory from every other one that exists at the same
// time. A path does not: another directory may come to be there. The number of a
// device may change when the host starts anew or the file system is mounted
// again, and that of an inode is used again when the directory is gone.
type Identity struct{ Dev, Ino uint64 }

var errSymlinkInPath = fmt.Errorf("%w: the path leads through a symlink", fault.SandboxViolation)

// Identify returns the identity of the directory at a path. Where any element of
// the path is a symlink, that is fault.SandboxViolation.
func Identify(dir string) (Identity, error) {
	is, err := identifyDir(dir)
	return is, opError("identify", dir, err)
}

// Lineage returns the identities of the directory at a path and of all above it, up
// to the root of the host. Where any element of the path is a symlink, that is
// fault.SandboxViolation.
func Lineage(dir string) ([]Identity, error) {
	line, err := dirLineage(dir)
	return line, opError("identify", dir, err)
}

// lineageByPath is lineage by the path of each directory.
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

// Identity returns the identity of the root's directory, wherever that is now.
func (r *Root) Identity() (Identity, error) {
	if !r.acquire() {
		return Identity{}, opError("identify", ".", ErrClosed)
	}
	defer r.endCall()
	is, err := r.sys.dirIdentity()
	return is, opError("identify", ".", err)
}

// Resolve is where a path of the host leads: with the symlinks followed of as much of
// it as is there.
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
