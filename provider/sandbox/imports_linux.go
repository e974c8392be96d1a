package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/internal/host/guest/supervise"
	"github.com/croft-run/croft/internal/host/wsdir"
	"github.com/croft-run/croft/provider/sandbox/internal/mount"
	"github.com/croft-run/croft/workspace/driver"
)

// A directory of the host can be imported by mount instead of copied: as an overlayfs, so
// that writes stay in the workspace, or as a read-only bind mount. A read-only import that
// was copied becomes a read-only self bind mount, which the workload can't undo by chmod.
//
// The mounts exist only in the guest's mount namespace. They are recorded in the state,
// section imports, and mounted again in each new guest. A mount point is identified by
// inode and birth time, not by its name: renaming a directory on the host moves the mount
// with it, and removing the directory ends the mount. So renames and removals of mount
// points are made on the directory of the files, below the mounts.

const (
	importsName = "imports" // in the directory of a workspace: upper layers of imports
	maxImports  = 256
)

// importsSection is the section of the state with the imports by mount.
const importsSection = wsdir.Section[[]importMount]("imports")

// An importMount is one import by mount.
type importMount struct {
	Name     string     `json:"name"`             // path of the mount point when it was made
	Point    mountPoint `json:"point"`            // its identity
	Source   string     `json:"source,omitempty"` // directory of the host; "" for a self bind mount
	ReadOnly bool       `json:"readOnly,omitempty"`
	Layer    string     `json:"layer,omitempty"` // directory of upper and work, below importsName
}

// A mountPoint identifies a directory. The birth time distinguishes it from a later directory
// with the same inode number.
type mountPoint struct {
	Ino  uint64 `json:"ino"`
	Born int64  `json:"born"`
}

// canImport reports whether a workspace can have imports by mount: its files are in their
// directory, and this process may enter the guest's mount namespace.
func (p *Provider) canImport(l *level, m *wsdir.State) bool {
	return p.ids.root && l.name == driver.IsolationNamespaces && m.Dir == "" && !p.ids.hasDiskImage(l, m.Policy)
}

func (h *handle) importsPath(elem ...string) string {
	return h.p.store.Path(append([]string{h.id, importsName}, elem...)...)
}

// hasImports reports whether the state has imports by mount.
func (h *handle) hasImports() bool {
	m := h.dir.State()
	return h.canImport && importsSection.In(&m)
}

// writeImports replaces the list. With an empty list, files are reached in their directory
// again.
func (h *handle) writeImports(ctx context.Context, list []importMount) error {
	_, err := h.att.Dir.Update(ctx, false, func(m *wsdir.State) error {
		if len(list) == 0 {
			return importsSection.Set(m, nil)
		}
		return importsSection.Set(m, &list)
	})
	return err
}

// importsModule returns the guest's module, with renames and removals of mount points made
// below the mounts.
func (h *handle) importsModule(g *guestConn) *driver.FS {
	own := *g.files
	own.Files = importsFiles{g.files.Files, h, g}
	own.Rename = func(ctx context.Context, from, to string, opts *driver.RenameOptions) error {
		a, b := g.isInImport(from), g.isInImport(to)
		if !a && !b {
			return h.dir.Direct().Rename(ctx, from, to, opts)
		}
		err := g.files.Rename(ctx, from, to, opts)
		if !errors.Is(err, fault.Unsupported) || a == b {
			return err
		}
		return moveAcross(ctx, &own, from, to, opts)
	}
	return &own
}

// moveAcross renames from one mount to another, by a copy.
func moveAcross(ctx context.Context, f *driver.FS, from, to string, opts *driver.RenameOptions) error {
	o := &driver.CopyOptions{Recursive: true}
	if opts != nil {
		o.CreateOnly = opts.CreateOnly
	}
	if err := f.Copy(ctx, from, to, o); err != nil {
		return err
	}
	return f.Remove(ctx, from, &driver.RemoveOptions{Recursive: true})
}

type importsFiles struct {
	driver.Files
	h *handle
	g *guestConn
}

// Remove removes a mount point, or a directory above one, below the mounts.
func (f importsFiles) Remove(ctx context.Context, name string, opts *driver.RemoveOptions) error {
	if !f.g.isInImport(name) {
		return f.h.dir.Direct().Remove(ctx, name, opts)
	}
	return f.Files.Remove(ctx, name, opts)
}

// isInImport reports whether a path lies in an import.
func (g *guestConn) isInImport(name string) bool {
	dir, err := g.openBeneath(path.Dir(name))
	if err != nil {
		return false // its directory does not exist
	}
	defer dir.Close()
	id, err := mount.ID(int(dir.Fd()))
	return err == nil && id != g.rootMount
}

