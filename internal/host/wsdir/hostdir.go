package wsdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/internal/paths"
)

// An Identity identifies a directory in place by inode, so that another directory at the
// same path later is not mistaken for it.
type Identity struct {
	Dev  uint64 `json:"dev"`
	Ino  uint64 `json:"ino"`
	Boot string `json:"boot,omitempty"` // Dev is valid during this boot only
}

// sameDir reports whether now is the identified directory.
func (i *Identity) sameDir(now files.Identity, boot string) bool {
	return i.Ino == now.Ino && (i.Dev == now.Dev || i.Boot != boot)
}

// hasValidDir reports whether the fields of a directory in place are consistent.
func (m *State) hasValidDir() bool {
	if m.Dir == "" {
		return m.Real == "" && m.Is == nil
	}
	return filepath.IsAbs(m.Real) && m.Is != nil
}

// errForbiddenDir refuses a directory that may not be a workspace.
var errForbiddenDir = fault.Advise(fmt.Errorf("%w: it contains or belongs to other workspaces or the data of Croft", fault.InvalidArgument),
	"choose another directory")

// CheckHost checks a directory of the host that a workspace is to use, and returns its path
// without symlinks.
func (s *Store) CheckHost(dir string) (real string, err error) {
	real, _, err = s.checkDir(dir)
	return real, err
}

// CheckHostPath checks a path of the host that commands of a workspace may write to, which may
// be a file or not exist yet, and returns it without symlinks.
func (s *Store) CheckHostPath(path string) (real string, err error) {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path {
		return "", fmt.Errorf("path %q: %w: it must be absolute and clean", path, fault.InvalidArgument)
	}
	if real, err = nearestReal(path); err == nil {
		err = s.checkRoots(real)
	}
	for _, dir := range s.forbidden {
		at, ferr := nearestReal(dir)
		if err == nil {
			err = ferr
		}
		if err == nil && (paths.Inside(at, real) || paths.Inside(real, at)) {
			err = errForbiddenDir
		}
	}
	if err != nil {
		return "", fmt.Errorf("path %q: %w", path, err)
	}
	return real, nil
}

// nearestReal resolves the symlinks of a path up to its nearest ancestor that exists.
func nearestReal(path string) (string, error) {
	rest := ""
	for at := path; ; at = filepath.Dir(at) {
		real, err := filepath.EvalSymlinks(at)
		if errors.Is(err, fs.ErrNotExist) && at != filepath.Dir(at) {
			rest = filepath.Join(filepath.Base(at), rest)
			continue
		}
		return filepath.Join(real, rest), err
	}
}

// checkRoots refuses a path that lies in none of Config.Roots. The path has no symlinks.
func (s *Store) checkRoots(real string) error {
	if s.roots == nil {
		return nil
	}
	for _, root := range s.roots {
		at, err := filepath.EvalSymlinks(root)
		if err != nil {
			continue // a root that does not exist contains nothing
		}
		if paths.Inside(at, real) {
			return nil
		}
	}
	if len(s.roots) == 0 {
		return fault.WithHint(fmt.Errorf("%w: no directory of this host may be used", fault.PermissionDenied), fault.HintSetting, "host roots")
	}
	err := fmt.Errorf("%w: it is in none of the allowed directories: %s", fault.PermissionDenied, strings.Join(s.roots, ", "))
	return fault.WithHint(err, fault.HintSetting, "host roots")
}

// checkDir checks a directory to be used in place, and returns its path without symlinks
// and its identity.
func (s *Store) checkDir(dir string) (string, *Identity, error) {
	if !filepath.IsAbs(dir) {
		return "", nil, fmt.Errorf("directory %q: %w: it must be an absolute path", dir, fault.InvalidArgument)
	}
	real, above, err := resolveDir(dir)
	if err != nil {
		return "", nil, err
	}
	if err := s.checkRoots(real); err != nil {
		return "", nil, fmt.Errorf("directory %q: %w", dir, err)
	}
	is := above[0]
	if err := s.checkForbidden(real, is, above, true); err != nil {
		return "", nil, fmt.Errorf("directory %q: %w", dir, err)
	}
	return real, &Identity{Dev: is.Dev, Ino: is.Ino, Boot: s.boot}, nil
}

