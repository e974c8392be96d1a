package memory

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// A tree is a workspace. All its handles share it.
type tree struct {
	p       *Provider
	id      string
	session string // session that opened it
	origin  string // snapshot that it started from

	mu       sync.RWMutex
	root     *node
	gone     bool // destroyed or swept
	used     int64
	policy   driver.Policy
	revision int64
	ticks    int64 // number of changes, if the clock is deterministic
	config   Config
	watchers map[*watcher]bool
}

// A node is a directory entry. The content of a file is immutable and replaced as a
// whole, so a reader keeps the old content.
type node struct {
	typ      driver.FileType
	mode     fs.FileMode
	mtime    time.Time
	content  []byte
	digest   string // of content
	target   string // of a symlink
	children map[string]*node
}

func newTree(p *Provider, id string, policy driver.Policy, config Config) *tree {
	t := &tree{p: p, id: id, policy: clonePolicy(policy), revision: 1, config: config, watchers: map[*watcher]bool{}}
	t.root = &node{typ: driver.TypeDir, mode: 0o755, mtime: t.nowLocked(), children: map[string]*node{}}
	return t
}

var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// nowLocked returns the time of a change.
func (t *tree) nowLocked() time.Time {
	if !t.config.Deterministic {
		return time.Now()
	}
	t.ticks++
	return epoch.Add(time.Duration(t.ticks-1) * time.Second)
}

// newHandle builds the workspace for Open and Resolve.
func (t *tree) newHandle() (*driver.Workspace, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.gone {
		return nil, fault.Transient(fmt.Errorf("memory: workspace %s: %w: the workspace was destroyed meanwhile", t.id, fault.Failed))
	}
	ref, err := t.refLocked()
	if err != nil {
		return nil, err
	}
	h := &handle{tree: t, watchers: map[*watcher]bool{}}
	life := driver.Life{Close: h.Close, Destroy: h.Destroy, Update: h.Update, Metrics: h.Metrics}
	if t.p.Snapshots != nil {
		life.Snapshot = h.snapshotAdapter().Module()
	}
	return &driver.Workspace{
		Ref:    ref,
		Traits: fixedTraits(),
		Life:   life,
		FS:     h.fsModule(),
	}, nil
}

func (h *handle) fsModule() *driver.FS {
	return &driver.FS{Files: h, Rename: h.Rename, Chmod: h.Chmod, Symlink: h.Symlink, Watch: h.Watch}
}

func (t *tree) refLocked() (driver.Ref, error) {
	return driver.NewRef(Kind, driver.RefID{ID: t.id}, t.p.capabilities(), t.revision)
}

func (t *tree) checkRevision(ref driver.Ref) error {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return driver.CheckRevision(ref, t.revision)
}

// setPolicy stores policy and reports whether it differs from the old one.
func (t *tree) setPolicy(policy driver.Policy) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gone || samePolicy(t.policy, policy) {
		return false
	}
	t.policy = clonePolicy(policy)
	t.revision++
	return true
}

// clonePolicy returns a deep copy.
func clonePolicy(p driver.Policy) driver.Policy {
	p.Env = maps.Clone(p.Env)
	p.Network.Allow, p.Network.Deny = slices.Clone(p.Network.Allow), slices.Clone(p.Network.Deny)
	return p
}

// samePolicy compares policies: an empty map equals nil.
func samePolicy(a, b driver.Policy) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// destroy removes the tree from its provider; calls of other handles then return
// Evicted.
func (t *tree) destroy(ctx context.Context) error {
	t.p.mu.Lock()
	if t.p.trees[t.id] == t {
		delete(t.p.trees, t.id)
	}
	t.p.mu.Unlock()
	driver.Step(ctx, "forgot the tree")
	t.mu.Lock()
	watchers := slices.Collect(maps.Keys(t.watchers))
	t.gone, t.root, t.watchers = true, nil, nil
	t.mu.Unlock()
	for _, w := range watchers {
		w.end()
	}
	return nil
}

func (t *tree) evictedError() error {
	return fmt.Errorf("memory: workspace %s: %w: the workspace was destroyed", t.id, fault.Evicted)
}

// view runs f under the read lock.
func (t *tree) view(ctx context.Context, f func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.gone {
		return t.evictedError()
	}
	return f()
}

// change runs f under the write lock, if the workspace is writable.
func (t *tree) change(ctx context.Context, f func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gone {
		return t.evictedError()
	}
	if t.policy.ReadOnly {
		return fmt.Errorf("memory: workspace %s is read-only: %w", t.id, fault.PermissionDenied)
	}
	return f()
}

// A resolvedPath is a resolved path: the directory, the name in it, and the entry, nil if it
// does not exist. The root has no directory.
type resolvedPath struct {
	dir  *node
	path string // without symlinks, relative to the workspace
	node *node
}

func (p resolvedPath) base() string { return p.path[strings.LastIndexByte(p.path, '/')+1:] }

