package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/provider/sandbox/internal/rootfs"
	"github.com/croft-run/croft/workspace/driver"
)

// launchBubblewrap prepares a guest whose namespaces and rootfs are set up by bubblewrap.
func (p *Provider) launchBubblewrap(l *launch, u launchSpec) error {
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		return fmt.Errorf("bubblewrap (bwrap) is not installed: %w", fault.Unsupported)
	}
	bin, err := p.binary()
	if err != nil {
		return err
	}
	if len(u.lower) > 0 {
		return fmt.Errorf("a template: bubblewrap mounts no overlayfs: %w", fault.Unsupported)
	}
	program, err := os.Open(bin.Path)
	if err != nil {
		return err
	}
	l.addFile("program", program)
	l.Binary, l.Sys, l.Socket, l.SendRoot = bin.Path, &syscall.SysProcAttr{Setsid: true}, u.socket, u.filesInMount()
	l.Config = guestproto.Config{
		Workspace: u.id, Level: driver.IsolationBubblewrap, Root: u.guestDir, UID: -1, Env: baseEnv(u),
		Confine: guestproto.Confine{
			NoNewPrivs: true, DropCaps: true, Seccomp: true, NoSetID: u.showsHostDirs(), BrokerConnect: u.showsHostDirs(), ConnectBelow: u.socketDirs(),
			BoundNetlink: u.level.netlinkUnbound(p) == nil,
		},
	}
	b := &bwrapLaunch{launch: l, source: map[string]string{}}
	mounts, err := p.bwrapMounts(b, u)
	if err != nil {
		return err
	}
	l.Wrap = func([]string) []string { return b.buildArgv(bwrap) }
	return errors.Join(b.addMounts(mounts), l.addDir("log", u.log))
}

// bwrapMounts lists what bubblewrap mounts. It mounts by path, so the guest verifies
// afterwards that the mounted directories are those that were checked (TOCTOU).
func (p *Provider) bwrapMounts(b *bwrapLaunch, u launchSpec) ([]guestproto.Mount, error) {
	files, held, err := p.filesMount(b.launch, &u)
	if err != nil {
		return nil, err
	}
	before, more, err := p.extraMounts(b.launch, u)
	if err != nil {
		return nil, err
	}
	for _, m := range slices.Concat(before, []guestproto.Mount{files}, more) {
		if m.Kind == guestproto.MountBind {
			b.source[m.Target] = m.Source
		}
	}
	root := u.rootfsOf()
	system, err := root.System()
	if err != nil {
		return nil, err
	}
	copies, err := u.gitStoreMounts()
	return slices.Concat(system, root.Base(), copies, before, []guestproto.Mount{files}, held, more), err
}

// A bwrapLaunch collects the arguments of bubblewrap.
type bwrapLaunch struct {
	launch *launch
	args   []func(descriptors map[string]int) []string
	source map[string]string // sources of bind mounts, by target
}

func (b *bwrapLaunch) addArgs(args ...string) {
	b.args = append(b.args, func(map[string]int) []string { return args })
}

// buildArgv returns the command line, once the descriptors have their numbers.
func (b *bwrapLaunch) buildArgv(bwrap string) []string {
	argv := []string{
		bwrap, "--unshare-all", "--new-session", "--as-pid-1", "--uid", strconv.Itoa(workloadUID), "--gid", strconv.Itoa(workloadUID),
		"--hostname", rootfs.Hostname, "--cap-drop", "ALL", "--clearenv",
	}
	d := b.launch.Config.Descriptors
	for _, args := range b.args {
		argv = append(argv, args(d)...)
	}
	return append(argv, "--chdir", "/", "--", fmt.Sprintf("/proc/self/fd/%d", d["program"]))
}

func (b *bwrapLaunch) addMounts(list []guestproto.Mount) error {
	for _, m := range list {
		if err := b.addMount(m); err != nil {
			return err
		}
	}
	b.addArgs("--remount-ro", "/")
	return nil
}

