package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/host/files"
	"github.com/croft-run/croft/host/guest/supervise"
	"github.com/croft-run/croft/host/wsdir"
	"github.com/croft-run/croft/workspace/driver"
)

// A directory of the host that is imported may be a mount in the workspace: an
// overlay, so that what is written stays in the workspace, or the directory
// itself, read-only. Nothing is copied then. What was imported read-only by
// copying is a read-only mount of itself, which no chmod undoes.
//
// Such mounts are in the guest's world alone. They are noted in the state of the
// workspace and made again with each guest. A mount is found by what its mount
// point is and not by its name: the host renames a mount point, or a directory
// above one, with the mount on it, and by removing one it ends the mount. So who
// changes such names works on the directories below the mounts.

const (
	stagedName = "staged" // in the directory of a workspace: what was written over what was imported
	maxStaged  = 256
)

// stagedSection is the section of the state with the mounts.
const stagedSection = wsdir.Section[[]staged]("staged")

// A staged is one mount.
type staged struct {
	Name     string `json:"name"`             // where the mount point was made
	Point    point  `json:"point"`            // what it is
	Source   string `json:"source,omitempty"` // directory of the host; "" is the mount point itself
	ReadOnly bool   `json:"readOnly,omitempty"`
	Layer    string `json:"layer,omitempty"` // directory with what was written, below stagedName
}

// A point tells a directory from all others, also from one that has its number
// after it is gone.
type point struct {
	Ino  uint64 `json:"ino"`
	Born int64  `json:"born"`
}

// stages reports whether a workspace can have such mounts while nothing lies below
// its files: those in their directory, behind namespaces that this process may
// enter.
func (p *Provider) stages(l *level, m *wsdir.State) bool {
	return p.ids.root && l.name == driver.IsolationNamespaces && m.Dir == "" && !p.limitedDisk(l, m.Policy)
}

func (h *handle) stagedPath(elem ...string) string {
	return h.p.ground.Path(append([]string{h.id, stagedName}, elem...)...)
}

// staged reports whether there may be mounts below the files.
func (h *handle) staged() bool {
	m := h.plot.State()
	return h.stages && stagedSection.In(&m)
}

func (h *handle) readStaged() ([]staged, error) {
	m, err := h.att.Dir.Read()
	if err != nil {
		return nil, fmt.Errorf("sandbox: the mounts of the workspace: %w", err)
	}
	list, err := stagedSection.Get(m)
	if err != nil || list == nil {
		return nil, err
	}
	return *list, nil
}

// writeStaged replaces the list. Without mounts files are plainly in their directory
// again.
func (h *handle) writeStaged(ctx context.Context, list []staged) error {
	_, err := h.att.Dir.Update(ctx, false, func(m *wsdir.State) error {
		if len(list) == 0 {
			return stagedSection.Set(m, nil)
		}
		return stagedSection.Set(m, &list)
	})
	return err
}

// over is the guest's module, with changes of names made below the mounts.
func (h *handle) over(g *live) *driver.FS {
	own := *g.files
	own.Files = overFiles{g.files.Files, h, g}
	own.Rename = func(ctx context.Context, from, to string, opts *driver.RenameOptions) error {
		a, b := g.onMount(from), g.onMount(to)
		if !a && !b {
			return h.plot.Direct().Rename(ctx, from, to, opts)
		}
		err := g.files.Rename(ctx, from, to, opts)
		if !errors.Is(err, fault.Unsupported) || a == b {
			return err
		}
		return moveAcross(ctx, &own, from, to, opts)
	}
	return &own
}

// moveAcross renames from one mount to another.
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

type overFiles struct {
	driver.Files
	h *handle
	g *live
}

// Remove removes a mount point, or what holds one, below the mounts.
func (f overFiles) Remove(ctx context.Context, name string, opts *driver.RemoveOptions) error {
	if !f.g.onMount(name) {
		return f.h.plot.Direct().Remove(ctx, name, opts)
	}
	return f.Files.Remove(ctx, name, opts)
}

// onMount reports whether a name is of something in a staged mount.
func (g *live) onMount(name string) bool {
	dir, err := g.openBeneath(path.Dir(name))
	if err != nil {
		return false // there is nothing in there to be changed
	}
	defer dir.Close()
	id, err := mountID(int(dir.Fd()))
	return err == nil && id != g.mount
}

