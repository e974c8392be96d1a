package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/wsdir"
	"github.com/croft-run/croft/provider/sandbox/internal/mount"
	"github.com/croft-run/croft/workspace/driver"
)

// A disk limit is enforced by a loop-mounted file system of that size. Only the guest's
// mount namespace has the mount: mount and loop device end with the guest. The image is
// created with the workspace, so the limit can't be changed later.

const imageName = "disk.img"

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
	if err := mount.MakeImage(image, mount.MinDisk, false); err != nil {
		return driver.Enforcement{Reason: err.Error()}
	}
	tree, err := mount.Image(image, false)
	if err != nil {
		return driver.Enforcement{Reason: err.Error()}
	}
	defer tree.Close()
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
