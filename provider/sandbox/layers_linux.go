package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/internal/host/wsdir"
	"github.com/croft-run/croft/provider/sandbox/internal/rootfs"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

// Prefixes of the names of layers.
const (
	newLayerPrefix = ".new-"  // of incomplete ones
	deltaPrefix    = "delta-" // of those with differences
)

// A layerStore has the layers that workspaces share, as lower directories of overlayfs.
type layerStore struct {
	dir       string
	snapshots *snapshot.Store // nil means that there are none
	store     *wsdir.Store
	log       *slog.Logger
	ids       ids
}

// ensure returns the lower directories with the files of a complete snapshot, topmost
// first: its own layer, or the layer of an earlier snapshot below a layer with the
// differences. It extracts what does not exist.
func (s *layerStore) ensure(ctx context.Context, m *snapshot.Manifest) ([]string, error) {
	own := s.of(m.Root)
	if _, err := os.Lstat(own); err == nil {
		return []string{own}, nil
	}
	if dirs := s.ensureDelta(ctx, m); dirs != nil {
		return dirs, nil
	}
	return []string{own}, s.extract(ctx, s.snapshots.StoredTree(m.Root), own, nil)
}

// extract extracts a tree into a new layer.
func (s *layerStore) extract(ctx context.Context, t snapshot.Tree, dir string, opts *snapshot.RestoreOptions) error {
	fresh := filepath.Join(s.dir, newLayerPrefix+driver.NewID())
	if err := os.MkdirAll(fresh, 0o755); err != nil {
		return err
	}
	err := snapshot.Extract(ctx, t, fresh, opts)
	if err == nil {
		driver.Step(ctx, "layer filled")
		err = os.Rename(fresh, dir)
	}
	if err == nil {
		return nil
	}
	err = errors.Join(err, files.RemoveTree(fresh))
	if _, there := os.Lstat(dir); there == nil {
		return nil // another process extracted the same snapshot meanwhile
	}
	return err
}

// A layer with differences has the name deltaPrefix, and the digests of its snapshot and of
// the one below it. It is extracted when a directory that a workspace starts from has
// changed, which costs what has changed.

// mostDelta bounds the entries of such a layer: all of them are extracted again after each
// further change of the directory.
const mostDelta = 2000

// ensureDelta returns the layer with the differences of a snapshot from an earlier one of
// the same origin, and the layer of the latter. It returns nil if there is none: the
// snapshot's own layer does as well.
func (s *layerStore) ensureDelta(ctx context.Context, m *snapshot.Manifest) []string {
	found, err := filepath.Glob(filepath.Join(s.dir, deltaName(m.Root, "*")))
	if err != nil {
		return nil
	}
	for _, dir := range found {
		_, below := s.split(dir)
		if _, err := os.Lstat(below); err == nil {
			return []string{dir, below}
		}
	}
	old := s.findEarlier(ctx, m)
	if old == nil {
		return nil
	}
	t, err := s.snapshots.Delta(ctx, old.Root, m.Root, mostDelta)
	if err != nil || t == nil {
		return nil
	}
	dir := filepath.Join(s.dir, deltaName(m.Root, digestText(old.Root)))
	if s.extract(ctx, t, dir, &snapshot.RestoreOptions{Upper: true}) != nil {
		return nil
	}
	return []string{dir, s.of(old.Root)}
}

// findEarlier returns the newest other snapshot with the same labels, which say what it is
// of, that has a layer of its own; nil if there is none.
func (s *layerStore) findEarlier(ctx context.Context, m *snapshot.Manifest) *snapshot.Manifest {
	if len(m.Labels) == 0 {
		return nil
	}
	all, err := s.snapshots.List(ctx)
	if err != nil {
		return nil
	}
	for _, old := range all {
		if old.Base == (snapshot.Base{}) && old.Workspace == m.Workspace && maps.Equal(old.Labels, m.Labels) {
			if _, err := os.Lstat(s.of(old.Root)); err == nil {
				return old
			}
		}
	}
	return nil
}

func digestText(id snapshot.ID) string { return strings.TrimPrefix(id.String(), driver.DigestPrefix) }

// of returns the directory of the layer with a tree.
func (s *layerStore) of(root snapshot.ID) string {
	return filepath.Join(s.dir, digestText(root))
}

func deltaName(root snapshot.ID, below string) string {
	return deltaPrefix + digestText(root) + "-" + below
}

// split returns the layers that a layer with differences stands for and lies over, ""
// if dir is another layer.
func (s *layerStore) split(dir string) (whole, below string) {
	name, ok := strings.CutPrefix(filepath.Base(dir), deltaPrefix)
	digest, under, two := strings.Cut(name, "-")
	if !ok || !two {
		return "", ""
	}
	return filepath.Join(s.dir, digest), filepath.Join(s.dir, under)
}

// sweep removes layers that no workspace and no snapshot uses, and incomplete ones. It
// removes none while the state of a live workspace can't be read: it may be restored, and
// its layers are not known.
func (s *layerStore) sweep(ctx context.Context, live []string) error {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || s.snapshots == nil {
		return err
	}
	needed, err := s.needed(ctx, live)
	if fault.CauseOf(err) == fault.CauseCorrupt {
		s.log.Warn("sandbox: no layer is removed", "error", err)
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if whole, below := s.split(e.Name()); whole != "" && needed[whole] {
			needed[filepath.Join(s.dir, e.Name())], needed[below] = true, true
		}
	}
	var errs []error
	for _, e := range entries {
		path := filepath.Join(s.dir, e.Name())
		if digest, ok := rootfsDigest(e.Name()); ok && needed[filepath.Join(s.dir, digest)] {
			continue
		}
		info, err := e.Info()
		isRecent := err == nil && time.Since(info.ModTime()) < time.Hour
		if needed[path] || strings.HasPrefix(e.Name(), newLayerPrefix) && isRecent {
			continue
		}
		errs = append(errs, files.RemoveTree(path))
	}
	return errors.Join(errs...)
}