func (g *guestConn) openBeneath(name string) (*os.File, error) {
	fd, err := unix.Openat2(int(g.guestRoot.Fd()), name, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// importDir returns an Import that imports by mount if that is allowed and supported, else
// by copied, and makes a read-only copy a read-only mount.
func (h *handle) importDir(copied func(ctx context.Context, dir, name string, opts *driver.ImportOptions) (driver.ImportResult, error)) func(ctx context.Context, dir, name string, opts *driver.ImportOptions) (driver.ImportResult, error) {
	return func(ctx context.Context, dir, name string, opts *driver.ImportOptions) (driver.ImportResult, error) {
		whole := len(opts.Exclude) == 0 && opts.MaxBytes == 0 && opts.MaxFiles == 0
		o := h.currentOptions()
		plain := len(o.lowerDirs()) == 0
		if opts.Mount && whole && plain {
			res, err := h.importByMount(ctx, dir, name, opts.ReadOnly)
			if !errors.Is(err, fault.Unsupported) {
				return res, err
			}
		}
		res, err := copied(ctx, dir, name, opts)
		if err != nil || !opts.ReadOnly {
			return res, err
		}
		err = h.protectImported(ctx, name)
		if errors.Is(err, fault.Unsupported) {
			return res, nil // only its mode protects it
		}
		if err != nil {
			return driver.ImportResult{}, errors.Join(err, h.dir.Direct().Remove(context.WithoutCancel(ctx), name, &driver.RemoveOptions{Recursive: true}))
		}
		return res, nil
	}
}

// protectImported makes a read-only copy a read-only self bind mount.
func (h *handle) protectImported(ctx context.Context, name string) error {
	if o := h.currentOptions(); len(o.lowerDirs()) > 0 {
		return fmt.Errorf("sandbox: make %s a read-only mount: %w: the workspace is an overlayfs", name, fault.Unsupported)
	}
	_, err := h.importByMount(ctx, "", name, true)
	return err
}

// importByMount mounts source at name, which must not exist. With source "" it makes the
// existing directory name a self bind mount. Unsupported means that nothing was changed.
func (h *handle) importByMount(ctx context.Context, source, name string, readOnly bool) (res driver.ImportResult, err error) {
	if h.dir.State().Policy.ReadOnly {
		return res, fmt.Errorf("sandbox: import %s: %w: the workspace is read-only", name, fault.PermissionDenied)
	}
	if source != "" {
		if source, err = h.p.store.CheckHost(source); err != nil {
			return res, fmt.Errorf("sandbox: import by mount: %w: %w", fault.Unsupported, err)
		}
		if res, err = countTree(ctx, source); err != nil {
			return res, err
		}
	}
	g, err := h.att.Guest(ctx)
	if err != nil {
		return res, err
	}
	lock, err := supervise.Lock(ctx, h.p.store.Path(h.id))
	if err != nil {
		return res, fmt.Errorf("sandbox: lock the guest: %w", err)
	}
	defer lock.Close() //nolint:errcheck // the lock ends with the descriptor
	if err := h.openGuestRoot(g); err != nil {
		return res, fmt.Errorf("sandbox: import by mount: %w: %w", fault.Unsupported, err)
	}
	if err := h.addImport(ctx, g, importMount{Name: name, Source: source, ReadOnly: readOnly}); err != nil {
		return res, err
	}
	res.Method = driver.ImportMount
	return res, nil
}

// addImport records an import and mounts it. It requires the guest lock.
func (h *handle) addImport(ctx context.Context, g *guestConn, s importMount) (err error) {
	list, err := h.pruneImports(ctx)
	if err != nil {
		return err
	}
	if len(list) >= maxImports || g.isInImport(s.Name) {
		return fmt.Errorf("sandbox: import by mount: %w: there are %d of at most %d imports, or %s lies in one", fault.Unsupported, len(list), maxImports, s.Name)
	}
	direct := h.dir.Direct()
	if s.Source != "" {
		if err := direct.Mkdir(ctx, s.Name, &driver.MkdirOptions{}); err != nil {
			return err
		}
		defer func() {
			if err != nil {
				err = errors.Join(err, direct.Remove(context.WithoutCancel(ctx), s.Name, &driver.RemoveOptions{}), h.writeImports(context.WithoutCancel(ctx), list))
			}
		}()
		if s.Layer, err = h.createImportLayer(s); err != nil {
			return fmt.Errorf("sandbox: import by mount: %w: %w", fault.Unsupported, err)
		}
	}
	at, err := g.openBeneath(s.Name)
	if err != nil {
		return fmt.Errorf("sandbox: import by mount: %w: %w", fault.Of(err), err)
	}
	defer at.Close()
	if s.Point, err = identifyMountPoint(at); err == nil {
		err = h.writeImports(ctx, append(slices.Clone(list), s))
	}
	if err == nil {
		driver.Step(ctx, "mount noted")
		err = h.mountImport(g, s, at)
	}
	if err != nil {
		return fmt.Errorf("sandbox: import by mount: %w: %w", fault.Unsupported, err)
	}
	return g.ensureFiles(h)
}

// createImportLayer creates the upper layer of a writable import.
func (h *handle) createImportLayer(s importMount) (string, error) {
	if s.ReadOnly {
		return "", nil
	}
	info, err := os.Stat(s.Source)
	if err != nil {
		return "", err
	}
	layer := driver.NewID()
	if err := h.p.ids.resetLayer(h.importsPath(layer)); err != nil {
		return "", err
	}
	return layer, os.Chmod(h.importsPath(layer, "upper"), info.Mode().Perm()|0o700)
}

// openGuestRoot opens the workspace in the guest's mount namespace, once.
func (h *handle) openGuestRoot(g *guestConn) error {
	if g.guestRoot != nil {
		return nil
	}
	rec := supervise.ReadRecord(h.att.Dir)
	if rec == nil {
		return fmt.Errorf("the state has no guest: %w", fault.Evicted)
	}
	proc, opts := fmt.Sprintf("/proc/%d", rec.PID), h.currentOptions()
	top, err := os.OpenFile(proc+"/root"+workspaceAt("", &opts), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	ns, err := os.Open(proc + "/ns/mnt")
	if err != nil {
		return errors.Join(err, top.Close())
	}
	if err := h.verifyGuestRoot(rec, top); err != nil {
		return errors.Join(err, top.Close(), ns.Close())
	}
	if g.rootMount, err = mount.ID(int(top.Fd())); err != nil {
		return errors.Join(err, top.Close(), ns.Close())
	}
	g.guestRoot, g.mountNS = top, ns
	return nil
}

// verifyGuestRoot verifies by device and inode that top is the directory of the workspace,
// and that the guest still lives. It does not rely on answers of the guest.
func (h *handle) verifyGuestRoot(rec *supervise.Record, top *os.File) error {
	if !rec.Alive() {
		return fmt.Errorf("the guest has ended: %w", fault.Evicted)
	}
	m := h.dir.State()
	is, err := files.Identify(h.p.store.Files(&m))
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(top.Fd()), &st); err != nil {
		return err
	}
	if st.Dev != is.Dev || st.Ino != is.Ino {
		return fmt.Errorf("the guest's mount does not show the directory of the workspace: %w", fault.Failed)
	}
	return nil
}

// ensureFiles opens the files through the guest's mount, once.
func (g *guestConn) ensureFiles(h *handle) error {
	if g.files != nil {
		return nil
	}
	m := h.dir.State()
	return g.setRoot(g.guestRoot, nil, launchSpec{policy: m.Policy, commitGuard: h.dir.CommitGuard(&m)})
}

// restoreImports mounts the imports that the guest does not have. It requires the guest
// lock.
func (h *handle) restoreImports(ctx context.Context, g *guestConn) error {
	if err := h.openGuestRoot(g); err != nil {
		return fmt.Errorf("sandbox: open the files: %w: %w", fault.Failed, err)
	}
	list, err := h.pruneImports(ctx)
	if err != nil {
		return err
	}
	for _, s := range list {
		at, err := h.findMountPoint(s)
		if err == nil {
			err = h.mountImportAt(g, s, at)
		}
		if err != nil {
			return fmt.Errorf("sandbox: mount the import %s: %w: %w", s.Name, fault.Failed, err)
		}
	}
	return g.ensureFiles(h)
}

func (h *handle) mountImportAt(g *guestConn, s importMount, name string) error {
	at, err := g.openBeneath(name)
	if err != nil {
		return err
	}
	defer at.Close()
	if id, err := mount.ID(int(at.Fd())); err != nil || id != g.rootMount {
		return err // another process mounted it in the same guest
	}
	if is, err := identifyMountPoint(at); err != nil || is != s.Point {
		return fmt.Errorf("its mount point is being moved: %w", errors.Join(fault.Unavailable, err))
	}
	return h.mountImport(g, s, at)
}

// mountImport attaches an import to a directory in the guest's mount namespace.
func (h *handle) mountImport(g *guestConn, s importMount, at *os.File) error {
	tree, err := h.importTree(g, s, at)
	if err != nil {
		return err
	}
	defer tree.Close()
	return mount.InNamespace(g.mountNS, func() error {
		return unix.MoveMount(int(tree.Fd()), "", int(at.Fd()), "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	})
}

// importTree returns the detached mount of an import.
func (h *handle) importTree(g *guestConn, s importMount, at *os.File) (*os.File, error) {
	attr := uint64(unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV)
	if s.ReadOnly || h.dir.State().Policy.ReadOnly {
		attr |= unix.MOUNT_ATTR_RDONLY
	}
	var tree *os.File
	var err error
	if s.Source == "" {
		err = mount.InNamespace(g.mountNS, func() error {
			fd, err := unix.OpenTree(int(at.Fd()), "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
			if err == nil {
				tree = os.NewFile(uintptr(fd), s.Name)
			}
			return err
		})
	} else {
		tree, err = h.p.ids.userns.CloneMapped(s.Source, false)
	}
	if err != nil {
		return nil, err
	}
	if s.Layer != "" {
		lower := tree
		defer lower.Close()
		if err := h.p.ids.resetLayer(h.importsPath(s.Layer)); err != nil {
			return nil, err
		}
		if tree, err = mount.NewOverlay(lower, h.importsPath(s.Layer), h.dir.State().Policy.Durable); err != nil {
			return nil, err
		}
	}
	if err := unix.MountSetattr(int(tree.Fd()), "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: attr}); err != nil {
		return nil, errors.Join(err, tree.Close())
	}
	return tree, nil
}

// identifyMountPoint returns the identity of a directory.
func identifyMountPoint(dir *os.File) (mountPoint, error) {
	var st unix.Statx_t
	if err := unix.Statx(int(dir.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_INO|unix.STATX_BTIME, &st); err != nil {
		return mountPoint{}, err
	}
	if st.Mask&unix.STATX_BTIME == 0 {
		return mountPoint{}, errors.New("the file system records no birth times")
	}
	return mountPoint{st.Ino, st.Btime.Sec*1e9 + int64(st.Btime.Nsec)}, nil
}

// pruneImports removes the imports whose mount points are gone, with their upper layers.
func (h *handle) pruneImports(ctx context.Context) ([]importMount, error) {
	m, err := h.att.Dir.Read()
	if err != nil {
		return nil, fmt.Errorf("sandbox: read the imports of the workspace: %w", err)
	}
	list, err := importsSection.Get(m)
	if err != nil || list == nil {
		return nil, err
	}
	var kept []importMount
	for _, s := range *list {
		name, err := h.findMountPoint(s)
		if err != nil {
			return nil, err
		}
		if name != "" {
			s.Name = name
			kept = append(kept, s)
			continue
		}
		if s.Layer != "" {
			if err := files.RemoveTree(h.importsPath(s.Layer)); err != nil {
				return nil, err
			}
		}
	}
	if len(kept) == len(*list) {
		return kept, nil
	}
	return kept, h.writeImports(ctx, kept)
}

// findMountPoint returns the present path of the mount point of an import, "" if it is gone.
func (h *handle) findMountPoint(s importMount) (string, error) {
	m := h.dir.State()
	root := h.p.store.Files(&m)
	is := func(name string) bool {
		dir, err := os.OpenFile(name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if err != nil {
			return false
		}
		defer dir.Close()
		p, err := identifyMountPoint(dir)
		return err == nil && p == s.Point
	}
	if is(filepath.Join(root, s.Name)) {
		return s.Name, nil
	}
	found := ""
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && is(name) {
			found = name
			return fs.SkipAll
		}
		return nil // a directory that can't be read contains no mount point
	})
	if err != nil || found == "" {
		return "", err
	}
	rel, err := filepath.Rel(root, found)
	return filepath.ToSlash(rel), err
}

// countTree counts the entries of a directory that is imported by mount.
func countTree(ctx context.Context, dir string) (res driver.ImportResult, err error) {
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != dir:
			res.Dirs++
		case d.Type().IsRegular():
			res.Files++
		case d.Type()&fs.ModeSymlink != 0:
			res.Symlinks++
		}
		return ctx.Err()
	})
	if err != nil {
		return res, fmt.Errorf("sandbox: import %s: %w: %w", dir, fault.Of(err), err)
	}
	return res, nil
}
