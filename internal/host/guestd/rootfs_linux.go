package guestd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/internal/host/guestproto/guestpb"
)

// setUpNamespaces sets up the namespaces that this process is alone in: rootfs, host
// name, loopback interface. No process of the workload runs yet.
func setUpNamespaces(cfg *guestproto.Config) error {
	if cfg.NewRoot != "" {
		if err := buildRoot(cfg); err != nil {
			return err
		}
		capInotify()
		capSocketBuffers()
	}
	for _, s := range cfg.Verify {
		if err := verifySource(cfg, s); err != nil {
			return setupError("check "+s.Path, err)
		}
	}
	if cfg.Hostname != "" {
		if err := unix.Sethostname([]byte(cfg.Hostname)); err != nil {
			return setupError("set the host name", err)
		}
	}
	if cfg.Loopback {
		if err := loopbackUp(); err != nil {
			return setupError("bring the loopback interface up", err)
		}
	}
	return nil
}

// capInotify lowers the inotify and fanotify limits of the user namespace to a quarter of
// the host's. The kernel charges both to the user that created the namespace, so a
// workload could otherwise exhaust them for the host user. A kernel that refuses the new
// limits leaves the workload with the host's.
func capInotify() {
	for name, of := range map[string]string{
		"max_inotify_instances": "inotify/max_user_instances", "max_inotify_watches": "inotify/max_user_watches",
		"max_fanotify_groups": "fanotify/max_user_groups", "max_fanotify_marks": "fanotify/max_user_marks",
	} {
		const part, least = 4, 8
		data, err := os.ReadFile("/proc/sys/fs/" + of)
		if err != nil {
			continue
		}
		if most, err := strconv.Atoi(strings.TrimSpace(string(data))); err == nil {
			os.WriteFile("/proc/sys/user/"+name, []byte(strconv.Itoa(max(most/part, least))), 0) //nolint:errcheck // see above
		}
	}
}

// capSocketBuffers lowers the first and the largest size of the buffers of TCP sockets in
// the network namespace: cgroup version 1 lets each socket have the first size, whatever
// the limit is. All traffic inside is on the loopback interface, which needs no more. A
// kernel that refuses the new sizes leaves the host's.
func capSocketBuffers() {
	for name, sizes := range map[string]string{"tcp_rmem": "4096 16384 1048576", "tcp_wmem": "4096 8192 1048576"} {
		os.WriteFile("/proc/sys/net/ipv4/"+name, []byte(sizes), 0) //nolint:errcheck // see above
	}
}

// verifySource compares the inode at a path with the one that the host checked, against
// TOCTOU, and closes the descriptor.
func verifySource(cfg *guestproto.Config, s guestproto.SameFile) error {
	fd, ok := cfg.Descriptors[s.File]
	if !ok {
		return fmt.Errorf("no descriptor %q: %w", s.File, fault.InvalidArgument)
	}
	var here, there unix.Stat_t
	if err := errors.Join(unix.Stat(s.Path, &here), unix.Fstat(fd, &there)); err != nil {
		return err
	}
	if here.Dev != there.Dev || here.Ino != there.Ino {
		return fmt.Errorf("the directory was replaced while the guest started: %w: start it again", fault.PermissionDenied)
	}
	delete(cfg.Descriptors, s.File)
	return unix.Close(fd)
}

func setupError(what string, err error) error {
	return fmt.Errorf("guest: %s: %w: %w", what, fault.Failed, err)
}

