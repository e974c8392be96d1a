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
	"github.com/croft-run/croft/host/guest/supervise"
	"github.com/croft-run/croft/host/guestproto"
	"github.com/croft-run/croft/workspace/driver"
)

// gVisor runs inside the world that the level of namespaces builds: the same
// mounts, ids and limit groups, and the end of its first process is the end of
// everything. What is at stake if gVisor has a hole is that world, not the host.
//
// The guest is the first process of gVisor. It can be given streams, but no
// directories and no sockets that listen, so it finds these below own, which
// nobody else inside can enter: the socket that it makes there is one of the
// host, in <root>/<id>/ctl.

const (
	own     = "/.croft"
	ctlName = "ctl" // directory of the guest's socket; "sock" beside it is a symlink to that
)

// gvisor prepares a guest in a kernel in user space.
func (p *Provider) gvisor(l *launch, u launchSpec) error {
	program, err := p.runsc()
	if err != nil {
		return err
	}
	l.give("kernel", program)
	// gVisor moves directories without a look at what is mounted on them.
	if err := u.untrapped("by gVisor"); err != nil {
		return err
	}
	logs := u.log
	u.log = "" // as a mount, not as a descriptor
	if err := p.namespaces(l, u); err != nil {
		return err
	}
	k := &kernel{p: p, launch: l, spec: u}
	return k.build(logs)
}

