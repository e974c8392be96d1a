package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/guest/supervise"
	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/internal/paths"
	"github.com/croft-run/croft/provider/sandbox/internal/mount"
	"github.com/croft-run/croft/provider/sandbox/internal/rootfs"
	"github.com/croft-run/croft/workspace/driver"
)

// gVisor runs inside the namespaces and rootfs of level namespaces, with the same mounts,
// ids and cgroups, and the death of its first process kills everything. An escape from
// gVisor reaches that rootfs, not the host.
//
// The guest is the first process in gVisor. It can inherit streams, but no directories and
// no listening sockets. It finds these below gvisorDir, which no other process inside can
// enter. The socket that it creates there is on the host in <root>/<id>/ctl.

const (
	gvisorDir = "/.croft"
	ctlName   = "ctl" // directory of the guest's socket; "sock" is a symlink to that socket
)

// launchGVisor prepares a guest in gVisor, a kernel in user space.
func (p *Provider) launchGVisor(l *launch, u launchSpec) error {
	program, err := p.openRunsc()
	if err != nil {
		return err
	}
	l.addFile("kernel", program)
	if u.autorun.Shared { // flocks on placeholders do not pass into gVisor
		if err := u.refuseAutorunFiles("by gVisor where the host's .git is shared"); err != nil {
			return err
		}
	}
	logs := u.log
	u.log = "" // passed as a mount, not as a descriptor
	if err := p.launchNamespaces(l, u); err != nil {
		return err
	}
	k := &gvisorLaunch{p: p, launch: l, spec: u}
	return k.rewriteConfig(logs)
}

func (p *Provider) openRunsc() (*os.File, error) {
	path := p.cfg.Runsc
	if path == "" {
		found, err := exec.LookPath("runsc")
		if err != nil {
			return nil, fmt.Errorf("gVisor (runsc) is not installed: %w", fault.Unsupported)
		}
		path = found
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("gVisor: %w: %w", fault.Unsupported, err)
	}
	return f, nil
}

// A gvisorLaunch turns a launch in namespaces into one in gVisor.
type gvisorLaunch struct {
	p      *Provider
	launch *launch
	spec   launchSpec
	inner  *guestproto.Config
	mounts []specs.Mount
}

// rewriteConfig makes the guest in namespaces start gVisor, with an inner guest in it.
func (k *gvisorLaunch) rewriteConfig(logs string) error {
	outer := &k.launch.Config
	inner := *outer
	k.inner = &inner
	inner.NewRoot, inner.Mounts, inner.Verify, inner.Hostname, inner.Loopback, inner.Files = "", nil, nil, "", false, false
	inner.Paths = map[string]string{}
	outer.Level, inner.Level, outer.Files = driver.IsolationGVisor, driver.IsolationGVisor, false
	outer.Mounts = slices.Clone(outer.Mounts)
	for i, m := range outer.Mounts { // gVisor mounts its own tmpfs there
		if m.Kind == guestproto.MountTmpfs && m.Target != "/dev" && m.Data != emptyData {
			outer.Mounts[i] = guestproto.Mount{Kind: guestproto.MountDir, Target: m.Target}
		}
	}
	mode := uint32(0o700)
	if !k.p.ids.root {
		mode = 0o001 // keeps the workload out, which is the same user; the guest has CAP_DAC_OVERRIDE
	}
	outer.Mounts = slices.Concat([]guestproto.Mount{
		{Kind: guestproto.MountDir, Target: gvisorDir, Mode: mode},
		{Kind: guestproto.MountTmpfs, Target: gvisorDir + "/state", Data: "mode=700"},
	}, outer.Mounts)
	k.addMounts()
	if logs != "" {
		if err := k.addPrivateDir("log", logs); err != nil {
			return err
		}
		inner.Paths["log"] = gvisorDir + "/log"
	}
	if k.spec.socket != "" {
		if err := k.setUpSocket(); err != nil {
			return err
		}
	}
	return k.addBundle()
}