// needed lists the layers that workspaces and snapshots use or may start from.
func (s *layerStore) needed(ctx context.Context, live []string) (map[string]bool, error) {
	needed := map[string]bool{}
	all, err := s.snapshots.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, m := range all {
		dirs, err := m.Base.Dirs()
		if err != nil {
			continue // a snapshot of another provider
		}
		for _, dir := range dirs {
			needed[dir] = true
		}
		needed[s.of(m.Root)] = true
	}
	entries, err := os.ReadDir(s.store.Path())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		if !driver.ValidID(e.Name()) {
			continue
		}
		m, err := s.store.Read(e.Name())
		if err != nil {
			_, missing := os.Lstat(s.store.Path(e.Name(), wsdir.StateName(Kind)))
			if missing == nil && slices.Contains(live, e.Name()) {
				return nil, err
			}
			continue // another kind, or to be removed
		}
		if j, err := sealSection.Get(m); err == nil && j != nil {
			needed[j.Layer] = true
		}
		var opts Options
		if err := driver.DecodeStrict(m.Own, &opts); err == nil {
			for _, dir := range append(opts.lowerDirs(), opts.RootfsDir) {
				needed[dir] = true
			}
		}
	}
	return needed, nil
}

// prepare creates an empty directory with the owner and mode of another one, whose
// file system it syncs.
func (s *layerStore) prepare(layer, like string) error {
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Lstat(like, &st); err != nil {
		return err
	}
	f, err := os.Open(like)
	if err != nil {
		return err
	}
	err = unix.Syncfs(int(f.Fd()))
	f.Close()
	if err != nil {
		return err
	}
	if err := os.Mkdir(layer, 0o700); err != nil {
		return err
	}
	if s.ids.root {
		err = os.Lchown(layer, int(st.Uid), int(st.Gid))
	}
	if err == nil {
		err = unix.Fchmodat(unix.AT_FDCWD, layer, st.Mode&0o7777, 0)
	}
	if err != nil {
		return errors.Join(err, os.Remove(layer))
	}
	return nil
}

// A workspace with the option rootfs has the files of an image in place of the programs of
// the host: the directories of the image are mounted read-only. They are extracted once, into
// a directory beside the layers, with an /etc that knows the user of the workload.

// rootfsPrefix starts the names of extracted images: rootfs-DIGEST-USER.
const rootfsPrefix = "rootfs-"

// rootfsDigest returns the digest in the name of an extracted image.
func rootfsDigest(name string) (string, bool) {
	rest, ok := strings.CutPrefix(name, rootfsPrefix)
	digest, _, named := strings.Cut(rest, "-")
	return digest, ok && named
}

// checkRootfs finds the image of a workspace, and extracts it the first time. An existing
// workspace keeps its own.
func (p *Provider) checkRootfs(ctx context.Context, spec driver.Spec, opts *Options, l *level) error {
	if opts.Rootfs == "" {
		return nil
	}
	if l.name != driver.IsolationNamespaces || p.cfg.Snapshots == nil {
		return fmt.Errorf("image: %w: it needs isolation %s", fault.Unsupported, driver.IsolationNamespaces)
	}
	if m, err := p.store.Read(spec.ID); err == nil {
		var was Options
		if err := driver.DecodeStrict(m.Own, &was); err == nil && was.Rootfs == opts.Rootfs {
			opts.RootfsDir = was.RootfsDir
			return nil
		}
	}
	m, err := p.cfg.Snapshots.Get(ctx, opts.Rootfs)
	if err == nil && m.Base.Name != "" {
		err = fmt.Errorf("image: %w: the snapshot is not complete", fault.InvalidArgument)
	}
	if err == nil {
		opts.RootfsDir, err = p.layers.extractImage(ctx, m, opts.userName())
	}
	return err
}

// extractImage returns the directory with the files of an image.
func (s *layerStore) extractImage(ctx context.Context, m *snapshot.Manifest, user string) (string, error) {
	dir := filepath.Join(s.dir, rootfsPrefix+strings.TrimPrefix(m.Root.String(), driver.DigestPrefix)+"-"+user)
	if _, err := os.Lstat(dir); err == nil {
		return dir, nil
	}
	fresh := filepath.Join(s.dir, newLayerPrefix+driver.NewID())
	if err := os.MkdirAll(fresh, 0o755); err != nil {
		return "", fmt.Errorf("image: %w: %w", fault.Of(err), err)
	}
	err := snapshot.Extract(ctx, s.snapshots.StoredTree(m.Root), fresh, nil)
	if err == nil {
		err = rootfs.Complete(fresh, user)
	}
	if err == nil {
		err = os.Rename(fresh, dir)
	}
	if err == nil {
		return dir, nil
	}
	err = errors.Join(err, files.RemoveTree(fresh))
	if _, there := os.Lstat(dir); there == nil {
		return dir, nil // another process extracted the same image meanwhile
	}
	return "", fmt.Errorf("image: %w", err)
}
