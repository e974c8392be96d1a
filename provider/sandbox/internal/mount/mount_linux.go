// Package mount makes detached mounts, which can be attached in the mount namespace of a guest:
// clones of directories of the host, with their owner mapped, overlayfs and disk images. It reads
// what overlayfs wrote to an upper layer.
package mount

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/provider/sandbox/internal/entry"
	"github.com/croft-run/croft/workspace/driver"
)

// ID returns the id of the mount of a descriptor. From Linux 6.8 on the kernel never
// reuses it.
func ID(fd int) (uint64, error) {
	var st unix.Statx_t
	const unique = 0x4000 // STATX_MNT_ID_UNIQUE
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unique, &st); err != nil {
		return 0, err
	}
	if st.Mask&unique == 0 {
		// A kernel before 6.8: the id may be used again, after the mount's end.
		if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &st); err != nil {
			return 0, err
		}
	}
	return st.Mnt_id, nil
}

// Clone returns a detached, recursive clone of the mount at path (open_tree), which
// can be attached in another mount namespace.
func Clone(path string) (*os.File, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return nil, fmt.Errorf("clone the mount of %s: %w", path, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// MapOwner makes a detached mount an idmapped mount: files of the owner on disk are owned by
// the workload inside, and files that the workload creates are stored as files of the owner. So
// files have the same owner on the host, whichever sandbox created them. With gVisor, root
// inside is mapped as well: gVisor creates files as root before it changes their owner.
func (o *Users) MapOwner(tree *os.File, of Owner) error {
	err := o.withUserns(of, func(users *os.File) error {
		return unix.MountSetattr(int(tree.Fd()), "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE,
			&unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(users.Fd())})
	})
	if err != nil {
		return fmt.Errorf("map the owner of %s: %w", tree.Name(), err)
	}
	return nil
}

// CloneMapped returns a detached mount of a directory that maps its owner to the workload.
func (o *Users) CloneMapped(dir string, gvisor bool) (*os.File, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil, errors.New("no owner is known")
	}
	tree, err := Clone(dir)
	if err != nil {
		return nil, err
	}
	if err := o.MapOwner(tree, Owner{int(st.Uid), int(st.Gid), gvisor}); err != nil {
		tree.Close()
		return nil, err
	}
	return tree, nil
}

// An Owner is the owner of files on the host, which a user namespace maps to the workload.
type Owner struct {
	UID, GID int
	Root     bool // root inside is mapped as well
}

// Users keeps a user namespace for each owner that was mapped to the workload:
// creating one takes a process, and nearly all files belong to the same few owners.
type Users struct {
	Base     int // id on the host of id 0 inside
	Workload int // id of the workload inside

	mu    sync.Mutex
	users map[Owner]*os.File
}

// maxOwners bounds the cached descriptors.
const maxOwners = 64

// withUserns calls f with a user namespace that maps key to the workload.
func (o *Users) withUserns(key Owner, f func(users *os.File) error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if users := o.users[key]; users != nil {
		return f(users)
	}
	uids := []syscall.SysProcIDMap{{ContainerID: key.UID, HostID: o.Base + o.Workload, Size: 1}}
	gids := []syscall.SysProcIDMap{{ContainerID: key.GID, HostID: o.Base + o.Workload, Size: 1}}
	if key.Root {
		root := syscall.SysProcIDMap{ContainerID: o.Base, HostID: o.Base, Size: 1}
		uids, gids = append(uids, root), append(gids, root)
	}
	users, err := userNamespace(uids, gids)
	if err != nil {
		return err
	}
	if len(o.users) >= maxOwners {
		o.closeLocked()
	}
	if o.users == nil {
		o.users = map[Owner]*os.File{}
	}
	o.users[key] = users
	return f(users)
}

// Close closes the namespaces.
func (o *Users) Close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closeLocked()
}

func (o *Users) closeLocked() {
	for _, users := range o.users {
		users.Close()
	}
	o.users = nil
}