func (p *Provider) runsc() (*os.File, error) {
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

// untrapped refuses directories with files that others run later, where those can't
// be kept read-only.
func (u launchSpec) untrapped(how string) error {
	found, err := u.trapped(u.files, u.inPlace)
	if err != nil {
		return err
	}
	if found {
		return fmt.Errorf("a directory in place with files that others run later, which can't be kept read-only %s: %w", how, fault.Unsupported)
	}
	for _, b := range u.binds {
		found, err := u.trapped(b.Dir, !b.ReadOnly)
		if err != nil {
			return err
		}
		if found {
			return fmt.Errorf("directory %q with files that others run later, which can't be kept read-only %s: %w", b.Dir, how, fault.Unsupported)
		}
	}
	return nil
}

// A kernel is a launch of gVisor in the making.
type kernel struct {
	p      *Provider
	launch *launch
	spec   launchSpec
	inner  *guestproto.Config
	mounts []specs.Mount
}

// build turns the launch of a guest in namespaces into one that hands over to
// gVisor.
func (k *kernel) build(logs string) error {
	outer := &k.launch.Config
	inner := *outer
	k.inner = &inner
	inner.NewRoot, inner.Mounts, inner.Verify, inner.Hostname, inner.Loopback, inner.Files = "", nil, nil, "", false, false
	inner.Paths = map[string]string{}
	outer.Level, inner.Level, outer.Files = driver.IsolationGVisor, driver.IsolationGVisor, false
	k.thin()
	mode := uint32(0o700)
	if !k.p.ids.root {
		mode = 0o001 // the workload is the same user as the guest, which needs no mode
	}
	outer.Mounts = slices.Concat([]guestproto.Mount{
		{Kind: guestproto.MountDir, Target: own, Mode: mode},
		{Kind: guestproto.MountTmpfs, Target: own + "/state", Data: "mode=700"},
	}, outer.Mounts)
	k.world()
	for name, dir := range map[string]string{"log": logs, "egress": k.spec.egress} {
		if dir == "" {
			continue
		}
		if err := k.dir(name, dir); err != nil {
			return err
		}
		inner.Paths[name] = own + "/" + name
	}
	if k.spec.socket != "" {
		if err := k.listen(); err != nil {
			return err
		}
	}
	return k.bundle()
}

// thin takes out of the outer world what gVisor puts over it anyway.
func (k *kernel) thin() {
	mounts := slices.Clone(k.launch.Config.Mounts)
	for i, m := range mounts {
		if m.Kind == guestproto.MountTmpfs && m.Target != "/dev" && m.Data != emptyData {
			mounts[i] = guestproto.Mount{Kind: guestproto.MountDir, Target: m.Target}
		}
	}
	k.launch.Config.Mounts = mounts
}

// world lists what gVisor itself puts in place, above what the root shows.
func (k *kernel) world() {
	memory := k.spec.policy.Limits[driver.ResourceMemory].Max
	tmpfs := func(target, options string) {
		k.mounts = append(k.mounts, specs.Mount{Destination: target, Type: "tmpfs", Source: "tmpfs", Options: append([]string{"nosuid", "nodev"}, strings.Split(options, ",")...)})
	}
	k.mounts = append(k.mounts, specs.Mount{Destination: "/proc", Type: "proc", Source: "proc"})
	tmpfs("/dev/shm", "mode=1777"+size(memory, 8))
	tmpfs("/tmp", "mode=1777"+size(memory, 2))
	tmpfs("/run", "mode=755"+size(memory, 32))
	tmpfs("/var/tmp", "mode=1777"+size(memory, 16))
	user := 0 // see attr
	if k.p.ids.root {
		user = workloadUID
	}
	tmpfs(home, fmt.Sprintf("mode=700,uid=%d,gid=%d%s", user, user, size(memory, 8)))
	holding := func(b bind) bool { return holds(b.Dir, k.spec.inside) }
	for _, b := range k.spec.binds {
		if holding(b) {
			k.bind(b.Dir, b.ReadOnly || k.spec.policy.ReadOnly)
		}
	}
	k.bind(k.spec.inside, k.spec.policy.ReadOnly)
	if k.spec.roots != "" {
		k.bind(bundleDir, true)
	}
	for _, b := range k.spec.binds {
		if !holding(b) {
			k.bind(b.Dir, b.ReadOnly || k.spec.policy.ReadOnly)
		}
	}
}

// bind makes gVisor show what the world has at a path, and look there each time:
// the root itself it may remember, since nobody changes that.
func (k *kernel) bind(path string, readOnly bool) {
	mode := "rw"
	if readOnly {
		mode = "ro"
	}
	k.mounts = append(k.mounts, specs.Mount{Destination: path, Type: "bind", Source: path, Options: []string{"rbind", mode, "nosuid", "nodev"}})
}

// dir makes a directory of the host one of the guest's own.
func (k *kernel) dir(name, dir string) error {
	m := guestproto.Mount{Kind: guestproto.MountBind, Source: dir, Target: own + "/" + name}
	if k.p.ids.root { // inside, nobody may walk there
		tree, err := cloneTree(dir)
		if err != nil {
			return err
		}
		k.launch.give("own-"+name, tree)
		m.Kind, m.Source = guestproto.MountFD, "own-"+name
	}
	k.launch.Config.Mounts = append(k.launch.Config.Mounts, m)
	k.bind(m.Target, false)
	return nil
}

// listen makes the guest's socket one in a directory that both sides have.
func (k *kernel) listen() error {
	ctl := filepath.Join(filepath.Dir(k.spec.socket), ctlName)
	if err := os.Mkdir(ctl, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if err := k.p.give(ctl, 0); err != nil {
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
	k.inner.Paths["listen"] = own + "/" + ctlName + "/" + supervise.SocketName
	return k.dir(ctlName, ctl)
}

// guestCaps are what the guest needs inside gVisor, which is not what anyone
// needs outside.
var guestCaps = []string{
	"CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP", "CAP_KILL", "CAP_CHOWN", "CAP_FOWNER", "CAP_DAC_OVERRIDE", "CAP_SYS_ADMIN",
}

// bundle writes what gVisor is to run, and how.
func (k *kernel) bundle() error {
	spec := specs.Spec{
		Version: specs.Version,
		Process: &specs.Process{
			Args: []string{"croft-guest"}, Cwd: "/",
			Capabilities: &specs.LinuxCapabilities{Bounding: guestCaps, Effective: guestCaps, Permitted: guestCaps},
		},
		Root: &specs.Root{Path: "/", Readonly: true}, Hostname: hostname, Mounts: k.mounts,
		Linux: &specs.Linux{Namespaces: []specs.LinuxNamespace{
			{Type: specs.PIDNamespace}, {Type: specs.MountNamespace}, {Type: specs.IPCNamespace}, {Type: specs.UTSNamespace}, {Type: specs.NetworkNamespace},
		}},
	}
	data, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	const dir = own + "/bundle"
	outer := &k.launch.Config
	outer.Mounts = append(outer.Mounts, guestproto.Mount{Kind: guestproto.MountFile, Target: dir + "/config.json", Source: string(data)})
	sockets := "create" // the guest's own
	if k.spec.egress != "" {
		sockets = "all" // and the proxy's
	}
	outer.GVisor = &guestproto.GVisor{Bundle: dir, Inner: k.inner, Args: []string{
		"--root", own + "/state", "--platform=systrap", "--network=none", "--ignore-cgroups", "--overlay2=none", "--rootless", "--host-uds=" + sockets,
	}}
	return nil
}