// buildRoot builds the rootfs: it mounts a scratch tmpfs at cfg.NewRoot and, in it, a
// second tmpfs "root"; mounts cfg.Mounts below "root"; then enters "root" by
// pivot_root(2) and detaches the old root, the scratch tmpfs with it. Afterwards no path
// leads to the old root; descriptors that were opened before still do.
func buildRoot(cfg *guestproto.Config) error {
	// Private propagation: no mount made here appears on the host.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return setupError("make the mounts private", err)
	}
	defer unix.Umask(unix.Umask(0o022)) // the workload must be able to read the rootfs, whatever the umask of the host process
	b := &rootfsBuilder{cfg: cfg, scratch: cfg.NewRoot}
	root := filepath.Join(b.scratch, "root")
	err := mountTmpfs(b.scratch)
	if err == nil {
		err = unix.Mkdir(root, 0o755)
	}
	if err == nil {
		err = mountTmpfs(root)
	}
	if err != nil {
		return setupError("mount the root", err)
	}
	for _, m := range cfg.Mounts {
		if err := b.mountOne(root, m); err != nil {
			return err
		}
	}
	if err := pivotRoot(root); err != nil {
		return err
	}
	err = unix.MountSetattr(unix.AT_FDCWD, "/", 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	if err != nil {
		return setupError("make the root read-only", err)
	}
	return nil
}