// userNamespace creates a user namespace with the given id maps and no process in it.
// The kernel creates namespaces only with a process, so one is started under ptrace,
// which stops it before its first instruction, and killed.
func userNamespace(uids, gids []syscall.SysProcIDMap) (*os.File, error) {
	runtime.LockOSThread() // the process ends with the thread that made it
	defer runtime.UnlockOSThread()
	proc, err := os.StartProcess("/proc/self/exe", []string{"croft-userns"}, &os.ProcAttr{
		Env: []string{},
		Sys: &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER, UidMappings: uids, GidMappings: gids, Ptrace: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return nil, fmt.Errorf("make a user namespace: %w", err)
	}
	defer func() {
		proc.Kill() //nolint:errcheck // it never ran
		proc.Wait() //nolint:errcheck // likewise
	}()
	return os.Open(fmt.Sprintf("/proc/%d/ns/user", proc.Pid))
}

// NewOverlay returns a detached overlayfs with lower, and upper and work in layer.
func NewOverlay(lower *os.File, layer string, durable bool) (*os.File, error) {
	fd, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd) //nolint:errcheck // nothing is lost with it
	steps := [][2]string{{"source", "croft"}, {"upperdir", filepath.Join(layer, "upper")}, {"workdir", filepath.Join(layer, "work")}}
	if err := unix.FsconfigSetFd(fd, "lowerdir+", int(lower.Fd())); err != nil {
		return nil, fmt.Errorf("overlayfs: lowerdir: %w", err)
	}
	for _, s := range steps {
		if err := unix.FsconfigSetString(fd, s[0], s[1]); err != nil {
			return nil, fmt.Errorf("overlayfs: %s: %w", s[0], err)
		}
	}
	if !durable {
		if err := unix.FsconfigSetFlag(fd, "volatile"); err != nil {
			return nil, err
		}
	}
	if err := unix.FsconfigCreate(fd); err != nil {
		return nil, fmt.Errorf("overlayfs: %w", err)
	}
	tree, err := unix.Fsmount(fd, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(tree), layer), nil
}

// InNamespace calls f on a thread that has entered a mount namespace (setns). The thread ends
// afterwards: it can't serve other goroutines.
func InNamespace(ns *os.File, f func() error) error {
	answer := make(chan error, 1)
	go func() { // ends with this call, which waits for the answer
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
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

// MinDisk is the size of the smallest ext4 file system.
const MinDisk = 1 << 20

// MakeImage creates a sparse file with an empty ext4 file system.
func MakeImage(path string, size int64, durable bool) error {
	mkfs, err := exec.LookPath("mkfs.ext4")
	if err != nil { // after su, PATH may be that of the ordinary user, without sbin
		mkfs, err = exec.LookPath("/usr/sbin/mkfs.ext4")
	}
	if err != nil {
		return fmt.Errorf("mkfs.ext4 is not installed: %w: install e2fsprogs", fault.Unsupported)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	err = errors.Join(f.Truncate(max(size, MinDisk)), f.Close())
	if err != nil {
		return err
	}
	args := []string{"-q", "-F", "-m", "0", "-E", "lazy_itable_init=1,nodiscard"}
	if !durable {
		args = append(args, "-O", "^has_journal") // a journal costs space, and helps only after a power loss
	}
	cmd := exec.Command(mkfs, append(args, path)...) //nolint:noctx // it takes milliseconds
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("mkfs.ext4: %w: %s", err, out)
	}
	return nil
}

// Image returns a detached mount of the file system in an image.
func Image(path string, readOnly bool) (*os.File, error) {
	loop, err := attachLoop(path)
	if err != nil {
		return nil, fmt.Errorf("attach a loop device: %w", err)
	}
	defer loop.Close() // the mount keeps the device open from now on
	fs, err := unix.Fsopen("ext4", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("open ext4: %w", err)
	}
	defer unix.Close(fs) //nolint:errcheck // nothing is lost with it
	if err := unix.FsconfigSetString(fs, "source", loop.Name()); err != nil {
		return nil, fmt.Errorf("mount %s: %w", path, err)
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return nil, fmt.Errorf("mount %s: %w", path, err)
	}
	attr := unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	if readOnly {
		attr |= unix.MOUNT_ATTR_RDONLY
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, attr)
	if err != nil {
		return nil, fmt.Errorf("mount %s: %w", path, err)
	}
	mount := os.NewFile(uintptr(fd), path)
	unix.Unlinkat(fd, "lost+found", unix.AT_REMOVEDIR) //nolint:errcheck // only a new image has it
	return mount, nil
}

// attachLoop attaches a file to a loop device, which is detached after its last use.
func attachLoop(path string) (*os.File, error) {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer control.Close()
	image, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer image.Close()
	const attempts = 50 // other processes may attach the same free device first
	for range attempts {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, err
		}
		loop, err := os.OpenFile("/dev/loop"+strconv.Itoa(n), os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		err = unix.IoctlLoopConfigure(int(loop.Fd()), &unix.LoopConfig{
			Fd: uint32(image.Fd()), Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR},
		})
		if err == nil {
			return loop, nil
		}
		loop.Close()
		if !errors.Is(err, unix.EBUSY) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("no loop device is free: %w", fault.ResourceExhausted)
}

// DropMarks removes the attributes by which overlayfs hides or redirects files from
// a directory that is about to become a layer. A workload can set them in a plain
// directory; through an overlayfs it can't. A file with such a meaning, or one that can't be
// looked at, makes the result EINVAL: then the files are copied instead.
func DropMarks(ctx context.Context, dir string) error {
	names := make([]byte, 64<<10) // the maximum on Linux
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.Type()&fs.ModeCharDevice != 0 {
			return fmt.Errorf("%s can't be part of a layer: %w", path, unix.EINVAL)
		}
		if err := ctx.Err(); err != nil || e.Type()&fs.ModeSymlink != 0 { // a symlink has no user attributes
			return err
		}
		n, err := unix.Llistxattr(path, names)
		if errors.Is(err, unix.ENOTSUP) || n == 0 && err == nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w: %w", path, unix.EINVAL, err)
		}
		for name := range strings.SplitSeq(string(names[:n]), "\x00") {
			if !strings.HasPrefix(name, "user.overlay.") {
				continue
			}
			if err := unix.Lremovexattr(path, name); err != nil {
				return fmt.Errorf("%s: %w: %w", path, unix.EINVAL, err)
			}
		}
		return nil
	})
}