// maxLinks bounds the symlinks of a path, as in Linux.
const maxLinks = 40

// findLocked resolves name, symlinks included; a symlink as the last element only if
// follow. A path that leaves the workspace is a SandboxViolation, even if it passes a
// missing directory. A missing parent directory is NotFound; a missing last element
// is a place without a node.
func (t *tree) findLocked(name string, follow bool) (resolvedPath, error) {
	above := append(make([]*node, 0, 8), t.root) // nodes from the root to the present one; nil is missing
	var names []string                           // names of above, without the root
	todo := strings.Split(name, "/")
	missing, links := false, 0
	for len(todo) > 0 {
		elem, dir := todo[0], above[len(above)-1]
		todo = todo[1:]
		if dir != nil && dir.typ != driver.TypeDir {
			return resolvedPath{}, fmt.Errorf("memory: %s: %w: a parent is not a directory", name, fault.InvalidArgument)
		}
		if elem == "" || elem == "." {
			continue
		}
		if elem == ".." {
			if len(names) == 0 {
				return resolvedPath{}, outsideError(name)
			}
			above, names = above[:len(names)], names[:len(names)-1]
			continue
		}
		missing = missing || dir == nil
		next := dir.child(elem)
		if next != nil && next.typ == driver.TypeSymlink && (follow || len(todo) > 0) {
			if links++; links > maxLinks {
				return resolvedPath{}, fmt.Errorf("memory: %s: %w: too many symlinks, or a loop of them", name, fault.InvalidArgument)
			}
			if strings.HasPrefix(next.target, "/") {
				return resolvedPath{}, outsideError(name)
			}
			todo = append(strings.Split(next.target, "/"), todo...)
			continue
		}
		above, names = append(above, next), append(names, elem)
	}
	switch {
	case missing:
		return resolvedPath{}, fmt.Errorf("memory: %s: %w: a parent directory does not exist", name, fault.NotFound)
	case len(names) == 0:
		return resolvedPath{path: ".", node: t.root}, nil
	}
	return resolvedPath{dir: above[len(above)-2], path: strings.Join(names, "/"), node: above[len(above)-1]}, nil
}

// child returns the entry of a directory, or nil.
func (n *node) child(name string) *node {
	if n == nil {
		return nil
	}
	return n.children[name]
}

func outsideError(name string) error {
	return fmt.Errorf("memory: %s leaves the workspace: %w", name, fault.SandboxViolation)
}

// getLocked is findLocked for an entry that must exist.
func (t *tree) getLocked(name string, follow bool) (resolvedPath, error) {
	at, err := t.findLocked(name, follow)
	if err == nil && at.node == nil {
		err = fmt.Errorf("memory: %s: %w", name, fault.NotFound)
	}
	return at, err
}

// putLocked sets the entry at a place.
func (t *tree) putLocked(at resolvedPath, n *node) {
	at.dir.children[at.base()] = n
	at.dir.mtime = n.mtime
}

// mkdirLocked creates a directory and, with parents, its missing parents.
func (t *tree) mkdirLocked(name string, mode fs.FileMode, parents bool) error {
	if parents {
		if err := t.parentsLocked(name); err != nil {
			return err
		}
	}
	at, err := t.findLocked(name, false)
	if err != nil {
		return err
	}
	if at.node != nil {
		if there, err := t.getLocked(name, true); parents && err == nil && there.node.typ == driver.TypeDir {
			return nil
		}
		return fmt.Errorf("memory: mkdir %s: %w", name, fault.AlreadyExists)
	}
	t.putLocked(at, &node{typ: driver.TypeDir, mode: mode, mtime: t.nowLocked(), children: map[string]*node{}})
	t.notifyLocked(at.path, driver.OpCreate)
	return nil
}

// parentsLocked creates the missing parents of name.
func (t *tree) parentsLocked(name string) error {
	i := strings.LastIndexByte(name, '/')
	if i < 0 {
		return nil
	}
	err := t.mkdirLocked(name[:i], 0o755, true)
	if errors.Is(err, fault.AlreadyExists) {
		return fmt.Errorf("memory: %s: %w: a parent is not a directory", name, fault.InvalidArgument)
	}
	return err
}

// info describes n under the requested name.
func (n *node) info(name string) driver.Info {
	info := driver.Info{Path: name, Type: n.typ, Mode: n.mode, ModTime: n.mtime, Target: n.target}
	switch n.typ {
	case driver.TypeFile:
		info.Size = int64(len(n.content))
	case driver.TypeSymlink:
		info.Size = int64(len(n.target))
	default:
	}
	return info
}

// walk calls f for n and its tree, parents first.
func (n *node) walk(name string, f func(name string, n *node)) {
	f(name, n)
	for _, child := range slices.Sorted(maps.Keys(n.children)) {
		n.children[child].walk(joinPath(name, child), f)
	}
}

func joinPath(dir, base string) string {
	if dir == "." {
		return base
	}
	return dir + "/" + base
}