// resolveDir returns the path of a directory without symlinks, and its lineage: see
// files.Lineage.
func resolveDir(dir string) (real string, line []files.Identity, err error) {
	if dir == filepath.Clean(dir) { // "a/../b" may not be b
		if line, err := files.Lineage(dir); err == nil {
			return dir, line, nil // the path has no symlink
		}
	}
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil, fault.Advise(fmt.Errorf("%w: Workspace path does not exist: %s", fault.NotFound, dir), "give a directory that exists")
	}
	if err != nil {
		return "", nil, fmt.Errorf("directory %q: %w: %w", dir, fault.Of(err), err)
	}
	if !info.IsDir() {
		return "", nil, fault.Advise(fmt.Errorf("%w: Workspace path is not a directory: %s", fault.InvalidArgument, dir), "give a directory, not a file")
	}
	if real, err = filepath.EvalSymlinks(dir); err != nil {
		return "", nil, err
	}
	line, err = files.Lineage(real)
	return real, line, err
}

// checkForbidden refuses a directory that is a forbidden one, lies in one or contains one.
// It compares inodes and not names, so that a bind mount hides nothing. deep also finds a
// bind mount of a directory one level below a forbidden one. above is the lineage of the
// path.
func (s *Store) checkForbidden(real string, is files.Identity, above []files.Identity, deep bool) error {
	for _, dir := range s.forbidden {
		line, inside, err := nearestLineage(dir)
		if err != nil {
			return err
		}
		if slices.Contains(line, is) {
			return errForbiddenDir // it contains a forbidden directory, or is one
		}
		if !inside {
			continue
		}
		forbidden := line[:1]
		if deep && !files.SameMount(real, dir) { // within one mount, the lineage of a deeper directory contains dir
			forbidden = append(slices.Clone(forbidden), childIdentities(dir, s.deadPrefix)...)
		}
		if slices.ContainsFunc(above, func(a files.Identity) bool { return slices.Contains(forbidden, a) }) {
			return errForbiddenDir
		}
	}
	return nil
}

// nearestLineage returns the lineage of a directory or, with exists false, of its nearest
// ancestor that exists.
func nearestLineage(dir string) (line []files.Identity, exists bool, err error) {
	for at := dir; ; at = filepath.Dir(at) {
		real, err := filepath.EvalSymlinks(at)
		if errors.Is(err, fs.ErrNotExist) && at != filepath.Dir(at) {
			continue
		}
		if err == nil {
			line, err = files.Lineage(real)
		}
		return line, at == dir, err
	}
}

// childIdentities returns the identities of the directories in a directory, without those
// of dead workspaces and without those that can't be read.
func childIdentities(dir, dead string) []files.Identity {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil
	}
	entries, err := os.ReadDir(real)
	if err != nil {
		return nil
	}
	var all []files.Identity
	for _, e := range entries {
		if !e.IsDir() || strings.HasPrefix(e.Name(), dead) {
			continue
		}
		if is, err := files.Identify(filepath.Join(real, e.Name())); err == nil {
			all = append(all, is)
		}
	}
	return all
}

// openRoot opens the files of a workspace under the policy of m, and checks the identity of
// a directory in place.
func (h *Handle) openRoot(m *State) (*files.Root, error) {
	root, err := h.openFunc(h.dir, &files.Options{
		ReadOnly: m.Policy.ReadOnly, Sync: m.Policy.Durable, NoSymlinks: m.Dir != "", Commit: h.CommitGuard(m),
	})
	switch code := fault.Of(err); {
	case code == fault.NotFound:
		return nil, h.store.Gone()
	case code == fault.SandboxViolation:
		return nil, h.store.replacedError()
	case code == fault.InvalidArgument:
		return nil, fmt.Errorf("%w: the path of the workspace is not a directory", fault.Failed)
	case err != nil || m.Dir == "":
		return root, err
	}
	if err := h.checkIdentity(m, root); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return root, nil
}

// checkIdentity compares the opened directory with the identity in m.
func (h *Handle) checkIdentity(m *State, root *files.Root) error {
	is, err := root.Identity()
	if err != nil {
		return err
	}
	if !m.Is.sameDir(is, h.store.boot) {
		return h.store.replacedError()
	}
	above, err := files.Lineage(m.Real)
	if err == nil {
		err = h.store.checkForbidden(m.Real, is, above, false)
	}
	if err != nil {
		return fmt.Errorf("%w: the directory of the workspace now belongs to the data of Croft, or contains it", fault.Failed)
	}
	return nil
}

// replacedError is Gone for a workspace whose directory was replaced.
func (s *Store) replacedError() error {
	err := fmt.Errorf("%s: the directory of the workspace was replaced, or its path now has a symlink: %w", s.kind, fault.Failed)
	return fault.WithCause(err, fault.CauseGone)
}

// dirUnchanged reports whether the directory at the path of the handle is still the one
// that the handle opened.
func (h *Handle) dirUnchanged() bool {
	if h.info == nil {
		is, err := files.Identify(h.dir)
		return err == nil && is == h.identity
	}
	now, err := os.Lstat(h.dir)
	return err == nil && os.SameFile(now, h.info)
}
