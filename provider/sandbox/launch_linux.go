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

// A unit is one workspace to put a fence around.
type unit struct {
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
	wrapped   bool                            // another program makes the mounts
	kernel    bool                            // in gVisor, which makes files as its own user and then gives them away
	handed    bool                            // in place, where mounts keep files read-only
	owner     int                             // whom files belong to outside that are made through the mount; 0 is this process's user
	gate      func(change func() error) error // where files are reached through the mount: lets changes be committed
	tmp       string                          // directory for temporary files, where there are no mounts
	watched   *watched                        // what is found in directories of the user's; nil is nobody's business
}

// namespaces returns how to start a guest with the fence that the kernel gives
// through namespaces. The caller closes what it returns besides.
func (p *Provider) namespaces(u unit) (*guest.Launch, []io.Closer, error) {
	bin, err := p.binary()
	if err != nil {
		return nil, nil, err
	}
	var open []io.Closer
	l := &guest.Launch{Binary: bin.Path, Sys: p.ids.attr(u.kernel), Socket: u.socket}
	l.Config = guestproto.Config{
		Workspace: u.id, Level: driver.IsolationNamespaces, Root: u.inside, NewRoot: stage, Hostname: hostname,
		Loopback: true, UID: workloadUID, GID: workloadUID, Mounts: world(u.policy.Limits[driver.ResourceMemory].Max), Env: environment(u),
		Confine: guestproto.Confine{NoNewPrivs: true, DropCaps: true, Seccomp: true, NoSetID: u.hostsFiles()},
	}
	l.HandOff = u.mounted()
	if !p.ids.root {
		l.Config.UID = -1
	}
	mounts, trees, err := p.workspace(l, u)
	open = append(open, trees...)
	if err != nil {
		closeAll(open)
		return nil, nil, err
	}
	before, after, trees, err := p.further(l, u)
	open = append(open, trees...)
	if err == nil && p.ids.root {
		trees, err = p.trees(l, before, "outer", u.kernel)
		open = append(open, trees...)
	}
	if err == nil && p.ids.root {
		trees, err = p.trees(l, after, "bind", u.kernel)
		open = append(open, trees...)
	}
	if err != nil {
		closeAll(open)
		return nil, nil, err
	}
	l.Config.Mounts = slices.Concat(l.Config.Mounts, before, mounts, after)
	if u.log != "" {
		dir, err := os.Open(u.log)
		if err != nil {
			closeAll(open)
			return nil, nil, err
		}
		open = append(open, dir)
		l.Files = append(l.Files, guest.Named{Name: "log", File: dir})
	}
	return l, open, nil
}

// mounted reports whether files are what the guest's mount shows, and not what
// is in a directory.
func (u unit) mounted() bool { return len(u.lower) > 0 || u.image != "" || u.handed }

// hostsFiles reports whether the workload writes files that others on the host
// can reach.
func (u unit) hostsFiles() bool { return u.inPlace || len(u.binds) > 0 }

// workspace returns the mounts of the workspace itself, and what to close.
func (p *Provider) workspace(l *guest.Launch, u unit) (mounts []guestproto.Mount, open []io.Closer, err error) {
	if len(u.lower) > 0 {
		return p.overlay(l, u)
	}
	m := guestproto.Mount{Kind: guestproto.MountBind, Source: u.files, Target: u.inside, ReadOnly: u.policy.ReadOnly}
	var held []guestproto.Mount
	if u.inPlace {
		d, source, err := p.show(l, u.files, u.inside)
		if err != nil {
			return nil, nil, err
		}
		open = append(open, d.file)
		m.Source, u.files = source, d.self()
		more, err := u.protect(l, d, u.inside, u.policy.ReadOnly, &open)
		if err != nil {
			return nil, open, err
		}
		held = more
	}
	if p.ids.root {
		tree, err := p.tree(u)
		if err != nil {
			return nil, open, err
		}
		open = append(open, tree)
		l.Files = append(l.Files, guest.Named{Name: "workspace", File: tree})
		m.Kind, m.Source = guestproto.MountFD, "workspace"
	}
	return append(append(mounts, m), held...), open, nil
}

// tree returns a detached mount of the files, whose owner is the workload.
func (p *Provider) tree(u unit) (*os.File, error) {
	if u.image == "" {
		return p.mapped(u.files, u.kernel)
	}
	tree, err := mountImage(u.image, u.policy.ReadOnly)
	if err != nil {
		return nil, err
	}
	if err := p.mapOwner(tree, 0, 0, u.kernel); err != nil {
		return nil, errors.Join(err, tree.Close())
	}
	return tree, nil
}

// overlay returns the mount of a workspace that lies over others.
func (p *Provider) overlay(l *guest.Launch, u unit) (mounts []guestproto.Mount, open []io.Closer, err error) {
	m := guestproto.Mount{
		Kind: guestproto.MountOverlay, Target: u.inside, ReadOnly: u.policy.ReadOnly, Data: "userxattr",
		Lower: u.lower, Upper: filepath.Join(u.layer, "upper"), Work: filepath.Join(u.layer, "work"),
	}
	if !u.policy.Durable {
		m.Data += ",volatile"
	}
	if !p.ids.root {
		return []guestproto.Mount{m}, nil, nil
	}
	m.Lower = nil
	for i, dir := range u.lower {
		lower, err := p.mapped(dir, false)
		if err != nil {
			return nil, open, err
		}
		open = append(open, lower)
		name := fmt.Sprintf("lower%d", i)
		l.Files = append(l.Files, guest.Named{Name: name, File: lower})
		m.Lower = append(m.Lower, "fd:"+name)
	}
	layer, err := p.layerTree(u)
	if err != nil {
		return nil, open, err
	}
	open = append(open, layer)
	l.Files = append(l.Files, guest.Named{Name: "layer", File: layer})
	m.Upper, m.Work = "fd:layer/upper", "work"
	return []guestproto.Mount{m}, open, nil
}

// layerTree returns a detached mount with the directories of an overlay.
func (p *Provider) layerTree(u unit) (*os.File, error) {
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

func closeAll(list []io.Closer) {
	for _, c := range list {
		c.Close()
	}
}

// environment is what every process inside starts with.
func environment(u unit) map[string]string {
	env := map[string]string{
		"PATH": process.DefaultPath, "HOME": home, "USER": workloadName, "LOGNAME": workloadName,
		"SHELL": "/bin/bash", "LANG": "C.UTF-8", "TERM": "xterm-256color", "TMPDIR": "/tmp",
	}
	for k, v := range u.policy.Env {
		env[k] = v
	}
	return env
}