// Changes lists what an upper layer of an overlayfs contains: copies of files that were written
// above the lower layers, and whiteouts of removed ones. A layer that does not exist has none.
func Changes(ctx context.Context, upper string) ([]driver.ChangedPath, error) {
	fd, err := unix.Open(upper, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil // no guest was needed yet
	}
	if err != nil {
		return nil, err
	}
	t := &upperWalk{ctx: ctx}
	err = t.walkDir(fd, "", 0)
	return t.list, err
}

// upperWalk walks an upper layer, which the workload may change meanwhile.
type upperWalk struct {
	ctx  context.Context
	list []driver.ChangedPath
}

// walkDir walks a directory and all below it. It closes fd.
func (t *upperWalk) walkDir(fd int, rel string, depth int) error {
	dir := os.NewFile(uintptr(fd), "upper")
	defer dir.Close()
	if err := t.ctx.Err(); err != nil {
		return err
	}
	entries, err := dir.ReadDir(-1)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if len(t.list)+len(entries) > maxChanges || depth > entry.MaxDepth {
		return fmt.Errorf("%w: there are more than %d changes, or more than %d nested directories", fault.ResourceExhausted, maxChanges, entry.MaxDepth)
	}
	for _, e := range entries {
		at := path.Join(rel, e.Name())
		if !e.IsDir() {
			t.list = append(t.list, driver.ChangedPath{Path: at, Replaced: true})
			continue
		}
		sub, err := entry.OpenDir(fd, e.Name())
		if err != nil { // gone, replaced or not readable
			t.list = append(t.list, driver.ChangedPath{Path: at, Replaced: true})
			continue
		}
		var opaque [8]byte // "y" where the directory hides the one in the lower layer
		n, err := unix.Fgetxattr(sub, "user.overlay.opaque", opaque[:])
		t.list = append(t.list, driver.ChangedPath{Path: at, Replaced: err == nil && n > 0 && opaque[0] == 'y'})
		if err := t.walkDir(sub, at, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// maxChanges bounds the walk; beyond it, walking the workspace itself is as fast.
const maxChanges = 100_000
