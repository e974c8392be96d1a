package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/wsdir"
	"github.com/croft-run/croft/workspace/driver"
)

// A disk limit is enforced by a loop-mounted file system of that size. Only the guest's
// mount namespace has the mount: mount and loop device end with the guest. The image is
// created with the workspace, so the limit can't be changed later.

const imageName = "disk.img"

// minDisk is the size of the smallest ext4 file system.
const minDisk = 1 << 20

// diskLimit reports, by mounting an image once per process, whether a disk limit can be
// enforced.
var diskLimit = sync.OnceValue(func() driver.Enforcement {
	if os.Geteuid() != 0 {
		return driver.Enforcement{Reason: "a file system of a limited size can be mounted by root alone"}
	}
	dir, err := newProbeDir()
	if err != nil {
		return driver.Enforcement{Reason: err.Error()}
	}
	defer os.RemoveAll(dir)
	image := filepath.Join(dir, imageName)
	if err := makeImage(image, minDisk, false); err != nil {
		return driver.Enforcement{Reason: err.Error()}
	}
	mount, err := mountImage(image, false)
	if err != nil {
		return driver.Enforcement{Reason: err.Error()}
	}
	defer mount.Close()
	return driver.Enforcement{By: "a file system of that size, in a file; logs of sessions have a quarter of it in addition, snapshots are not counted"}
})

// diskEnforcement is diskLimit, but for a short-lived workspace without a disk limit it
// skips the test: mounting an image takes longer than opening the workspace.
func diskEnforcement(policy driver.Policy, brief bool) driver.Enforcement {
	if brief && policy.Limits[driver.ResourceDisk].Max == 0 {
		return driver.Enforcement{Reason: "not tested, because the policy has no disk limit"}
	}
	return diskLimit()
}

// makeImage creates a sparse file with an empty ext4 file system.
func makeImage(path string, size int64, durable bool) error {
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
	err = errors.Join(f.Truncate(max(size, minDisk)), f.Close())
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

// mountImage returns a detached mount of the file system in an image.
func mountImage(path string, readOnly bool) (*os.File, error) {
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

// hasDiskImage reports whether the files of a workspace are in a disk image.
func (i ids) hasDiskImage(l *level, policy driver.Policy) bool {
	return policy.Limits[driver.ResourceDisk].Max > 0 && l.mapsIDs && i.root && diskLimit().Enforced()
}

// checkDisk refuses a change of the disk limit.
func checkDisk(m *wsdir.State, policy driver.Policy) error {
	if m.Policy.Limits[driver.ResourceDisk] != policy.Limits[driver.ResourceDisk] {
		return fmt.Errorf("limit disk: %w: it is fixed when the workspace is created, here at %d", fault.Unsupported, m.Policy.Limits[driver.ResourceDisk].Max)
	}
	return nil
}