// addMounts lists the mounts of gVisor itself, above the rootfs.
func (k *gvisorLaunch) addMounts() {
	memory := k.spec.policy.Limits[driver.ResourceMemory].Max
	tmpfs := func(target, options string) {
		k.mounts = append(k.mounts, specs.Mount{Destination: target, Type: "tmpfs", Source: "tmpfs", Options: append([]string{"nosuid", "nodev"}, strings.Split(options, ",")...)})
	}
	k.mounts = append(k.mounts, specs.Mount{Destination: "/proc", Type: "proc", Source: "proc"})
	tmpfs("/dev/shm", "mode=1777"+rootfs.TmpfsSize(memory, 8))
	tmpfs("/tmp", "mode=1777"+rootfs.TmpfsSize(memory, 2))
	tmpfs("/run", "mode=755"+rootfs.TmpfsSize(memory, 32))
	tmpfs("/var/tmp", "mode=1777"+rootfs.TmpfsSize(memory, 16))
	user := 0 // see sysProcAttr
	if k.p.ids.root {
		user = workloadUID
	}
	if home := rootfs.HomeOf(k.spec.user); home != k.spec.guestDir {
		tmpfs(home, fmt.Sprintf("mode=700,uid=%d,gid=%d%s", user, user, rootfs.TmpfsSize(memory, 8)))
	}
	holding := func(b Bind) bool { return paths.Inside(b.Dir, k.spec.guestDir) }
	for _, b := range k.spec.binds {
		if holding(b) {
			k.addBind(b.Dir, b.ReadOnly || k.spec.policy.ReadOnly)
		}
	}
	k.addBind(k.spec.guestDir, k.spec.policy.ReadOnly)
	for _, home := range k.spec.cacheHomes() {
		tmpfs(home, fmt.Sprintf("mode=700,uid=%d,gid=%d%s", user, user, rootfs.TmpfsSize(memory, 16)))
	}
	for _, c := range k.spec.caches {
		k.addBind(c.Dir, false)
		for _, name := range c.Hide {
			if _, err := os.Stat(filepath.Join(c.Dir, name)); err == nil {
				k.addBind(filepath.Join(c.Dir, name), true)
			}
		}
	}
	if k.spec.caDir != "" {
		k.addBind(bundleDir, true)
	}
	for _, b := range k.spec.binds {
		if !holding(b) {
			k.addBind(b.Dir, b.ReadOnly || k.spec.policy.ReadOnly)
		}
	}
	// gVisor renames a directory on which only the outer rootfs has a mount.
	if k.spec.autorun.State != nil {
		for _, m := range k.spec.autorun.State.Mounts {
			k.addBind(m.Target, m.ReadOnly)
		}
	}
}

// addBind adds a bind mount of a path of the outer rootfs. gVisor revalidates files in
// bind mounts, while it caches those of the rootfs, which never change.
func (k *gvisorLaunch) addBind(path string, readOnly bool) {
	mode := "rw"
	if readOnly {
		mode = "ro"
	}
	k.mounts = append(k.mounts, specs.Mount{Destination: path, Type: "bind", Source: path, Options: []string{"rbind", mode, "nosuid", "nodev"}})
}

// addPrivateDir mounts a directory of the host below gvisorDir.
func (k *gvisorLaunch) addPrivateDir(name, dir string) error {
	m := guestproto.Mount{Kind: guestproto.MountBind, Source: dir, Target: gvisorDir + "/" + name}
	if k.p.ids.root { // the guest's ids have no permission on the way to the source
		tree, err := mount.Clone(dir)
		if err != nil {
			return err
		}
		k.launch.addFile("own-"+name, tree)
		m.Kind, m.Source = guestproto.MountFD, "own-"+name
	}
	k.launch.Config.Mounts = append(k.launch.Config.Mounts, m)
	k.addBind(m.Target, false)
	return nil
}

// setUpSocket puts the guest's socket into a directory that is visible inside and outside.
func (k *gvisorLaunch) setUpSocket() error {
	ctl := filepath.Join(filepath.Dir(k.spec.socket), ctlName)
	if err := os.Mkdir(ctl, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if err := k.p.ids.chownInside(ctl, 0); err != nil {
		return err
	}
	for _, path := range []string{k.spec.socket, filepath.Join(ctl, supervise.SocketName)} {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if err := os.Symlink(filepath.Join(ctlName, supervise.SocketName), k.spec.socket); err != nil {
		return err
	}
	k.inner.Paths["listen"] = gvisorDir + "/" + ctlName + "/" + supervise.SocketName
	return k.addPrivateDir(ctlName, ctl)
}

// guestCaps are the capabilities of the guest in gVisor's kernel. They have no effect on
// the host.
var guestCaps = []string{
	"CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP", "CAP_KILL", "CAP_CHOWN", "CAP_FOWNER", "CAP_DAC_OVERRIDE", "CAP_SYS_ADMIN",
}

// addBundle adds the OCI bundle and the arguments of runsc.
func (k *gvisorLaunch) addBundle() error {
	spec := specs.Spec{
		Version: specs.Version,
		Process: &specs.Process{
			Args: []string{"croft-guest"}, Cwd: "/",
			Capabilities: &specs.LinuxCapabilities{Bounding: guestCaps, Effective: guestCaps, Permitted: guestCaps},
		},
		Root: &specs.Root{Path: "/", Readonly: true}, Hostname: rootfs.Hostname, Mounts: k.mounts,
		Linux: &specs.Linux{Namespaces: []specs.LinuxNamespace{
			{Type: specs.PIDNamespace}, {Type: specs.MountNamespace}, {Type: specs.IPCNamespace}, {Type: specs.UTSNamespace}, {Type: specs.NetworkNamespace},
		}},
	}
	data, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	const dir = gvisorDir + "/bundle"
	outer := &k.launch.Config
	outer.Mounts = append(outer.Mounts, guestproto.Mount{Kind: guestproto.MountFile, Target: dir + "/config.json", Source: string(data)})
	// --host-uds=create: the guest makes its socket, and no process inside connects to a
	// socket of the host. So this process relays connections to the proxy.
	outer.GVisor = &guestproto.GVisor{Bundle: dir, Inner: k.inner, Args: []string{
		"--root", gvisorDir + "/state", "--platform=systrap", "--network=none", "--ignore-cgroups", "--overlay2=none", "--rootless", "--host-uds=create",
	}}
	return nil
}
