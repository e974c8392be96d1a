package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/host/guest"
	"github.com/croft-run/croft/host/guestproto"
	"github.com/croft-run/croft/host/process"
	"github.com/croft-run/croft/workspace/driver"
)

// ids says how users inside are numbered outside.
type ids struct {
	root bool // this process may map any id
	base int  // root: id 0 inside is this one outside, and so on
}

// hostIDs finds out what this process may do.
func hostIDs(base int) ids {
	if os.Geteuid() == 0 {
		return ids{root: true, base: base}
	}
	return ids{}
}

// inside is where a workspace is for its processes.
const inside = "/workspace"

// allNamespaces is every kind that separates a workload from the host.
const allNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// attr is how the guest is started: alone in its namespaces, with the rights
// that it needs there and none outside.
func (i ids) attr(kernel bool) *syscall.SysProcAttr {
	sys := &syscall.SysProcAttr{Cloneflags: allNamespaces, Setsid: true}
	if i.root {
		// The guest is root inside, and an id outside that owns nothing.
		all := []syscall.SysProcIDMap{{ContainerID: 0, HostID: i.base, Size: 65536}}
		sys.UidMappings, sys.GidMappings, sys.GidMappingsEnableSetgroups = all, all, true
		sys.Credential = &syscall.Credential{Uid: 0, Gid: 0}
		return sys
	}
	// An ordinary user can map only itself, to the workload. So the guest is
	// the same user, and what sets it apart is what it may do. gVisor wants to be
	// root, so there that user is root, with no right that root would have.
	inside := workloadUID
	if kernel {
		inside = 0
	}
	sys.UidMappings = []syscall.SysProcIDMap{{ContainerID: inside, HostID: os.Geteuid(), Size: 1}}
	sys.GidMappings = []syscall.SysProcIDMap{{ContainerID: inside, HostID: os.Getegid(), Size: 1}}
	sys.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_KILL, unix.CAP_SYS_CHROOT, unix.CAP_SETPCAP,
		unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_SYS_RESOURCE}
	return sys
}

// A launchSpec says how a guest is to run, and on which workspace.
type launchSpec struct {
	level  *level
	id     string
	files  string // directory of the host with its files
	inside string // where it is inside
	socket string // where the guest listens; "" dies with its stream
	log    string // directory for the logs of sessions
	policy driver.Policy

	throwaway bool                            // the guest ends with its stream
	lower     []string                        // directories below the files, the topmost first
	layer     string                          // with those: directory of the layer above them
	inPlace   bool                            // files is a directory of the user's
	binds     []bind                          // directories of the host that are shown besides
	roots     string                          // directory with the roots that programs trust; "" leaves them theirs
	image     string                          // file that holds the file system of the files, where disk is limited
	egress    string                          // directory with the socket of the proxy, where there is one
	owner     int                             // whom files belong to outside that are made through the mount; 0 is this process's user
	gate      func(change func() error) error // where files are reached through the mount: lets changes be committed
	tmp       string                          // directory for temporary files, where there are no mounts
	watched   *watched                        // what is found in directories of the user's; nil if that is not asked

	version string // of the guest
	key     string // equal for guests that run the same way: one that runs under another key is replaced
}

// A launch is the start of a guest in the making, with what is to be closed once
// the guest has started or has failed to.
type launch struct {
	guest.Launch
	open []io.Closer
}

func (l *launch) close() {
	for _, c := range l.open {
		c.Close()
	}
}

// give lets the guest have a file under a name.
func (l *launch) give(name string, f *os.File) {
	l.open = append(l.open, f)
	l.Files = append(l.Files, guest.NamedFile{Name: name, File: f})
}

// giveDir lets the guest have a directory of the host; "" is none.
func (l *launch) giveDir(name, dir string) error {
	if dir == "" {
		return nil
	}
	f, err := os.Open(dir)
	if err == nil {
		l.give(name, f)
	}
	return err
}

// namespaces prepares a guest with the fence that the kernel gives through
// namespaces.
func (p *Provider) namespaces(l *launch, u launchSpec) error {
	bin, err := p.binary()
	if err != nil {
		return err
	}
	l.Binary, l.Sys, l.Socket, l.SendRoot = bin.Path, p.ids.attr(u.level.kernel), u.socket, u.mounted()
	l.Config = guestproto.Config{
		Workspace: u.id, Level: driver.IsolationNamespaces, Root: u.inside, NewRoot: stage, Hostname: hostname,
		Loopback: true, UID: workloadUID, GID: workloadUID, Env: environment(u),
		Confine: guestproto.Confine{NoNewPrivs: true, DropCaps: true, Seccomp: true, NoSetID: u.hostsFiles()},
	}
	if !p.ids.root {
		l.Config.UID = -1
	}
	mounts, err := p.workspace(l, u)
	if err != nil {
		return err
	}
	before, after, err := p.further(l, u)
	if err == nil && p.ids.root {
		err = errors.Join(p.trees(l, before, "outer", u.level.kernel), p.trees(l, after, "bind", u.level.kernel))
	}
	if err != nil {
		return err
	}
	l.Config.Mounts = slices.Concat(world(u.policy.Limits[driver.ResourceMemory].Max), before, mounts, after)
	return l.giveDir("log", u.log)
}

