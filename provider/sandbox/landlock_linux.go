package sandbox

import (
	"fmt"
	"maps"
	"syscall"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/provider/sandbox/internal/rootfs"
	"github.com/croft-run/croft/workspace/driver"
)

// landlockReadable are the paths of the host that a workload without a rootfs may read,
// besides rootfs.EtcPaths.
var landlockReadable = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/gnu/store", "/proc",
	"/etc/passwd", "/etc/group", "/etc/hosts", "/sys/devices/system/cpu", "/sys/fs/cgroup",
}

// landlockDevices are the paths that it may also write. Terminals are not among them:
// terminals of the same user on the host would be.
var landlockDevices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}

// launchProcess prepares a guest without namespaces, which confines the processes that it
// starts by Landlock and seccomp.
func (p *Provider) launchProcess(l *launch, u launchSpec) error {
	if len(u.lower) > 0 {
		return fmt.Errorf("a template, without mounts: %w", fault.Unsupported)
	}
	if p.ids.root {
		return fmt.Errorf("without namespaces the workload would be root itself, which Landlock does not keep from changing the modes of files: %w: run croft as an ordinary user", fault.Unsupported)
	}
	if err := u.refuseAutorunFiles("without mounts"); err != nil {
		return err
	}
	const least = 3 // the first that restricts truncation
	abi, err := guestproto.LandlockABI()
	if err != nil {
		return fmt.Errorf("this kernel has no Landlock (%v): %w", err, fault.Unsupported) //nolint:errorlint // one code is enough
	}
	if abi < least {
		return fmt.Errorf("landlock has version %d here, at least %d is required: %w", abi, least, fault.Unsupported)
	}
	bin, err := p.binary()
	if err != nil {
		return err
	}
	env := baseEnv(u)
	env["HOME"], env["TMPDIR"] = u.tmp, u.tmp
	maps.Copy(env, u.policy.Env)
	writable, visible, err := p.dirs.landlockPaths(l, u)
	if err != nil {
		return err
	}
	l.Binary, l.Sys, l.Socket = bin.Path, &syscall.SysProcAttr{Setsid: true}, u.socket
	l.Config = guestproto.Config{
		Workspace: u.id, Level: driver.IsolationProcess, Root: u.guestDir, UID: -1, Env: env, Subreaper: true,
		Confine: guestproto.Confine{NoNewPrivs: true, DropCaps: true, Seccomp: true, NoNetwork: true, NoSetID: true, ReadWrite: writable, ReadOnly: visible,
			BrokerConnect: true, ConnectBelow: u.socketDirs()},
	}
	return l.addDir("log", u.log)
}

// landlockPaths lists what a workload without mounts may write, and what it may read.
// Directories of the user are named by the descriptors that were checked.
func (h *hostDirs) landlockPaths(l *launch, u launchSpec) (writable, visible []string, err error) {
	writable, visible = append([]string{u.tmp}, landlockDevices...), append(rootfs.EtcPaths(), landlockReadable...)
	if !u.hostDir {
		writable = append(writable, u.files)
	} else if writable, err = h.addGrant(l, u.files, writable); err != nil {
		return nil, nil, err
	}
	for _, dir := range u.binds {
		switch {
		case dir.Empty, dir.isMissing():
		case dir.HideCredentials:
			visible, err = h.addGrantWithoutCredentials(l, u, dir, visible)
		case dir.ReadOnly || u.policy.ReadOnly:
			visible, err = h.addGrant(l, dir.Dir, visible)
		default:
			writable, err = h.addGrant(l, dir.Dir, writable)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return writable, visible, nil
}

// addGrant opens and checks a directory, and adds its descriptor to a list.
func (h *hostDirs) addGrant(l *launch, dir string, list []string) ([]string, error) {
	d, err := h.open(dir)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("grant%d", len(l.Files))
	l.addFile(name, d.File)
	return append(list, "fd:"+name), nil
}

// addGrantWithoutCredentials is addGrant for a directory that must have no credential files,
// because without mounts they can't be masked.
func (h *hostDirs) addGrantWithoutCredentials(l *launch, u launchSpec, b Bind, list []string) ([]string, error) {
	d, err := h.open(b.Dir)
	if err != nil {
		return nil, err
	}
	defer d.File.Close()
	masks, err := u.maskBind(d, b)
	if err != nil {
		return nil, err
	}
	if len(masks) > 0 {
		err := fmt.Errorf("directory %q: %w: isolation %s has no mounts, which would hide %s", b.Dir, fault.Unsupported, u.level.name, masks[0].Target)
		return nil, fault.Advise(err, "leave the directory, or its toolchain, out")
	}
	return h.addGrant(l, b.Dir, list)
}
