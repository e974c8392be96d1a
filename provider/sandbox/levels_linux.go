package sandbox

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/host/guestproto"
	"github.com/croft-run/croft/workspace/driver"
)

// bubblewrap prepares a guest with the world that namespaces would build, built by
// bubblewrap.
func (p *Provider) bubblewrap(l *launch, u launchSpec) error {
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		return fmt.Errorf("bubblewrap (bwrap) is not installed: %w", fault.Unsupported)
	}
	bin, err := p.binary()
	if err != nil {
		return err
	}
	if len(u.lower) > 0 {
		return fmt.Errorf("a template: bubblewrap mounts no overlay: %w", fault.Unsupported)
	}
	program, err := os.Open(bin.Path)
	if err != nil {
		return err
	}
	l.give("program", program)
	l.Binary, l.Sys, l.Socket, l.SendRoot = bin.Path, &syscall.SysProcAttr{Setsid: true}, u.socket, u.mounted()
	l.Config = guestproto.Config{
		Workspace: u.id, Level: driver.IsolationBubblewrap, Root: u.inside, UID: -1, Env: environment(u),
		Confine: guestproto.Confine{NoNewPrivs: true, DropCaps: true, Seccomp: true, NoSetID: u.hostsFiles()},
	}
	b := &wrapping{launch: l, source: map[string]string{}}
	mounts, err := p.wrappedMounts(b, u)
	if err != nil {
		return err
	}
	l.Wrap = func([]string) []string { return b.command(bwrap) }
	return errors.Join(b.mounts(mounts), l.giveDir("log", u.log))
}

// wrappedMounts lists what bubblewrap is to mount: by path, so the guest looks
// afterwards whether that was what was judged.
func (p *Provider) wrappedMounts(b *wrapping, u launchSpec) ([]guestproto.Mount, error) {
	files, held, err := p.filesMount(b.launch, &u)
	if err != nil {
		return nil, err
	}
	before, more, err := p.further(b.launch, u)
	if err != nil {
		return nil, err
	}
	for _, m := range slices.Concat(before, []guestproto.Mount{files}, more) {
		if m.Kind == guestproto.MountBind {
			b.source[m.Target] = m.Source
		}
	}
	return slices.Concat(world(u.policy.Limits[driver.ResourceMemory].Max), before, []guestproto.Mount{files}, held, more), nil
}

// A wrapping is a call of bubblewrap in the making.
type wrapping struct {
	launch *launch
	args   []func(descriptors map[string]int) []string
	source map[string]string // what is bound where
}

func (b *wrapping) add(args ...string) {
	b.args = append(b.args, func(map[string]int) []string { return args })
}

// command is the whole call, once the descriptors have their numbers.
func (b *wrapping) command(bwrap string) []string {
	argv := []string{
		bwrap, "--unshare-all", "--new-session", "--as-pid-1", "--uid", strconv.Itoa(workloadUID), "--gid", strconv.Itoa(workloadUID),
		"--hostname", hostname, "--cap-drop", "ALL", "--clearenv",
	}
	d := b.launch.Config.Descriptors
	for _, args := range b.args {
		argv = append(argv, args(d)...)
	}
	return append(argv, "--chdir", "/", "--", fmt.Sprintf("/proc/self/fd/%d", d["program"]))
}

func (b *wrapping) mounts(list []guestproto.Mount) error {
	for _, m := range list {
		if err := b.mount(m); err != nil {
			return err
		}
	}
	b.add("--remount-ro", "/")
	return nil
}

func (b *wrapping) mount(m guestproto.Mount) error {
	switch m.Kind {
	case guestproto.MountProc:
		b.add("--proc", m.Target)
		return b.settings(m.Target)
	case guestproto.MountTmpfs:
		if m.Target == "/dev" {
			b.add("--dev", "/dev")
			return nil
		}
		perms := "1777"
		if m.Data == emptyData {
			perms = "0755"
		}
		b.add("--perms", perms, "--tmpfs", m.Target)
	case guestproto.MountDevPTS:
	case guestproto.MountDir:
		b.add("--dir", m.Target)
	case guestproto.MountSymlink:
		if filepath.Dir(m.Target) != "/dev" {
			b.add("--symlink", m.Source, m.Target)
		}
	case guestproto.MountBind:
		b.bind(m)
	case guestproto.MountSelf:
		return b.hold(m)
	case guestproto.MountMask:
		return b.cover(m)
	default:
		return fmt.Errorf("bubblewrap: a mount of kind %q: %w", m.Kind, fault.Unsupported)
	}
	return nil
}

// settings keeps what is in /proc and not of a process read-only: the kernel lets
// the user root change its settings, one of which names a program that it runs
// outside, whatever else was taken from that user.
func (b *wrapping) settings(proc string) error {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		if _, err := strconv.Atoi(name); err == nil || e.Type()&os.ModeSymlink != 0 {
			continue // a process, or the way to one
		}
		if info, err := e.Info(); err != nil || !info.IsDir() && info.Mode()&0o222 == 0 {
			continue // gone, or nobody's to write
		}
		b.add("--ro-bind-try", filepath.Join("/proc", name), filepath.Join(proc, name))
	}
	return nil
}

