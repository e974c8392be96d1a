package memory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// A handle is what Open and Resolve return: a view of the tree, with its own
// watchers.
type handle struct {
	*tree
	watchers map[*watcher]bool // guarded by tree.mu
}

// Close ends the watchers of this handle; the tree stays.
func (h *handle) Close(context.Context) error {
	h.mu.Lock()
	mine := slices.Collect(maps.Keys(h.watchers))
	h.mu.Unlock()
	for _, w := range mine {
		if err := w.Close(); err != nil {
			return err
		}
	}
	return nil
}

// Destroy removes the workspace.
func (h *handle) Destroy(ctx context.Context) error { return h.destroy(ctx) }

// Update changes the policy for every handle on the tree.
func (h *handle) Update(ctx context.Context, policy driver.Policy) (driver.Ref, error) {
	if err := ctx.Err(); err != nil {
		return driver.Ref{}, err
	}
	if err := policy.Check(fixedTraits()); err != nil {
		return driver.Ref{}, fmt.Errorf("memory: update %s: %w", h.id, err)
	}
	ref, err := h.updatePolicy(policy)
	if err == nil {
		driver.Step(ctx, "changed the policy")
	}
	return ref, err
}

// Metrics returns the sum of the file sizes. Nothing runs in the workspace.
func (h *handle) Metrics(ctx context.Context) (driver.Metrics, error) {
	if err := ctx.Err(); err != nil {
		return driver.Metrics{}, err
	}
	h.mu.RLock()
	defer h.mu.RUnlock()
	if h.gone {
		return driver.Metrics{}, h.evictedError()
	}
	return driver.Metrics{Time: time.Now().UTC(), CPUTime: new(0.0), PIDs: new(int64(0)), Disk: new(h.used)}, nil
}

func (h *handle) updatePolicy(policy driver.Policy) (driver.Ref, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gone {
		return driver.Ref{}, h.evictedError()
	}
	h.policy = clonePolicy(policy)
	h.revision++
	return h.refLocked()
}

func (h *handle) Stat(ctx context.Context, name string, opts *driver.StatOptions) (info driver.Info, err error) {
	err = h.view(ctx, func() error {
		at, err := h.getLocked(name, !opts.NoFollow)
		if err != nil {
			return err
		}
		info = at.node.info(name)
		if opts.Digest {
			info.Digest = at.node.digest
		}
		return nil
	})
	return info, err
}

func (h *handle) ReadDir(ctx context.Context, name string) (entries []driver.Info, err error) {
	err = h.view(ctx, func() error {
		at, err := h.getLocked(name, true)
		if err != nil {
			return err
		}
		if at.node.typ != driver.TypeDir {
			return fmt.Errorf("memory: list %s: %w: the path is not a directory", name, fault.InvalidArgument)
		}
		entries = make([]driver.Info, 0, len(at.node.children))
		for base, child := range at.node.children {
			entries = append(entries, child.info(joinPath(name, base)))
		}
		return nil
	})
	slices.SortFunc(entries, func(a, b driver.Info) int { return strings.Compare(a.Path, b.Path) })
	return entries, err
}

func (h *handle) Read(ctx context.Context, name string, opts *driver.ReadOptions) (body io.ReadCloser, info driver.Info, err error) {
	err = h.view(ctx, func() error {
		at, err := h.getLocked(name, true)
		if err != nil {
			return err
		}
		if at.node.typ != driver.TypeFile {
			return fmt.Errorf("memory: read %s: %w: the path is a %s", name, fault.InvalidArgument, at.node.typ)
		}
		data := at.node.content
		data = data[min(opts.Offset, int64(len(data))):]
		if opts.Limit > 0 {
			data = data[:min(opts.Limit, int64(len(data)))]
		}
		body, info = reader{bytes.NewReader(data)}, at.node.info(name)
		return nil
	})
	return body, info, err
}

type reader struct{ *bytes.Reader }

func (reader) Close() error { return nil }

// Write reads the whole body first and then stores it under the lock, so that a slow
// or failing body blocks and changes nothing.
func (h *handle) Write(ctx context.Context, name string, body io.Reader, opts *driver.WriteOptions) (res driver.WriteResult, err error) {
	// Check before the body is read.
	if err := driver.CheckMode(opts.Mode); err != nil {
		return res, fmt.Errorf("memory: write %s: %w", name, err)
	}
	err = h.change(ctx, func() error {
		_, err := h.targetLocked(name, opts)
		return err
	})
	if err != nil {
		return res, err
	}
	content, err := readBody(ctx, name, body, opts.MaxSize)
	if err != nil {
		return res, err
	}
	sum := driver.DigestBytes(content)
	err = h.change(ctx, func() error {
		at, err := h.targetLocked(name, opts)
		if err != nil {
			return err
		}
		res, err = h.writeLocked(name, at, content, sum, opts)
		return err
	})
	return res, err
}

