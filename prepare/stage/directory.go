package stage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"go.opentelemetry.io/otel/attribute"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// DirectoryOptions are the options of StageDirectory.
type DirectoryOptions struct {
	ReadOnly   bool     // without write permission
	AllowMount bool     // a mount may replace the copy; then the source must not change; writes in the workspace never reach it
	Exclude    []string // paths below the source that are left out
	MaxFiles   int      // ResourceExhausted beyond this many entries; 0 is no limit
	MaxBytes   int64    // ResourceExhausted beyond this many bytes; 0 is no limit
}

// StageDirectory copies or mounts a directory of the host to a path of the workspace,
// replacing what is there, all or nothing. The caller must check whether the
// directory may be read; for untrusted callers StageInputs checks that. The result
// says which method was used and what was left out.
//
// Symlinks in the tree are copied as symlinks, unless they leave the workspace. If
// src itself is a symlink, its target is used.
func (s *Stage) StageDirectory(ctx context.Context, src, to string, opts *DirectoryOptions) (workspace.ImportResult, error) {
	h, err := s.Begin(ctx)
	if err != nil {
		return workspace.ImportResult{}, err
	}
	defer h.End()
	return h.StageDirectory(ctx, src, to, opts)
}

// StageDirectory is Stage.StageDirectory within a session.
func (h *Session) StageDirectory(ctx context.Context, src, to string, opts *DirectoryOptions) (res workspace.ImportResult, err error) {
	s := h.s
	ctx, span := s.startSpan(ctx, SpanDir, attribute.String(AttrHostPath, src), attribute.String(AttrTo, to))
	defer func() {
		span.SetAttributes(attribute.Bool(AttrMountUsed, isShared(res)), attribute.Int(AttrCount, res.Files))
		endSpan(span, err)
	}()
	target, err := s.cleanTarget(to)
	if err != nil {
		return res, fmt.Errorf("stage: stage directory: %w", err)
	}
	dir, err := hostDir(src)
	if err != nil {
		return res, err
	}
	st, got := s.directoryStep(dir, target, opts)
	if err := h.transact(ctx, []step{st}, func() {}); err != nil {
		return res, fmt.Errorf("stage: stage %s to %s: %w", src, to, err)
	}
	return *got, nil
}

// isShared reports whether blocks or files are shared with the source (reflink or
// mount).
func isShared(res workspace.ImportResult) bool {
	return res.Method == driver.ImportReflink || res.Method == driver.ImportMount
}

// directoryStep returns the step that imports a directory, and a pointer to its
// result.
func (s *Stage) directoryStep(dir, target string, opts *DirectoryOptions) (step, *workspace.ImportResult) {
	o := DirectoryOptions{}
	if opts != nil {
		o = *opts
	}
	got := new(workspace.ImportResult)
	return step{target, func(ctx context.Context, at string) (err error) {
		*got, err = s.ws.Import(ctx, dir, at, &workspace.ImportOptions{
			ReadOnly: o.ReadOnly, Mount: o.AllowMount, Exclude: o.Exclude, MaxFiles: o.MaxFiles, MaxBytes: o.MaxBytes,
		})
		return err
	}}, got
}

// hostDir resolves the path of a directory of the host.
func hostDir(src string) (string, error) {
	dir, err := filepath.Abs(src)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return "", fmt.Errorf("stage: directory %s: %w: %w", src, fault.Of(err), err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return "", fmt.Errorf("stage: directory %s: %w: %w", src, fault.Of(err), err)
	}
	if !info.IsDir() {
		return "", fmt.Errorf("stage: directory %s: %w: the path is not a directory", src, fault.InvalidArgument)
	}
	return dir, nil
}

// FillWorkspace copies the content of a directory of the host, hidden files included,
// to the root of the workspace. Entries of the same name are replaced.
func (h *Session) FillWorkspace(ctx context.Context, src string, opts *DirectoryOptions) (res workspace.ImportResult, err error) {
	s := h.s
	ctx, span := s.startSpan(ctx, SpanDir, attribute.String(AttrHostPath, src), attribute.String(AttrTo, "."))
	defer func() {
		span.SetAttributes(attribute.Bool(AttrMountUsed, isShared(res)), attribute.Int(AttrCount, res.Files))
		endSpan(span, err)
	}()
	dir, err := hostDir(src)
	if err != nil {
		return res, err
	}
	whole := temporaryPath("x")
	st, got := s.directoryStep(dir, whole, opts)
	h.Pending = append(h.Pending, TempPath{Path: whole, Target: ".", Done: true})
	if err = h.Save(ctx); err == nil {
		err = st.make(ctx, whole)
	}
	if err == nil {
		err = s.moveToRoot(ctx, h, whole)
	}
	if err != nil {
		cctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTime)
		defer cancel()
		return res, fmt.Errorf("stage: fill the workspace from %s: %w", src, errors.Join(err, h.rollbackJournal(cctx)))
	}
	return *got, nil
}