func mountTmpfs(at string) error {
	return unix.Mount("croft", at, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755")
}

// pivotRoot makes a directory the root of the mount namespace and detaches the old root.
func pivotRoot(root string) error {
	if err := unix.Chdir(root); err != nil {
		return setupError("enter the new root", err)
	}
	// With both arguments the same the old root ends up stacked on the new one,
	// and detaching it needs no directory of its own.
	if err := unix.PivotRoot(".", "."); err != nil {
		return setupError("pivot into the new root", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return setupError("detach the old root", err)
	}
	return os.Chdir("/")
}

// A rootfsBuilder mounts the entries of the rootfs. Sources that it creates for them stay
// in the scratch tmpfs, which is detached with the old root: an unmount for each would
// cost more than the rest of the setup.
type rootfsBuilder struct {
	cfg                 *guestproto.Config
	scratch             string // mount point of the scratch tmpfs
	scratchCount        int    // names used in scratch
	emptyFile, emptyDir string // sources of masks, read-only; "" until they are made
}

// nextScratch returns an unused path in the scratch tmpfs.
func (b *rootfsBuilder) nextScratch() string {
	b.scratchCount++
	return filepath.Join(b.scratch, strconv.Itoa(b.scratchCount))
}

// mountOne makes one entry of the rootfs.
func (b *rootfsBuilder) mountOne(root string, m guestproto.Mount) error {
	target := filepath.Join(root, m.Target)
	err := b.mountAt(target, m)
	if err != nil && m.Optional && errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return setupError(fmt.Sprintf("mount %s at %s", m.Kind, m.Target), err)
	}
	return nil
}

func (b *rootfsBuilder) mountAt(target string, m guestproto.Mount) error {
	cfg := b.cfg
	switch m.Kind {
	case guestproto.MountDir:
		return makeDir(target, m.Mode)
	case guestproto.MountSymlink:
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		return os.Symlink(m.Source, target)
	case guestproto.MountFile:
		return makeFile(target, m.Source, m.Mode)
	case guestproto.MountMask:
		return b.mask(target, m)
	case guestproto.MountBind:
		return bindMount(target, m)
	case guestproto.MountSelf:
		return selfBindMount(target, m)
	case guestproto.MountFD:
		return moveMount(cfg.Descriptors[m.Source], target, m)
	case guestproto.MountOverlay:
		return b.mountOverlay(target, m)
	case guestproto.MountTmpfs, guestproto.MountProc, guestproto.MountDevPTS, guestproto.MountMQueue:
		if err := makeDir(target, m.Mode); err != nil {
			return err
		}
		return mountFS(m, target, string(m.Kind), m.Data)
	}
	return fmt.Errorf("unknown kind %q: %w", m.Kind, fault.InvalidArgument)
}

func makeDir(target string, mode uint32) error {
	if mode == 0 {
		mode = 0o755
	}
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	err := os.Chmod(target, toFileMode(mode))
	if errors.Is(err, unix.EROFS) { // it exists in a read-only mount, and becomes a mount point
		return nil
	}
	return err
}

// toFileMode converts a mode of chmod(2) to an os.FileMode.
func toFileMode(mode uint32) os.FileMode {
	m := os.FileMode(mode & 0o777)
	if mode&unix.S_ISVTX != 0 {
		m |= os.ModeSticky
	}
	return m
}

func makeFile(target, content string, mode uint32) error {
	if mode == 0 {
		mode = 0o644
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	return os.WriteFile(target, []byte(content), toFileMode(mode))
}

// mountFlags returns the flags for mount(2).
func mountFlags(m guestproto.Mount) uintptr {
	flags := uintptr(unix.MS_NOSUID)
	if !m.Dev {
		flags |= unix.MS_NODEV
	}
	if m.NoExec {
		flags |= unix.MS_NOEXEC
	}
	return flags
}

// mountFS mounts a new file system.
func mountFS(m guestproto.Mount, target, kind, data string) error {
	err := unix.Mount(kind, target, kind, mountFlags(m), data)
	if err != nil || !m.ReadOnly {
		return err
	}
	return restrictMount(m, target, 0)
}

// restrictMount sets nosuid, nodev, noexec and read-only as m asks, by mount_setattr(2);
// flag is unix.AT_RECURSIVE for all mounts below, too. Attributes are only added: those
// that the host set and locked stay.
func restrictMount(m guestproto.Mount, target string, flag uint) error {
	attr := uint64(unix.MOUNT_ATTR_NOSUID)
	if !m.Dev {
		attr |= unix.MOUNT_ATTR_NODEV
	}
	if m.NoExec {
		attr |= unix.MOUNT_ATTR_NOEXEC
	}
	if m.ReadOnly {
		attr |= unix.MOUNT_ATTR_RDONLY
	}
	return unix.MountSetattr(unix.AT_FDCWD, target, flag|unix.AT_SYMLINK_NOFOLLOW, &unix.MountAttr{Attr_set: attr})
}

// bindMount binds a path of the host: recursively, since a user namespace may not
// uncover what other mounts cover.
func bindMount(target string, m guestproto.Mount) error {
	if err := mountPoint(m.Source, target); err != nil {
		return err
	}
	if err := unix.Mount(m.Source, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	return restrictMount(m, target, unix.AT_RECURSIVE)
}

// selfBindMount binds target on itself: a mount point can't be renamed or removed, its
// content can still be changed unless m is read-only. A symlink is refused, since the
// mount would be made where the symlink leads.
func selfBindMount(target string, m guestproto.Mount) error {
	fd, err := unix.OpenTree(unix.AT_FDCWD, target, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW|unix.AT_RECURSIVE)
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // nothing is lost with it
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return fmt.Errorf("%s is a symlink: %w", m.Target, fault.InvalidArgument)
	}
	if err := unix.MoveMount(fd, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return err
	}
	return restrictMount(m, target, unix.AT_RECURSIVE)
}

// Hold makes bind mounts while the workload runs, all that it can. The host process checks
// afterwards whether they are there.
func (s *server) Hold(_ context.Context, req *guestpb.HoldRequest) (*guestpb.Empty, error) {
	var errs []error
	for _, pb := range req.Mounts {
		m := guestproto.FromMount(pb)
		var err error
		switch m.Kind {
		case guestproto.MountSelf:
			err = selfBindMount(m.Target, m)
		case guestproto.MountBind:
			err = lateBindMount(m.Target, m)
		default:
			err = fmt.Errorf("kind %q: %w", m.Kind, fault.InvalidArgument)
		}
		if err != nil {
			errs = append(errs, setupError("mount "+m.Target, err))
		}
	}
	return &guestpb.Empty{}, errors.Join(errs...)
}

// lateBindMount binds a path inside on an existing target, over which it follows no symlink.
// The source may be in a read-only mount.
func lateBindMount(target string, m guestproto.Mount) error {
	fd, err := unix.OpenTree(unix.AT_FDCWD, m.Source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // nothing is lost with it
	attr := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV, Attr_clr: unix.MOUNT_ATTR_RDONLY}
	if m.ReadOnly {
		attr.Attr_set, attr.Attr_clr = attr.Attr_set|unix.MOUNT_ATTR_RDONLY, 0
	}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, attr); err != nil {
		return err
	}
	return unix.MoveMount(fd, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// mask hides what is at target, which may be in a read-only tree, behind a read-only
// file with the content m.Source, or a directory behind an empty one.
func (b *rootfsBuilder) mask(target string, m guestproto.Mount) error {
	info, err := os.Stat(target)
	if err != nil {
		return err
	}
	m.ReadOnly = true
	if info.IsDir() || m.Source == "" && m.Mode == 0 && !m.NoExec {
		made, err := b.emptyTarget(info.IsDir())
		if err != nil {
			return err
		}
		return unix.Mount(made, target, "", unix.MS_BIND, "")
	}
	made := b.nextScratch()
	if err := makeFile(made, m.Source, m.Mode); err != nil {
		return err
	}
	if err := unix.Mount(made, target, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	return restrictMount(m, target, 0)
}

// emptyTarget returns an empty file or directory for masks, made once. It is a read-only
// mount itself, so binds of it are read-only without a further call.
func (b *rootfsBuilder) emptyTarget(dir bool) (string, error) {
	is := &b.emptyFile
	if dir {
		is = &b.emptyDir
	}
	if *is != "" {
		return *is, nil
	}
	made, err := b.nextScratch(), error(nil)
	if dir {
		err = os.Mkdir(made, 0o755)
	} else {
		err = makeFile(made, "", 0)
	}
	if err != nil {
		return "", err
	}
	if err := unix.Mount(made, made, "", unix.MS_BIND, ""); err != nil {
		return "", err
	}
	*is = made
	return made, restrictMount(guestproto.Mount{ReadOnly: true}, made, 0)
}

// mountPoint creates target as a directory or a file, like source.
func mountPoint(source, target string) error {
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return os.MkdirAll(target, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// moveMount attaches a detached mount, which the host created, at target.
func moveMount(fd int, target string, m guestproto.Mount) error {
	if fd <= 0 {
		return fmt.Errorf("no descriptor %q: %w", m.Source, fault.InvalidArgument)
	}
	if _, err := os.Lstat(target); err != nil { // what exists may be a file, and keeps its mode
		if err := makeDir(target, m.Mode); err != nil {
			return err
		}
	}
	if err := unix.MoveMount(fd, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return err
	}
	return restrictMount(m, target, unix.AT_RECURSIVE)
}

// mountOverlay mounts an overlayfs of Lower and Upper. Layers that came as descriptors of
// detached mounts are attached in the scratch tmpfs first, because overlayfs takes paths;
// the overlay keeps its own references to them.
func (b *rootfsBuilder) mountOverlay(target string, m guestproto.Mount) error {
	var lower []string
	for _, l := range m.Lower {
		name, isFD := strings.CutPrefix(l, "fd:")
		if !isFD {
			lower = append(lower, escapeOverlayPath(l))
			continue
		}
		at := b.nextScratch()
		if err := moveMount(b.cfg.Descriptors[name], at, guestproto.Mount{Source: name, ReadOnly: true}); err != nil {
			return err
		}
		lower = append(lower, at)
	}
	if rest, isFD := strings.CutPrefix(m.Upper, "fd:"); isFD {
		// Upper and Work are below one detached mount, as overlayfs requires.
		name, upper, _ := strings.Cut(rest, "/")
		at := b.nextScratch()
		if err := moveMount(b.cfg.Descriptors[name], at, guestproto.Mount{Source: name}); err != nil {
			return err
		}
		m.Upper, m.Work = filepath.Join(at, upper), filepath.Join(at, m.Work)
	}
	if err := makeDir(target, m.Mode); err != nil {
		return err
	}
	data := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", strings.Join(lower, ":"), escapeOverlayPath(m.Upper), escapeOverlayPath(m.Work))
	if m.Data != "" {
		data += "," + m.Data
	}
	return mountFS(m, target, "overlay", data)
}

// escapeOverlayPath escapes the characters that are special in overlayfs options.
func escapeOverlayPath(path string) string {
	if !strings.ContainsAny(path, `\:,`) {
		return path
	}
	return strings.NewReplacer(`\`, `\\`, `:`, `\:`, `,`, `\,`).Replace(path)
}

// loopbackUp brings the loopback interface up, as "ip link set lo up" does.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // nothing is lost with it
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req)
}