// readBody reads a body of at most limit bytes; 0 is no limit.
func readBody(ctx context.Context, name string, body io.Reader, limit int64) ([]byte, error) {
	body = ctxReader{ctx, body}
	if limit > 0 {
		body = io.LimitReader(body, limit+1)
	}
	content, err := io.ReadAll(body)
	if err != nil {
		return nil, fmt.Errorf("memory: write %s: read its body: %w", name, err)
	}
	if limit > 0 && int64(len(content)) > limit {
		return nil, fmt.Errorf("memory: write %s: %w: the body is larger than %d bytes", name, fault.ResourceExhausted, limit)
	}
	return content, nil
}

// A ctxReader returns an error between two reads when its context ends.
type ctxReader struct {
	ctx context.Context
	r   io.Reader
}

func (r ctxReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

// targetLocked resolves the path of a write, and checks whether the write is allowed.
// The place has no directory if opts.Parents has yet to create it.
func (h *handle) targetLocked(name string, opts *driver.WriteOptions) (resolvedPath, error) {
	at, err := h.findLocked(name, !opts.CreateOnly)
	switch {
	case errors.Is(err, fault.NotFound) && opts.Parents:
		at = resolvedPath{}
	case err != nil:
		return resolvedPath{}, err
	}
	switch {
	case at.node != nil && opts.CreateOnly:
		return resolvedPath{}, fmt.Errorf("memory: write %s: %w", name, fault.AlreadyExists)
	case at.node != nil && at.node.typ != driver.TypeFile:
		return resolvedPath{}, fmt.Errorf("memory: write %s: %w: the path is a %s", name, fault.InvalidArgument, at.node.typ)
	case opts.IfMatch != "" && (at.node == nil || at.node.digest != opts.IfMatch):
		return resolvedPath{}, fmt.Errorf("memory: write %s: %w: the content does not match if-match", name, fault.Conflict)
	}
	return at, nil
}

func (h *handle) writeLocked(name string, at resolvedPath, content []byte, sum string, opts *driver.WriteOptions) (driver.WriteResult, error) {
	grow := int64(len(content))
	if at.node != nil {
		grow -= int64(len(at.node.content))
	}
	if limit := h.policy.Limits[driver.ResourceDisk].Max; limit > 0 && grow > 0 && h.used+grow > limit {
		return driver.WriteResult{}, fmt.Errorf("memory: write %s: %w: the workspace has a limit of %d bytes and holds %d", name, fault.ResourceExhausted, limit, h.used)
	}
	if at.node == nil && at.dir == nil {
		if err := h.parentsLocked(name); err != nil {
			return driver.WriteResult{}, err
		}
		var err error
		if at, err = h.findLocked(name, !opts.CreateOnly); err != nil {
			return driver.WriteResult{}, err
		}
	}
	h.used += grow
	n, op := at.node, driver.OpWrite
	if n == nil {
		n, op = &node{typ: driver.TypeFile, mode: fileMode(opts.Mode)}, driver.OpCreate
	} else if opts.SetMode {
		n.mode = fileMode(opts.Mode)
	}
	n.content, n.digest = content, sum
	if n.mtime = opts.ModTime; n.mtime.IsZero() {
		n.mtime = h.nowLocked()
	}
	if op == driver.OpCreate {
		h.putLocked(at, n)
	}
	h.notifyLocked(at.path, op)
	return driver.WriteResult{Info: n.info(name), Digest: sum, Created: op == driver.OpCreate}, nil
}

func fileMode(mode fs.FileMode) fs.FileMode {
	if mode == 0 {
		return 0o644
	}
	return mode
}

func (h *handle) Mkdir(ctx context.Context, name string, opts *driver.MkdirOptions) error {
	if err := driver.CheckMode(opts.Mode); err != nil {
		return fmt.Errorf("memory: mkdir %s: %w", name, err)
	}
	mode := opts.Mode
	if mode == 0 {
		mode = 0o755
	}
	return h.change(ctx, func() error { return h.mkdirLocked(name, mode, opts.Parents) })
}

func (h *handle) Remove(ctx context.Context, name string, opts *driver.RemoveOptions) error {
	return h.change(ctx, func() error {
		at, err := h.getLocked(name, false)
		if err != nil {
			return err
		}
		if at.dir == nil {
			return fmt.Errorf("memory: remove %s: %w: the path is the workspace itself", name, fault.InvalidArgument)
		}
		if len(at.node.children) > 0 && !opts.Recursive {
			return fmt.Errorf("memory: remove %s: the directory is not empty: %w", name, fault.AlreadyExists)
		}
		h.removeLocked(at)
		return nil
	})
}

// removeLocked removes an entry from its directory.
func (h *handle) removeLocked(at resolvedPath) {
	delete(at.dir.children, at.base())
	at.dir.mtime = h.nowLocked()
	at.node.walk(at.path, func(name string, n *node) {
		h.used -= int64(len(n.content))
		h.notifyLocked(name, driver.OpRemove)
	})
}

// Rename follows the rules of rename(2).
func (h *handle) Rename(ctx context.Context, from, to string, opts *driver.RenameOptions) error {
	return h.change(ctx, func() error {
		old, err := h.getLocked(from, false)
		if err != nil {
			return err
		}
		if strings.HasPrefix(to, from+"/") && old.node.typ == driver.TypeDir {
			return fmt.Errorf("memory: rename %s to %s: %w: the new name is inside the directory", from, to, fault.InvalidArgument)
		}
		if opts.Parents {
			if err := h.parentsLocked(to); err != nil {
				return err
			}
		}
		at, err := h.findLocked(to, false)
		if err != nil {
			return err
		}
		if at.node == old.node && !opts.CreateOnly {
			return nil
		}
		if err := mayReplace(old, at, opts); err != nil {
			return fmt.Errorf("memory: rename %s to %s: %w", from, to, err)
		}
		h.moveLocked(old, at)
		return nil
	})
}

func mayReplace(old, at resolvedPath, opts *driver.RenameOptions) error {
	switch {
	case old.dir == nil || at.dir == nil:
		return fmt.Errorf("%w: the path is the workspace itself", fault.InvalidArgument)
	case strings.HasPrefix(at.path, old.path+"/"):
		return fmt.Errorf("%w: the new name is inside the directory", fault.InvalidArgument)
	case at.node == nil:
		return nil
	case opts.CreateOnly:
		return fault.AlreadyExists
	case (old.node.typ == driver.TypeDir) != (at.node.typ == driver.TypeDir):
		return fmt.Errorf("%w: a %s can't replace a %s", fault.InvalidArgument, old.node.typ, at.node.typ)
	case len(at.node.children) > 0:
		return fmt.Errorf("%w: the directory is not empty", fault.AlreadyExists)
	}
	return nil
}

func (h *handle) moveLocked(old, at resolvedPath) {
	if at.node != nil {
		h.used -= int64(len(at.node.content))
	}
	delete(old.dir.children, old.base())
	at.dir.children[at.base()] = old.node
	old.dir.mtime = h.nowLocked()
	at.dir.mtime = old.dir.mtime
	old.node.walk(old.path, func(name string, _ *node) { h.notifyLocked(name, driver.OpRemove) })
	old.node.walk(at.path, func(name string, _ *node) { h.notifyLocked(name, driver.OpCreate) })
}

func (h *handle) Chmod(ctx context.Context, name string, mode fs.FileMode) error {
	if err := driver.CheckMode(mode); err != nil {
		return fmt.Errorf("memory: chmod %s: %w", name, err)
	}
	return h.change(ctx, func() error {
		at, err := h.getLocked(name, true)
		if err != nil {
			return err
		}
		at.node.mode = mode
		h.notifyLocked(at.path, driver.OpChmod)
		return nil
	})
}

func (h *handle) Symlink(ctx context.Context, target, name string) error {
	if target == "" || strings.IndexByte(target, 0) >= 0 {
		return fmt.Errorf("memory: symlink %s: target %q: %w: a target is not empty and has no NUL", name, target, fault.InvalidArgument)
	}
	return h.change(ctx, func() error {
		at, err := h.findLocked(name, false)
		if err != nil {
			return err
		}
		if at.node != nil {
			return fmt.Errorf("memory: symlink %s: %w", name, fault.AlreadyExists)
		}
		n := &node{typ: driver.TypeSymlink, mode: 0o777, mtime: h.nowLocked(), target: target}
		h.putLocked(at, n)
		// Following the link is the check: it must not leave the workspace.
		if _, err := h.findLocked(at.path, true); errors.Is(err, fault.SandboxViolation) {
			delete(at.dir.children, at.base())
			return fmt.Errorf("memory: symlink %s: target %q: %w", name, target, err)
		}
		h.notifyLocked(at.path, driver.OpCreate)
		return nil
	})
}