func (b *bwrapLaunch) addMount(m guestproto.Mount) error {
	switch m.Kind {
	case guestproto.MountProc:
		b.addArgs("--proc", m.Target)
		return b.protectProc(m.Target)
	case guestproto.MountTmpfs:
		if m.Target == "/dev" {
			b.addArgs("--dev", "/dev")
			return nil
		}
		perms := "1777"
		if m.Data == emptyData {
			perms = "0755"
		}
		b.addArgs("--perms", perms, "--tmpfs", m.Target)
	case guestproto.MountDevPTS:
	case guestproto.MountDir:
		b.addArgs("--dir", m.Target)
	case guestproto.MountSymlink:
		if filepath.Dir(m.Target) != "/dev" {
			b.addArgs("--symlink", m.Source, m.Target)
		}
	case guestproto.MountBind:
		b.addBind(m)
	case guestproto.MountSelf:
		return b.addSelfBind(m)
	case guestproto.MountFile:
		return b.addFileMount(m)
	case guestproto.MountMask:
		return b.addMask(m)
	default:
		return fmt.Errorf("bubblewrap: a mount of kind %q: %w", m.Kind, fault.Unsupported)
	}
	return nil
}

// protectProc mounts everything in /proc that does not belong to a process read-only. It
// prevents that uid 0 changes kernel settings, such as core_pattern, which names a
// program that the kernel runs on the host: /proc/sys checks the uid, not capabilities.
func (b *bwrapLaunch) protectProc(proc string) error {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		if _, err := strconv.Atoi(name); err == nil || e.Type()&os.ModeSymlink != 0 {
			continue // a process, or a symlink to one
		}
		if info, err := e.Info(); err != nil || !info.IsDir() && info.Mode()&0o222 == 0 {
			continue // gone, or not writable
		}
		b.addArgs("--ro-bind-try", filepath.Join("/proc", name), filepath.Join(proc, name))
	}
	return nil
}

func (b *bwrapLaunch) addBind(m guestproto.Mount) {
	switch {
	case m.Dev: // --dev makes them
	case m.ReadOnly:
		b.addArgs("--ro-bind", m.Source, m.Target)
	default:
		b.addArgs("--bind", m.Source, m.Target)
	}
}

// addSelfBind bind-mounts a part of the workspace on itself.
func (b *bwrapLaunch) addSelfBind(m guestproto.Mount) error {
	for target, source := range b.source {
		rel, err := filepath.Rel(target, m.Target)
		if err != nil || !filepath.IsLocal(rel) {
			continue
		}
		from := filepath.Join(source, rel)
		if info, err := os.Lstat(from); err != nil || info.Mode()&os.ModeSymlink != 0 {
			return fmt.Errorf("%s: it is a symlink, or gone: %w", rel, fault.InvalidArgument)
		}
		b.addBind(guestproto.Mount{Source: from, Target: m.Target, ReadOnly: m.ReadOnly})
		return nil
	}
	return fmt.Errorf("bubblewrap: self bind mount of %s: %w", m.Target, fault.Internal)
}

// addMask masks a path of the host by an empty directory or by a file with other content.
func (b *bwrapLaunch) addMask(m guestproto.Mount) error {
	info, err := os.Stat(m.Target)
	switch {
	case err != nil:
		return nil // there is nothing to hide
	case info.IsDir():
		b.addArgs("--perms", "0755", "--tmpfs", m.Target, "--remount-ro", m.Target)
		return nil
	}
	return b.addFileMount(m)
}

// addFileMount mounts a file with the content m.Source.
func (b *bwrapLaunch) addFileMount(m guestproto.Mount) error {
	f, err := newMemfd(m.Source)
	if err != nil {
		return err
	}
	name := "file-" + strconv.Itoa(len(b.launch.open))
	b.launch.addFile(name, f)
	b.args = append(b.args, func(d map[string]int) []string {
		return []string{"--perms", "0444", "--ro-bind-data", strconv.Itoa(d[name]), m.Target}
	})
	return nil
}

// newMemfd returns a file in memory that contains text, at offset 0.
func newMemfd(text string) (*os.File, error) {
	fd, err := unix.MemfdCreate("croft", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "content")
	if _, err = f.WriteString(text); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