// mounted reports whether files are what the guest's mount shows, and not what
// is in a directory.
func (u launchSpec) mounted() bool {
	return len(u.lower) > 0 || u.image != "" || u.inPlace && !u.level.plain
}

// hostsFiles reports whether the workload writes files that others on the host
// can reach.
func (u launchSpec) hostsFiles() bool { return u.inPlace || len(u.binds) > 0 }

// workspace returns the mounts of the workspace itself.
func (p *Provider) workspace(l *launch, u launchSpec) ([]guestproto.Mount, error) {
	if len(u.lower) > 0 {
		return p.overlay(l, u)
	}
	m, held, err := p.filesMount(l, &u)
	if err != nil {
		return nil, err
	}
	if p.ids.root {
		tree, err := p.tree(u)
		if err != nil {
			return nil, err
		}
		l.give("workspace", tree)
		m.Kind, m.Source = guestproto.MountFD, "workspace"
	}
	return append([]guestproto.Mount{m}, held...), nil
}

// filesMount returns the mount of the files, and those that keep what others run
// later read-only in a directory in place. That directory was judged, and u.files
// leads to it from then on.
func (p *Provider) filesMount(l *launch, u *launchSpec) (m guestproto.Mount, held []guestproto.Mount, err error) {
	m = guestproto.Mount{Kind: guestproto.MountBind, Source: u.files, Target: u.inside, ReadOnly: u.policy.ReadOnly}
	if !u.inPlace {
		return m, nil, nil
	}
	d, err := p.show(l, u.files, u.inside)
	if err != nil {
		return m, nil, err
	}
	m.Source, u.files = d.real, d.self()
	held, err = u.protect(l, d, u.inside, u.policy.ReadOnly)
	return m, held, err
}

// tree returns a detached mount of the files, whose owner is the workload.
func (p *Provider) tree(u launchSpec) (*os.File, error) {
	if u.image == "" {
		return p.mapped(u.files, u.level.kernel)
	}
	tree, err := mountImage(u.image, u.policy.ReadOnly)
	if err != nil {
		return nil, err
	}
	if err := p.mapOwner(tree, 0, 0, u.level.kernel); err != nil {
		return nil, errors.Join(err, tree.Close())
	}
	return tree, nil
}

// overlay returns the mount of a workspace that lies over others.
func (p *Provider) overlay(l *launch, u launchSpec) ([]guestproto.Mount, error) {
	m := guestproto.Mount{
		Kind: guestproto.MountOverlay, Target: u.inside, ReadOnly: u.policy.ReadOnly, Data: "userxattr",
		Lower: u.lower, Upper: filepath.Join(u.layer, "upper"), Work: filepath.Join(u.layer, "work"),
	}
	if !u.policy.Durable {
		m.Data += ",volatile"
	}
	if !p.ids.root {
		return []guestproto.Mount{m}, nil
	}
	m.Lower = nil
	for i, dir := range u.lower {
		lower, err := p.mapped(dir, false)
		if err != nil {
			return nil, err
		}
		name := fmt.Sprintf("lower%d", i)
		l.give(name, lower)
		m.Lower = append(m.Lower, "fd:"+name)
	}
	layer, err := p.layerTree(u)
	if err != nil {
		return nil, err
	}
	l.give("layer", layer)
	m.Upper, m.Work = "fd:layer/upper", "work"
	return []guestproto.Mount{m}, nil
}

// layerTree returns a detached mount with the directories of an overlay.
func (p *Provider) layerTree(u launchSpec) (*os.File, error) {
	if u.image == "" {
		return cloneTree(u.layer)
	}
	tree, err := mountImage(u.image, false)
	if err != nil {
		return nil, err
	}
	if err := p.freshLayer(fmt.Sprintf("/proc/self/fd/%d", tree.Fd())); err != nil {
		return nil, errors.Join(err, tree.Close())
	}
	return tree, nil
}

// mapped returns a detached mount of a directory whose owner is the workload.
func (p *Provider) mapped(dir string, kernel bool) (*os.File, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil, errors.New("no owner is known")
	}
	tree, err := cloneTree(dir)
	if err != nil {
		return nil, err
	}
	if err := p.mapOwner(tree, int(st.Uid), int(st.Gid), kernel); err != nil {
		tree.Close()
		return nil, err
	}
	return tree, nil
}

// environment is what every process inside starts with.
func environment(u launchSpec) map[string]string {
	env := map[string]string{
		"PATH": process.DefaultPath, "HOME": home, "USER": workloadName, "LOGNAME": workloadName,
		"SHELL": "/bin/bash", "LANG": "C.UTF-8", "TERM": "xterm-256color", "TMPDIR": "/tmp",
	}
	for k, v := range u.policy.Env {
		env[k] = v
	}
	return env
}
