package sandbox

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/internal/host/guest"
	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/internal/host/process"
	"github.com/croft-run/croft/internal/paths"
	"github.com/croft-run/croft/provider/sandbox/internal/gitdir"
	"github.com/croft-run/croft/provider/sandbox/internal/mount"
	"github.com/croft-run/croft/provider/sandbox/internal/protect"
	"github.com/croft-run/croft/provider/sandbox/internal/rootfs"
	"github.com/croft-run/croft/workspace/driver"
)

// ids says how user ids inside map to ids on the host.
type ids struct {
	root   bool // this process may map any id
	base   int  // root: the id on the host of id 0 inside
	userns *mount.Users
}

// rootfsBuildDir is the mount point on which the guest builds the rootfs before
// pivot_root. It must exist, and hide nothing that is needed while building; nothing
// below /sys is.
const rootfsBuildDir = "/sys"

// The user of the workload, inside: the id, and the name unless options.User has another.
const (
	workloadUID  = 1000
	workloadName = "croft"
)

// guestWorkspaceDir is the default path of a workspace inside.
const guestWorkspaceDir = "/workspace"

// allNamespaces are the clone flags of all namespaces of a guest.
const allNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// sysProcAttr returns how the guest is started: in new namespaces, with the capabilities
// that it needs there and none on the host.
func (i ids) sysProcAttr(gvisor bool) *syscall.SysProcAttr {
	sys := &syscall.SysProcAttr{Cloneflags: allNamespaces, Setsid: true}
	if i.root {
		// The guest is root inside; on the host, its id owns nothing.
		all := []syscall.SysProcIDMap{{ContainerID: 0, HostID: i.base, Size: 65536}}
		sys.UidMappings, sys.GidMappings, sys.GidMappingsEnableSetgroups = all, all, true
		sys.Credential = &syscall.Credential{Uid: 0, Gid: 0}
		return sys
	}
	// An ordinary user can map only its own id. So guest and workload are the same
	// user, and differ in capabilities. gVisor must run as root inside, so there the
	// id is mapped to root, without root's capabilities on the host.
	inside := workloadUID
	if gvisor {
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
	level    *level
	id       string
	files    string   // directory of the files on the host
	guestDir string   // path of the workspace inside
	user     string   // name of the workload's user inside
	socket   string   // socket of the guest; "" for a throwaway guest
	log      string   // directory of the logs of sessions
	sockets  []string // directories of the host whose sockets may be connected to
	policy   driver.Policy

	throwaway   bool                            // the guest ends with the connection of the process that started it
	lower       []string                        // lower directories of the overlayfs, topmost first; empty without overlayfs
	layer       string                          // with lower: directory that contains upper and work of the overlayfs
	hostDir     bool                            // in place: files is a directory of the user
	binds       []Bind                          // further directories of the host
	layers      string                          // directory of the upper layers of caches and toolchains
	caches      []layeredCache                  // caches of the host with a layer over each
	cacheEnv    map[string]string               // variables of the caches
	volumes     []guestproto.Mount              // volumes
	rootfs      string                          // directory with the files of an image; "" is the host's programs
	caDir       string                          // directory of the certificates that programs trust; "" leaves the host's
	image       string                          // with a disk limit: the image with the files
	egress      string                          // directory of the socket of the egress proxy; "" for no proxy
	owner       int                             // uid on the host of files created through the mount; 0 is this process's user
	commitGuard func(change func() error) error // called around the commit of a change through the mount
	tmp         string                          // without mounts: directory of temporary files
	autorun     protect.Settings                // of the autorun files; its State receives those that were found

	version string // of the guest
	key     string // digest of the settings: a guest with another key is replaced
}

// A launch is a prepared start of a guest, with the files to close once the guest has
// started or failed to.
type launch struct {
	guest.Launch
	open []io.Closer
}

func (l *launch) close() {
	for _, c := range l.open {
		c.Close()
	}
}

// addFile passes a file to the guest under a name.
func (l *launch) addFile(name string, f *os.File) {
	l.open = append(l.open, f)
	l.Files = append(l.Files, guest.NamedFile{Name: name, File: f})
}

// addDir passes a directory of the host to the guest, unless it is "".
func (l *launch) addDir(name, dir string) error {
	if dir == "" {
		return nil
	}
	f, err := os.Open(dir)
	if err == nil {
		l.addFile(name, f)
	}
	return err
}

// launchNamespaces prepares a guest that is isolated by namespaces, a rootfs that it
// enters by pivot_root, and seccomp.
func (p *Provider) launchNamespaces(l *launch, u launchSpec) error {
	bin, err := p.binary()
	if err != nil {
		return err
	}
	l.Binary, l.Sys, l.Socket, l.SendRoot = bin.Path, p.ids.sysProcAttr(u.level.gvisor), u.socket, u.filesInMount()
	l.Config = guestproto.Config{
		Workspace: u.id, Level: driver.IsolationNamespaces, Root: u.guestDir, NewRoot: rootfsBuildDir, Hostname: rootfs.Hostname,
		Loopback: true, UID: workloadUID, GID: workloadUID, Env: baseEnv(u),
		Confine: guestproto.Confine{NoNewPrivs: true, DropCaps: true, Seccomp: true, NoSetID: u.showsHostDirs()},
	}
	if !u.level.gvisor { // which has its own rule, see addBundle
		l.Config.Confine.BrokerConnect, l.Config.Confine.ConnectBelow = u.showsHostDirs(), u.socketDirs()
		l.Config.Confine.BoundNetlink = u.level.netlinkUnbound(p) == nil
	}
	if !p.ids.root {
		l.Config.UID = -1
	}
	mounts, err := p.workspaceMounts(l, u)
	if err != nil {
		return err
	}
	before, after, err := p.extraMounts(l, u)
	if err == nil {
		err = errors.Join(p.ids.cloneBinds(l, before, "outer", u.level.gvisor), p.ids.cloneBinds(l, after, "bind", u.level.gvisor))
	}
	if err != nil {
		return err
	}
	copies, err := u.gitStoreMounts()
	if err != nil {
		return err
	}
	if err := p.ids.cloneBinds(l, copies, "gitstore", u.level.gvisor); err != nil {
		return err
	}
	root := u.rootfsOf()
	system, err := root.System()
	u.volumes = slices.Clone(u.volumes)
	if err == nil && u.rootfs != "" {
		err = p.ids.cloneBinds(l, system, "system", u.level.gvisor)
	}
	if err == nil {
		err = p.ids.cloneBinds(l, u.volumes, "volume", u.level.gvisor)
	}
	if err != nil {
		return err
	}
	caches, err := p.cacheMounts(l, u)
	if err != nil {
		return err
	}
	l.Config.Mounts = slices.Concat(system, root.Base(), copies, before, mounts, caches, after, u.volumes)
	return l.addDir("log", u.log)
}

// filesInMount reports whether files are reached through the guest's mount instead of
// their directory.
func (u launchSpec) filesInMount() bool {
	return len(u.lower) > 0 || u.image != "" || u.hostDir && !u.level.noMounts
}

// showsHostDirs reports whether the workload sees directories of the host besides the
// system's, whose sockets may be the host's and whose files programs of the host may run.
func (u launchSpec) showsHostDirs() bool { return u.hostDir || len(u.binds)+len(u.caches) > 0 }

// socketDirs lists the directories, as seen inside, in which Unix sockets are the
// workload's own, or are named by an option. Those of other directories of the host may be
// the host's.
func (u launchSpec) socketDirs() []string {
	if u.level.noMounts {
		// The workload can move a socket of the host from a directory that it may write.
		if u.showsHostDirs() {
			return nil
		}
		return []string{u.files, u.tmp}
	}
	dirs := []string{"/tmp", "/run", "/var/tmp", "/dev/shm", rootfs.HomeOf(u.user)}
	if !u.hostDir {
		dirs = append(dirs, u.guestDir)
	}
	return append(dirs, u.sockets...)
}

// workspaceMounts returns the mounts of the workspace itself.
func (p *Provider) workspaceMounts(l *launch, u launchSpec) ([]guestproto.Mount, error) {
	if len(u.lower) > 0 {
		return p.overlayMounts(l, u)
	}
	m, held, err := p.filesMount(l, &u)
	if err != nil {
		return nil, err
	}
	if p.ids.root {
		tree, err := p.ids.filesTree(u)
		if err != nil {
			return nil, err
		}
		l.addFile("workspace", tree)
		m.Kind, m.Source = guestproto.MountFD, "workspace"
		if err := p.ids.cloneBinds(l, held, "held", u.level.gvisor); err != nil {
			return nil, err
		}
	}
	return append([]guestproto.Mount{m}, held...), nil
}

// filesMount returns the mount of the files, and for a directory in place the mounts
// that make its autorun files read-only. That directory is checked, and u.files becomes
// the path of its descriptor.
func (p *Provider) filesMount(l *launch, u *launchSpec) (m guestproto.Mount, held []guestproto.Mount, err error) {
	m = guestproto.Mount{Kind: guestproto.MountBind, Source: u.files, Target: u.guestDir, ReadOnly: u.policy.ReadOnly}
	if !u.hostDir {
		return m, nil, nil
	}
	d, err := p.dirs.openMountSource(l, u.files, u.guestDir)
	if err != nil {
		return m, nil, err
	}
	m.Source, u.files = d.Real, d.ProcPath()
	if held, err = u.protectAutorun(l, d, u.guestDir, u.policy.ReadOnly); err != nil {
		return m, nil, err
	}
	fifos, err := u.maskFIFOs(d, u.guestDir)
	return m, append(held, fifos...), err
}

// filesTree returns a detached, idmapped mount of the files.
func (i ids) filesTree(u launchSpec) (*os.File, error) {
	if u.image == "" {
		return i.userns.CloneMapped(u.files, u.level.gvisor)
	}
	tree, err := mount.Image(u.image, u.policy.ReadOnly)
	if err != nil {
		return nil, err
	}
	if err := i.userns.MapOwner(tree, mount.Owner{Root: u.level.gvisor}); err != nil {
		return nil, errors.Join(err, tree.Close())
	}
	return tree, nil
}

// cleanGitName is the directory of a workspace with the clean files of the Git directories of
// its template, a lower layer of the overlayfs that hides those with credentials.
const cleanGitName = "git-clean"

// overlayMounts returns the overlayfs mount of a workspace with lower directories.
func (p *Provider) overlayMounts(l *launch, u launchSpec) ([]guestproto.Mount, error) {
	if template := u.lower[len(u.lower)-1]; !paths.Inside(p.layers.dir, template) { // a template of Croft, in layers, has no credentials
		clean := filepath.Join(filepath.Dir(u.layer), cleanGitName)
		found, err := gitdir.CleanTree(template, clean)
		if err != nil {
			return nil, err
		}
		if found {
			u.lower = append(u.lower[:len(u.lower)-1:len(u.lower)-1], clean, template)
		}
	}
	m := guestproto.Mount{
		Kind: guestproto.MountOverlay, Target: u.guestDir, ReadOnly: u.policy.ReadOnly, Data: "userxattr",
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
		lower, err := p.ids.userns.CloneMapped(dir, false)
		if err != nil {
			return nil, err
		}
		name := fmt.Sprintf("lower%d", i)
		l.addFile(name, lower)
		m.Lower = append(m.Lower, "fd:"+name)
	}
	layer, err := p.ids.layerTree(u)
	if err != nil {
		return nil, err
	}
	l.addFile("layer", layer)
	m.Upper, m.Work = "fd:layer/upper", "work"
	return []guestproto.Mount{m}, nil
}

// layerTree returns a detached mount with the directories upper and work of an overlayfs.
func (i ids) layerTree(u launchSpec) (*os.File, error) {
	if u.image == "" {
		return mount.Clone(u.layer)
	}
	tree, err := mount.Image(u.image, false)
	if err != nil {
		return nil, err
	}
	if err := i.resetLayer(fmt.Sprintf("/proc/self/fd/%d", tree.Fd())); err != nil {
		return nil, errors.Join(err, tree.Close())
	}
	return tree, nil
}

// rootfsOf says what the rootfs has.
func (u launchSpec) rootfsOf() *rootfs.Rootfs {
	return &rootfs.Rootfs{Image: u.rootfs, User: u.user, Workspace: u.guestDir, Path: baseEnv(u)["PATH"], Memory: u.policy.Limits[driver.ResourceMemory].Max}
}

// baseEnv returns the environment of every process inside.
func baseEnv(u launchSpec) map[string]string {
	env := map[string]string{
		"PATH": process.DefaultPath, "HOME": rootfs.HomeOf(u.user), "USER": u.user, "LOGNAME": u.user,
		"SHELL": "/bin/bash", "LANG": "C.UTF-8", "TERM": "xterm-256color", "TMPDIR": "/tmp",
	}
	if len(u.writableDirs()) > 0 {
		env["GIT_TEMPLATE_DIR"] = gitdir.Template
	}
	maps.Copy(env, u.cacheEnv)
	maps.Copy(env, u.policy.Env)
	return env
}

// gitStoreMounts returns the mount of the private copies of Git directories.
func (u *launchSpec) gitStoreMounts() ([]guestproto.Mount, error) {
	copies := u.autorun.Git
	if copies == nil || len(copies.List) == 0 && len(u.writableDirs()) == 0 {
		return nil, nil
	}
	return copies.Mounts()
}