func (b *wrapping) bind(m guestproto.Mount) {
	switch {
	case m.Dev: // --dev makes them
	case m.ReadOnly:
		b.add("--ro-bind", m.Source, m.Target)
	default:
		b.add("--bind", m.Source, m.Target)
	}
}

// hold binds a part of the workspace over itself.
func (b *wrapping) hold(m guestproto.Mount) error {
	for target, source := range b.source {
		rel, err := filepath.Rel(target, m.Target)
		if err != nil || !filepath.IsLocal(rel) {
			continue
		}
		from := filepath.Join(source, rel)
		if info, err := os.Lstat(from); err != nil || info.Mode()&os.ModeSymlink != 0 {
			return fmt.Errorf("%s: it is a symlink, or gone: %w", rel, fault.InvalidArgument)
		}
		b.bind(guestproto.Mount{Source: from, Target: m.Target, ReadOnly: m.ReadOnly})
		return nil
	}
	return fmt.Errorf("bubblewrap: hold %s: %w", m.Target, fault.Internal)
}

// cover hides a path of the host, or shows another content there.
func (b *wrapping) cover(m guestproto.Mount) error {
	info, err := os.Stat(m.Target)
	switch {
	case err != nil:
		return nil // there is nothing to hide
	case info.IsDir():
		b.add("--perms", "0755", "--tmpfs", m.Target, "--remount-ro", m.Target)
		return nil
	}
	f, err := content(m.Source)
	if err != nil {
		return err
	}
	name := "cover-" + strconv.Itoa(len(b.launch.open))
	b.launch.give(name, f)
	b.args = append(b.args, func(d map[string]int) []string {
		return []string{"--perms", "0444", "--ro-bind-data", strconv.Itoa(d[name]), m.Target}
	})
	return nil
}

// content is a file in memory that holds text, to be read from its beginning.
func content(text string) (*os.File, error) {
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

// readable is what a workload without a root of its own may read.
var readable = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/gnu/store", "/proc",
	"/etc/passwd", "/etc/group", "/etc/hosts", "/etc/nsswitch.conf", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives",
	"/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/ca-certificates", "/etc/localtime", "/etc/timezone", "/etc/mime.types", "/etc/bash.bashrc",
	"/etc/profile", "/etc/inputrc", "/etc/terminfo", "/etc/gitconfig", "/etc/protocols", "/etc/services", "/etc/os-release", "/etc/debian_version",
	"/etc/python3", "/etc/java", "/etc/perl", "/sys/devices/system/cpu", "/sys/fs/cgroup",
}

// usable is what it may also write to. Terminals by their path are not: those of
// the same user on the host are among them.
var usable = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}

// process prepares a guest without any namespace, which fences what it starts with
// Landlock and seccomp.
func (p *Provider) process(l *launch, u launchSpec) error {
	if len(u.lower) > 0 {
		return fmt.Errorf("a template, without mounts: %w", fault.Unsupported)
	}
	if err := u.untrapped("without mounts"); err != nil {
		return err
	}
	const least = 3 // from which on truncation is covered
	if abi, err := guestproto.LandlockABI(); err != nil || abi < least {
		return fmt.Errorf("landlock has version %d here, %d is the least (%v): %w", abi, least, err, fault.Unsupported) //nolint:errorlint // one code is enough
	}
	bin, err := p.binary()
	if err != nil {
		return err
	}
	env := environment(u)
	env["HOME"], env["TMPDIR"] = u.tmp, u.tmp
	maps.Copy(env, u.policy.Env)
	writable, visible, err := p.grants(l, u)
	if err != nil {
		return err
	}
	l.Binary, l.Sys, l.Socket = bin.Path, &syscall.SysProcAttr{Setsid: true}, u.socket
	l.Config = guestproto.Config{
		Workspace: u.id, Level: driver.IsolationProcess, Root: u.inside, UID: -1, Env: env, Subreaper: true,
		Confine: guestproto.Confine{NoNewPrivs: true, DropCaps: true, Seccomp: true, NoNetwork: true, NoSetID: true, ReadWrite: writable, ReadOnly: visible},
	}
	return l.giveDir("log", u.log)
}

// grants lists what a workload without mounts may write, and what it may read.
// Directories of the user's are named by descriptors of what was judged.
func (p *Provider) grants(l *launch, u launchSpec) (writable, visible []string, err error) {
	writable, visible = append([]string{u.tmp}, usable...), slices.Clone(readable)
	if !u.inPlace {
		writable = append(writable, u.files)
	} else if writable, err = p.grant(l, u.files, writable); err != nil {
		return nil, nil, err
	}
	for _, dir := range u.binds {
		switch {
		case dir.Empty:
		case dir.ReadOnly || u.policy.ReadOnly:
			visible, err = p.grant(l, dir.Dir, visible)
		default:
			writable, err = p.grant(l, dir.Dir, writable)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return writable, visible, nil
}

// grant adds a directory that is judged to a list.
func (p *Provider) grant(l *launch, dir string, list []string) ([]string, error) {
	d, err := p.judge(dir)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("grant%d", len(l.Files))
	l.give(name, d.file)
	return append(list, "fd:"+name), nil
}
