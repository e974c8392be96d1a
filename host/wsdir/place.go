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
	"github.com/croft-run/croft/host/files"
)

// An Identity is what a directory in place was when its workspace was made. A
// directory that takes its path later is not the one that the user meant.
type Identity struct {
	Dev  uint64 `json:"dev"`
	Ino  uint64 `json:"ino"`
	Boot string `json:"boot,omitempty"` // numbers of devices count for this one
}

// is compares with what is there now.
func (i *Identity) is(now files.Identity, boot string) bool {
	return i.Ino == now.Ino && (i.Dev == now.Dev || i.Boot != boot)
}

// validPlace reports whether the state says where the files are.
func (m *Meta) validPlace() bool {
	if m.Dir == "" {
		return m.Real == "" && m.Is == nil
	}
	return filepath.IsAbs(m.Real) && m.Is != nil
}

// errGround is of a directory that may not be a workspace.
var errGround = fmt.Errorf("%w: it holds the files of other workspaces, or is one of them, or belongs to the data of Croft", fault.InvalidArgument)

// CheckHost judges a directory of the host that a workspace is to be given, and
// returns where it really is.
func (g *Ground) CheckHost(dir string) (real string, err error) {
	real, _, err = g.checkDir(dir)
	return real, err
}

// checkRoots refuses what lies in none of the directories that may be used. The
// path has no symlinks.
func (g *Ground) checkRoots(real string) error {
	if g.roots == nil {
		return nil
	}
	for _, root := range g.roots {
		at, err := filepath.EvalSymlinks(root)
		if err != nil {
			continue // what does not exist holds nothing
		}
		if rel, err := filepath.Rel(at, real); err == nil && filepath.IsLocal(rel) {
			return nil
		}
	}
	if len(g.roots) == 0 {
		return fmt.Errorf("%w: no directory of this host may be used; list those that may under hostRoots in croft.yaml", fault.PermissionDenied)
	}
	return fmt.Errorf("%w: it is in none of the directories that may be used: %s; hostRoots in croft.yaml lists them", fault.PermissionDenied, strings.Join(g.roots, ", "))
}

// checkDir judges a directory to be used in place and returns where it really is
// and what it is.
func (g *Ground) checkDir(dir string) (string, *Identity, error) {
	if !filepath.IsAbs(dir) {
		return "", nil, fmt.Errorf("directory %q: %w: it must be an absolute path", dir, fault.InvalidArgument)
	}
	real, above, err := locate(dir)
	if err != nil {
		return "", nil, err
	}
	if err := g.checkRoots(real); err != nil {
		return "", nil, fmt.Errorf("directory %q: %w", dir, err)
	}
	is := above[0]
	if err := g.checkGround(real, is, above, true); err != nil {
		return "", nil, fmt.Errorf("directory %q: %w", dir, err)
	}
	return real, &Identity{Dev: is.Dev, Ino: is.Ino, Boot: g.boot}, nil
}

// locate returns where a directory really is, and its lineage.
func locate(dir string) (real string, line []files.Identity, err error) {
	if dir == filepath.Clean(dir) { // or it is not the path that it looks like
		if line, err := files.Lineage(dir); err == nil {
			return dir, line, nil // there is no symlink on the way
		}
	}
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil, fmt.Errorf("%w: Workspace path does not exist: %s", fault.NotFound, dir)
	}
	if err != nil {
		return "", nil, fmt.Errorf("directory %q: %w: %w", dir, fault.Of(err), err)
	}
	if !info.IsDir() {
		return "", nil, fmt.Errorf("%w: Workspace path is not a directory: %s", fault.InvalidArgument, dir)
	}
	if real, err = filepath.EvalSymlinks(dir); err != nil {
		return "", nil, err
	}
	line, err = files.Lineage(real)
	return real, line, err
}

// checkGround refuses a directory that is forbidden ground, lies in it or holds
// it. It compares what directories are and not what they are called, so that a
// bind mount hides nothing. deep also finds what is mounted from one level below
// forbidden ground. above is the lineage of the path.
func (g *Ground) checkGround(real string, is files.Identity, above []files.Identity, deep bool) error {
	for _, dir := range g.forbidden {
		line, inside, err := nearest(dir)
		if err != nil {
			return err
		}
		if slices.Contains(line, is) {
			return errGround // it holds forbidden ground, or is that
		}
		if !inside {
			continue
		}
		grounds := line[:1]
		if deep && !files.SameMount(real, dir) { // in one mount what lies deeper has the ground above it
			grounds = append(slices.Clone(grounds), below(dir, g.deadPrefix)...)
		}
		if slices.ContainsFunc(above, func(a files.Identity) bool { return slices.Contains(grounds, a) }) {
			return errGround
		}
	}
	return nil
}

// nearest is the lineage of a directory or, with exists false, of the nearest one
// above it that is there.
func nearest(dir string) (line []files.Identity, exists bool, err error) {
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

// below identifies the directories in a directory, as far as that can be told, but
// for those of workspaces that are dead.
func below(dir, dead string) []files.Identity {
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

// open opens the files of a workspace under the policy of m, and makes sure that
// a directory in place is the one that it was.
func (h *Handle) open(m *Meta) (*files.Root, error) {
	root, err := h.fence(h.dir, &files.Options{
		ReadOnly: m.Policy.ReadOnly, Sync: m.Policy.Durable, NoSymlinks: m.Dir != "", Commit: h.Gate(m),
	})
	switch code := fault.Of(err); {
	case code == fault.NotFound:
		return nil, h.g.Gone()
	case code == fault.SandboxViolation:
		return nil, h.g.replaced()
	case code == fault.InvalidArgument:
		return nil, fmt.Errorf("%w: the path of the workspace is not a directory", fault.Failed)
	case err != nil || m.Dir == "":
		return root, err
	}
	if err := h.recognize(m, root); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return root, nil
}

// recognize compares what was opened with what m says of it.
func (h *Handle) recognize(m *Meta, root *files.Root) error {
	is, err := root.Identity()
	if err != nil {
		return err
	}
	if !m.Is.is(is, h.g.boot) {
		return h.g.replaced()
	}
	above, err := files.Lineage(m.Real)
	if err == nil {
		err = h.g.checkGround(m.Real, is, above, false)
	}
	if err != nil {
		return fmt.Errorf("%w: the directory of the workspace belongs to the data of Croft now, or holds it", fault.Failed)
	}
	return nil
}

// replaced is Gone where something else has taken the place of the files.
func (g *Ground) replaced() error {
	err := fmt.Errorf("%s: the directory of the workspace was replaced, or its path leads through a symlink now: %w", g.kind, fault.Failed)
	return fault.WithCause(err, fault.CauseGone)
}

// stands reports whether the directory is still where and what it was when the
// handle was built.
func (h *Handle) stands() bool {
	if h.info == nil {
		is, err := files.Identify(h.dir)
		return err == nil && is == h.is
	}
	now, err := os.Lstat(h.dir)
	return err == nil && os.SameFile(now, h.info)
}