// moveToRoot moves the content of a directory to the root.
func (s *Stage) moveToRoot(ctx context.Context, h *Session, whole string) error {
	entries, err := s.ws.ReadDir(ctx, whole)
	if err != nil {
		return err
	}
	steps := make([]step, 0, len(entries))
	for _, e := range entries {
		steps = append(steps, step{e.Name(), func(ctx context.Context, at string) error {
			return s.ws.Rename(ctx, e.Path, at, &driver.RenameOptions{CreateOnly: true})
		}})
	}
	return h.transact(ctx, steps, func() {})
}

// PutFrom copies some paths below a directory of the host to the same paths of the
// workspace, replacing what is there, all or nothing. A directory is created without
// its content.
func (h *Session) PutFrom(ctx context.Context, src string, names []string) error {
	dir, err := hostDir(src)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("stage: directory %s: %w: %w", src, fault.Of(err), err)
	}
	defer root.Close() //nolint:errcheck // read only
	steps := make([]step, 0, len(names))
	for _, name := range names {
		target, err := h.s.cleanTarget(name)
		if err != nil {
			return err
		}
		steps = append(steps, step{target, func(ctx context.Context, at string) error { return h.s.copyEntry(ctx, root, name, at) }})
	}
	if err := h.transact(ctx, steps, func() {}); err != nil {
		return fmt.Errorf("stage: stage %d of %s: %w", len(names), src, err)
	}
	return nil
}

// copyEntry copies one entry of the host to a path of the workspace.
func (s *Stage) copyEntry(ctx context.Context, root *os.Root, name, at string) error {
	info, err := root.Lstat(name)
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		var to string
		if to, err = root.Readlink(name); err == nil {
			return s.ws.Symlink(ctx, filepath.ToSlash(to), at)
		}
	}
	if err != nil {
		return fmt.Errorf("stage: read %q: %w: %w", name, fault.Of(err), err)
	}
	if info.IsDir() {
		return s.ws.Mkdir(ctx, at, &driver.MkdirOptions{Mode: info.Mode().Perm()})
	}
	f, err := root.OpenFile(name, os.O_RDONLY|nonBlocking, 0)
	if err != nil {
		return fmt.Errorf("stage: read %q: %w: %w", name, fault.Of(err), err)
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil || !info.Mode().IsRegular() {
		return fmt.Errorf("stage: read %q: %w: the path is no longer a file", name, fault.Unavailable)
	}
	mode := info.Mode().Perm()
	_, err = s.ws.Write(ctx, at, f, &driver.WriteOptions{Mode: mode, SetMode: mode != 0, CreateOnly: true, ModTime: info.ModTime()})
	return err
}

// underRoot opens a path of the host below one of the allowed roots (os.Root). No
// symlink of the path can leave that root.
func (s *Stage) underRoot(name string) (root *os.Root, rel string, err error) {
	if !filepath.IsAbs(name) {
		return nil, "", fmt.Errorf("stage: host path %q: %w: the path must be absolute", name, fault.InvalidArgument)
	}
	if len(s.opts.HostRoots) == 0 {
		return nil, "", fmt.Errorf("stage: host path %q: %w: no host root is configured", name, fault.PermissionDenied)
	}
	clean := filepath.Clean(name)
	for _, dir := range s.opts.HostRoots {
		if clean != dir && !strings.HasPrefix(clean, strings.TrimSuffix(dir, "/")+"/") {
			continue
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			return nil, "", fmt.Errorf("stage: host root %s: %w: %w", dir, fault.Of(err), err)
		}
		rel := strings.TrimPrefix(strings.TrimPrefix(clean, strings.TrimSuffix(dir, "/")), "/")
		return root, path.Join(".", rel), nil
	}
	return nil, "", fmt.Errorf("stage: host path %q: %w: the allowed roots are %s", name, fault.PermissionDenied, strings.Join(s.opts.HostRoots, ", "))
}

// hostInfo describes a path below a root. A path that leaves the root is a
// SandboxViolation.
func hostInfo(root *os.Root, name, rel string) (fs.FileInfo, error) {
	info, err := root.Stat(rel)
	if err == nil {
		return info, nil
	}
	code := fault.Of(err)
	if code == fault.Internal { // os.Root has no sentinel error for a path that escapes
		code = fault.SandboxViolation
	}
	return nil, fmt.Errorf("stage: host path %q: %w: %w", name, code, err)
}