func (g *live) openBeneath(name string) (*os.File, error) {
	fd, err := unix.Openat2(int(g.top.Fd()), name, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// importDir brings a directory in by a mount where that is allowed and can be, and
// makes what was copied read-only a read-only mount.
func (h *handle) importDir(copied func(ctx context.Context, dir, name string, opts *driver.ImportOptions) (driver.ImportResult, error)) func(ctx context.Context, dir, name string, opts *driver.ImportOptions) (driver.ImportResult, error) {
	return func(ctx context.Context, dir, name string, opts *driver.ImportOptions) (driver.ImportResult, error) {
		whole := len(opts.Exclude) == 0 && opts.MaxBytes == 0 && opts.MaxFiles == 0
		o := h.shape()
		plain := len(o.lower()) == 0
		if opts.Mount && whole && plain {
			res, err := h.stage(ctx, dir, name, opts.ReadOnly)
			if !errors.Is(err, fault.Unsupported) {
				return res, err
			}
		}
		res, err := copied(ctx, dir, name, opts)
		if err != nil || !opts.ReadOnly {
			return res, err
		}
		err = h.protect(ctx, name)
		if errors.Is(err, fault.Unsupported) {
			return res, nil // by its mode alone
		}
		if err != nil {
			return driver.ImportResult{}, errors.Join(err, h.plot.Direct().Remove(context.WithoutCancel(ctx), name, &driver.RemoveOptions{Recursive: true}))
		}
		return res, nil
	}
}

// protect makes what was brought in without permission to write a read-only mount.
func (h *handle) protect(ctx context.Context, name string) error {
	if o := h.shape(); len(o.lower()) > 0 {
		return fmt.Errorf("sandbox: make %s a read-only mount: %w: the workspace lies over a template", name, fault.Unsupported)
	}
	_, err := h.stage(ctx, "", name, true)
	return err
}

// stage makes a mount at name, where nothing may be unless the source is "", which
// is what is there. Unsupported means that nothing was made.
func (h *handle) stage(ctx context.Context, source, name string, readOnly bool) (res driver.ImportResult, err error) {
	if h.plot.State().Policy.ReadOnly {
		return res, fmt.Errorf("sandbox: import %s: %w: the workspace is read-only", name, fault.PermissionDenied)
	}
	if source != "" {
		if source, err = h.p.ground.CheckHost(source); err != nil {
			return res, fmt.Errorf("sandbox: import by a mount: %w: %w", fault.Unsupported, err)
		}
		if res, err = countTree(ctx, source); err != nil {
			return res, err
		}
	}
	g, err := h.att.Guest(ctx)
	if err != nil {
		return res, err
	}
	lock, err := supervise.Lock(ctx, h.p.ground.Path(h.id))
	if err != nil {
		return res, fmt.Errorf("sandbox: lock the guest: %w", err)
	}
	defer lock.Close() //nolint:errcheck // the lock ends with the descriptor
	if err := h.reachTop(g); err != nil {
		return res, fmt.Errorf("sandbox: import by a mount: %w: %w", fault.Unsupported, err)
	}
	if err := h.addStaged(ctx, g, staged{Name: name, Source: source, ReadOnly: readOnly}); err != nil {
		return res, err
	}
	res.Method = driver.ImportMount
	return res, nil
}

// addStaged makes a mount and notes it first. The lock of the guest is held.
func (h *handle) addStaged(ctx context.Context, g *live, s staged) (err error) {
	list, err := h.pruneStaged(ctx)
	if err != nil {
		return err
	}
	if len(list) >= maxStaged || g.onMount(s.Name) {
		return fmt.Errorf("sandbox: import by a mount: %w: there are %d already, or the place is in one", fault.Unsupported, len(list))
	}
	direct := h.plot.Direct()
	if s.Source != "" {
		if err := direct.Mkdir(ctx, s.Name, &driver.MkdirOptions{}); err != nil {
			return err
		}
		defer func() {
			if err != nil {
				err = errors.Join(err, direct.Remove(context.WithoutCancel(ctx), s.Name, &driver.RemoveOptions{}), h.writeStaged(context.WithoutCancel(ctx), list))
			}
		}()
		if s.Layer, err = h.makeLayer(s); err != nil {
			return fmt.Errorf("sandbox: import by a mount: %w: %w", fault.Unsupported, err)
		}
	}
	at, err := g.openBeneath(s.Name)
	if err != nil {
		return fmt.Errorf("sandbox: import by a mount: %w: %w", fault.Of(err), err)
	}
	defer at.Close()
	if s.Point, err = pointOf(at); err == nil {
		err = h.writeStaged(ctx, append(slices.Clone(list), s))
	}
	if err == nil {
		driver.Step(ctx, "mount noted")
		err = h.mount(g, s, at)
	}
	if err != nil {
		return fmt.Errorf("sandbox: import by a mount: %w: %w", fault.Unsupported, err)
	}
	return g.show(h)
}

// makeLayer makes room for what is written over a source, for the workload.
func (h *handle) makeLayer(s staged) (string, error) {
	if s.ReadOnly {
		return "", nil
	}
	info, err := os.Stat(s.Source)
	if err != nil {
		return "", err
	}
	layer := driver.NewID()
	if err := h.p.freshLayer(h.stagedPath(layer)); err != nil {
		return "", err
	}
	return layer, os.Chmod(h.stagedPath(layer, "upper"), info.Mode().Perm()|0o700)
}

// reachTop opens the workspace as the guest sees it, once.
func (h *handle) reachTop(g *live) error {
	if g.top != nil {
		return nil
	}
	rec := supervise.ReadRecord(h.att.Dir)
	if rec == nil {
		return fmt.Errorf("no guest is noted: %w", fault.Evicted)
	}
	world := fmt.Sprintf("/proc/%d", rec.PID)
	top, err := os.OpenFile(world+"/root"+inside, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	ns, err := os.Open(world + "/ns/mnt")
	if err != nil {
		return errors.Join(err, top.Close())
	}
	if err := h.recognizeTop(rec, top); err != nil {
		return errors.Join(err, top.Close(), ns.Close())
	}
	if g.mount, err = mountID(int(top.Fd())); err != nil {
		return errors.Join(err, top.Close(), ns.Close())
	}
	g.top, g.ns = top, ns
	return nil
}

// recognizeTop makes sure that it is the directory of the workspace, in the world
// of its guest: what the guest says is not asked for.
func (h *handle) recognizeTop(rec *supervise.Record, top *os.File) error {
	if !rec.Alive() {
		return fmt.Errorf("the guest has ended: %w", fault.Evicted)
	}
	m := h.plot.State()
	is, err := files.Identify(h.p.ground.Files(&m))
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(top.Fd()), &st); err != nil {
		return err
	}
	if st.Dev != is.Dev || st.Ino != is.Ino {
		return fmt.Errorf("the mount is another one: %w", fault.Failed)
	}
	return nil
}

// show makes the guest's view the one by which files are reached.
func (g *live) show(h *handle) error {
	if g.files != nil {
		return nil
	}
	m := h.plot.State()
	return g.use(g.top, nil, launchSpec{policy: m.Policy, gate: h.plot.CommitGuard(&m)})
}

// remount makes the mounts that a guest does not have. The lock of the guest is
// held.
func (h *handle) remount(ctx context.Context, g *live) error {
	if err := h.reachTop(g); err != nil {
		return fmt.Errorf("sandbox: reach the files: %w: %w", fault.Failed, err)
	}
	list, err := h.pruneStaged(ctx)
	if err != nil {
		return err
	}
	for _, s := range list {
		at, err := h.where(s)
		if err == nil {
			err = h.mountAt(g, s, at)
		}
		if err != nil {
			return fmt.Errorf("sandbox: mount what was imported to %s: %w: %w", s.Name, fault.Failed, err)
		}
	}
	return g.show(h)
}

func (h *handle) mountAt(g *live, s staged, name string) error {
	at, err := g.openBeneath(name)
	if err != nil {
		return err
	}
	defer at.Close()
	if id, err := mountID(int(at.Fd())); err != nil || id != g.mount {
		return err // it is there: another process made it in the same guest
	}
	if is, err := pointOf(at); err != nil || is != s.Point {
		return fmt.Errorf("its mount point is being moved: %w", errors.Join(fault.Unavailable, err))
	}
	return h.mount(g, s, at)
}

// mount puts a mount on a directory of the guest's world.
func (h *handle) mount(g *live, s staged, at *os.File) error {
	tree, err := h.stagedTree(g, s, at)
	if err != nil {
		return err
	}
	defer tree.Close()
	return inWorld(g.ns, func() error {
		return unix.MoveMount(int(tree.Fd()), "", int(at.Fd()), "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	})
}

// stagedTree returns a detached mount of what is to be shown.
func (h *handle) stagedTree(g *live, s staged, at *os.File) (*os.File, error) {
	attr := uint64(unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV)
	if s.ReadOnly || h.plot.State().Policy.ReadOnly {
		attr |= unix.MOUNT_ATTR_RDONLY
	}
	var tree *os.File
	var err error
	if s.Source == "" {
		err = inWorld(g.ns, func() error {
			fd, err := unix.OpenTree(int(at.Fd()), "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
			if err == nil {
				tree = os.NewFile(uintptr(fd), s.Name)
			}
			return err
		})
	} else {
		tree, err = h.p.mapped(s.Source, false)
	}
	if err != nil {
		return nil, err
	}
	if s.Layer != "" {
		lower := tree
		defer lower.Close()
		if err := h.p.freshLayer(h.stagedPath(s.Layer)); err != nil {
			return nil, err
		}
		if tree, err = overlayOf(lower, h.stagedPath(s.Layer), h.plot.State().Policy.Durable); err != nil {
			return nil, err
		}
	}
	if err := unix.MountSetattr(int(tree.Fd()), "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: attr}); err != nil {
		return nil, errors.Join(err, tree.Close())
	}
	return tree, nil
}

// overlayOf returns a detached overlay: lower below, and what is written in layer.
func overlayOf(lower *os.File, layer string, durable bool) (*os.File, error) {
	fd, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd) //nolint:errcheck // nothing is lost with it
	steps := [][2]string{{"source", "croft"}, {"upperdir", filepath.Join(layer, "upper")}, {"workdir", filepath.Join(layer, "work")}}
	if err := unix.FsconfigSetFd(fd, "lowerdir+", int(lower.Fd())); err != nil {
		return nil, fmt.Errorf("the layer below: %w", err)
	}
	for _, s := range steps {
		if err := unix.FsconfigSetString(fd, s[0], s[1]); err != nil {
			return nil, fmt.Errorf("%s: %w", s[0], err)
		}
	}
	if !durable {
		if err := unix.FsconfigSetFlag(fd, "volatile"); err != nil {
			return nil, err
		}
	}
	if err := unix.FsconfigCreate(fd); err != nil {
		return nil, fmt.Errorf("make an overlay: %w", err)
	}
	tree, err := unix.Fsmount(fd, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(tree), layer), nil
}

// inWorld calls f on a thread that sees the mounts of a guest, and serves nobody
// else afterwards.
func inWorld(ns *os.File, f func() error) error {
	answer := make(chan error, 1)
	go func() { // ends with this call, which waits for the answer
		runtime.LockOSThread() // and never unlocks: the thread ends with the goroutine
		err := unix.Unshare(unix.CLONE_FS)
		if err == nil {
			err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNS)
		}
		if err == nil {
			err = f()
		}
		answer <- err
	}()
	return <-answer
}

// pointOf tells what a directory is, below the mount that may be on it.
func pointOf(dir *os.File) (point, error) {
	var st unix.Statx_t
	if err := unix.Statx(int(dir.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_INO|unix.STATX_BTIME, &st); err != nil {
		return point{}, err
	}
	if st.Mask&unix.STATX_BTIME == 0 {
		return point{}, errors.New("the file system does not tell when a directory was made")
	}
	return point{st.Ino, st.Btime.Sec*1e9 + int64(st.Btime.Nsec)}, nil
}

// pruneStaged forgets the mounts whose mount points are gone, with what was
// written in them.
func (h *handle) pruneStaged(ctx context.Context) ([]staged, error) {
	list, err := h.readStaged()
	if err != nil {
		return nil, err
	}
	kept := list[:0:0]
	for _, s := range list {
		name, err := h.where(s)
		if err != nil {
			return nil, err
		}
		if name != "" {
			s.Name = name
			kept = append(kept, s)
			continue
		}
		if s.Layer != "" {
			if err := files.RemoveTree(h.stagedPath(s.Layer)); err != nil {
				return nil, err
			}
		}
	}
	if len(kept) == len(list) {
		return kept, nil
	}
	return kept, h.writeStaged(ctx, kept)
}

// where returns where the mount point of a mount is by now; "" is nowhere.
func (h *handle) where(s staged) (string, error) {
	m := h.plot.State()
	root := h.p.ground.Files(&m)
	is := func(name string) bool {
		dir, err := os.OpenFile(name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if err != nil {
			return false
		}
		defer dir.Close()
		p, err := pointOf(dir)
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
		return nil // what can't be read holds no mount point
	})
	if err != nil || found == "" {
		return "", err
	}
	rel, err := filepath.Rel(root, found)
	return filepath.ToSlash(rel), err
}

// countTree counts what a mount will show.
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
