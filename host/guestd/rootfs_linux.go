package guestd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/host/guestproto"
)

// setUpNamespaces puts up what cfg asks for around this process, which is alone in its
// namespaces and runs nothing yet.
func setUpNamespaces(cfg *guestproto.Config) error {
	if cfg.NewRoot != "" {
		if err := buildRoot(cfg); err != nil {
			return err
		}
		capInotify()
	}
	for _, s := range cfg.Verify {
		if err := verifySource(cfg, s); err != nil {
			return setupError("look at "+s.Path, err)
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

// capInotify leaves others the most of what the kernel counts for the user who made the
// namespaces, and not for the workload: with all of it taken, no program of that
// user can watch a file. Where the kernel does not let this be set, it is as it was.
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

// verifySource compares what is at a path with what the host has judged, and lets go of
// the descriptor.
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
		return fmt.Errorf("it was replaced while the guest started: %w", fault.PermissionDenied)
	}
	delete(cfg.Descriptors, s.File)
	return unix.Close(fd)
}

func setupError(what string, err error) error {
	return fmt.Errorf("guest: %s: %w: %w", what, fault.Failed, err)
}

// buildRoot makes a file system of the mounts on a fresh tmpfs, in a shop that is
// another one, and moves into it. The old one is unreachable afterwards.
func buildRoot(cfg *guestproto.Config) error {
	// Nothing that is mounted here may travel to the host.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return setupError("make the mounts private", err)
	}
	defer unix.Umask(unix.Umask(0o022)) // what is made is everyone's to see, whoever starts the guest
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
		return setupError("let go of the old root", err)
	}
	return os.Chdir("/")
}

// A rootfsBuilder puts mounts in their places. What it makes them of it leaves in its shop,
// which goes with the old root: to take a mount away takes the kernel longer than
// anything else here.
type rootfsBuilder struct {
	cfg                 *guestproto.Config
	scratch             string // a directory
	scratchCount        int    // in it
	emptyFile, emptyDir string // a file and a directory with nothing in them, read-only; "" is not made yet
}

// nextScratch is a new name in the shop.
func (b *rootfsBuilder) nextScratch() string {
	b.scratchCount++
	return filepath.Join(b.scratch, strconv.Itoa(b.scratchCount))
}

// mountOne puts one mount in its place below root.
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
	if errors.Is(err, unix.EROFS) { // it is there, in what is read-only, and is covered
		return nil
	}
	return err
}

// toFileMode turns the bits of chmod(2) into those of package os.
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

// mountFlags are the flags of a new mount.
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

// restrictMount takes away what m does not allow. flag is unix.AT_RECURSIVE for
// everything below, too. mount_setattr only adds, so flags that the host set
// and locked stay.
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

// selfBindMount binds what is at target over itself. It must not be a symlink, which
// would lead elsewhere.
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
		return fmt.Errorf("it is a symlink: %w", fault.InvalidArgument)
	}
	if err := unix.MoveMount(fd, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return err
	}
	return restrictMount(m, target, unix.AT_RECURSIVE)
}

// mask hides what is at target, which may be in a tree that can't be written:
// a file behind one that is made for it, a directory behind an empty one.
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

// emptyTarget returns a file or a directory with nothing in it, which is a mount that is
// read-only: so is what is bound from it.
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

// mountPoint makes target a directory or a file, as source is one.
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

// moveMount puts a detached mount, made by the host, in its place.
func moveMount(fd int, target string, m guestproto.Mount) error {
	if fd <= 0 {
		return fmt.Errorf("no descriptor %q: %w", m.Source, fault.InvalidArgument)
	}
	if err := makeDir(target, m.Mode); err != nil {
		return err
	}
	if err := unix.MoveMount(fd, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return err
	}
	return restrictMount(m, target, unix.AT_RECURSIVE)
}

// mountOverlay stacks Upper on Lower. Layers that came as descriptors are first
// given a place where the kernel can find them by name. The overlay holds them by
// itself then.
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
		// Upper and Work are below one detached mount, as the kernel wants it.
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

// escapeOverlayPath protects what overlay's options give a meaning to.
func escapeOverlayPath(path string) string {
	if !strings.ContainsAny(path, `\:,`) {
		return path
	}
	return strings.NewReplacer(`\`, `\\`, `:`, `\:`, `,`, `\,`).Replace(path)
}

// loopbackUp sets the flag that an administrator would with "ip link set lo up".
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
