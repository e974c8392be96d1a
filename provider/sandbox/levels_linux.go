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
	"github.com/croft-run/croft/host/guest"
	"github.com/croft-run/croft/host/guestproto"
	"github.com/croft-run/croft/workspace/driver"
)

// bubblewrap starts the guest with the world that namespaces would build, built
// by bubblewrap.
func (p *Provider) bubblewrap(u unit) (*guest.Launch, []io.Closer, error) {
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		return nil, nil, fmt.Errorf("bubblewrap (bwrap) is not installed: %w", fault.Unsupported)
	}
	bin, err := p.binary()
	if err != nil {
		return nil, nil, err
	}
	if len(u.lower) > 0 {
		return nil, nil, fmt.Errorf("a template: bubblewrap mounts no overlay: %w", fault.Unsupported)
	}
	program, err := os.Open(bin.Path)
	if err != nil {
		return nil, nil, err
	}
	l := &guest.Launch{Binary: bin.Path, Socket: u.socket, Sys: &syscall.SysProcAttr{Setsid: true}}
	l.Config = guestproto.Config{
		Workspace: u.id, Level: driver.IsolationBubblewrap, Root: u.inside, UID: -1, Env: environment(u),
		Confine: guestproto.Confine{NoNewPrivs: true, DropCaps: true, Seccomp: true, NoSetID: u.hostsFiles()},
	}
	l.HandOff = u.mounted()
	b := &wrapping{launch: l, open: []io.Closer{program}, source: map[string]string{}}
	mounts, err := p.wrappedMounts(b, u)
	if err != nil {
		closeAll(b.open)
		return nil, nil, err
	}
	l.Files = append(l.Files, guest.Named{Name: "program", File: program})
	if err := errors.Join(b.mounts(mounts), b.log(u)); err != nil {
		closeAll(b.open)
		return nil, nil, err
	}
	l.Wrap = func([]string) []string { return b.command(bwrap) }
	return l, b.open, nil
}

// wrappedMounts lists what bubblewrap is to mount: by path, so the guest looks
// afterwards whether that was what was judged.
func (p *Provider) wrappedMounts(b *wrapping, u unit) ([]guestproto.Mount, error) {
	u.wrapped = true
	files := guestproto.Mount{Kind: guestproto.MountBind, Source: u.files, Target: u.inside, ReadOnly: u.policy.ReadOnly}
	var held []guestproto.Mount
	if u.inPlace {
		d, source, err := p.show(b.launch, u.files, u.inside)
		if err != nil {
			return nil, err
		}
		b.open = append(b.open, d.file)
		files.Source = source
		if held, err = u.protect(b.launch, d, u.inside, u.policy.ReadOnly, &b.open); err != nil {
			return nil, err
		}
	}
	before, more, open, err := p.further(b.launch, u)
	b.open = append(b.open, open...)
	if err != nil {
		return nil, err
	}
	mounts := slices.Concat(world(u.policy.Limits[driver.ResourceMemory].Max), before, []guestproto.Mount{files}, held, more)
	for _, m := range slices.Concat(before, []guestproto.Mount{files}, more) {
		if m.Kind == guestproto.MountBind {
			b.source[m.Target] = m.Source
		}
	}
	return mounts, nil
}

// A wrapping is a call of bubblewrap in the making.
type wrapping struct {
	launch *guest.Launch
	args   []func(descriptors map[string]int) []string
	open   []io.Closer
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
	case guestproto.MountHold:
		return b.hold(m)
	case guestproto.MountCover:
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
	name := "cover-" + strconv.Itoa(len(b.open))
	b.open = append(b.open, f)
	b.launch.Files = append(b.launch.Files, guest.Named{Name: name, File: f})
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

func (b *wrapping) log(u unit) error {
	if u.log == "" {
		return nil
	}
	dir, err := os.Open(u.log)
	if err != nil {
		return err
	}
	b.open = append(b.open, dir)
	b.launch.Files = append(b.launch.Files, guest.Named{Name: "log", File: dir})
	return nil
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

// process starts the guest without any namespace, and fences what it starts
// with Landlock and seccomp.
func (p *Provider) process(u unit) (*guest.Launch, []io.Closer, error) {
	if len(u.lower) > 0 {
		return nil, nil, fmt.Errorf("a template, without mounts: %w", fault.Unsupported)
	}
	if found, err := u.trapped(u.files, u.inPlace); err != nil || found {
		if err != nil {
			return nil, nil, err
		}
		return nil, nil, fmt.Errorf("a directory in place with files that others run later, which can't be kept read-only without mounts: %w", fault.Unsupported)
	}
	const least = 3 // from which on truncation is covered
	if abi, err := guestproto.LandlockABI(); err != nil || abi < least {
		return nil, nil, fmt.Errorf("landlock has version %d here, %d is the least (%v): %w", abi, least, err, fault.Unsupported) //nolint:errorlint // one code is enough
	}
	bin, err := p.binary()
	if err != nil {
		return nil, nil, err
	}
	l := &guest.Launch{Binary: bin.Path, Socket: u.socket, Sys: &syscall.SysProcAttr{Setsid: true}}
	env := environment(u)
	env["HOME"], env["TMPDIR"] = u.tmp, u.tmp
	for k, v := range u.policy.Env {
		env[k] = v
	}
	b := &wrapping{launch: l}
	writable, visible, err := p.grants(b, u)
	if err != nil {
		closeAll(b.open)
		return nil, nil, err
	}
	l.Config = guestproto.Config{
		Workspace: u.id, Level: driver.IsolationProcess, Root: u.inside, UID: -1, Env: env, Subreaper: true,
		Confine: guestproto.Confine{NoNewPrivs: true, DropCaps: true, Seccomp: true, NoNetwork: true, NoSetID: true, ReadWrite: writable, ReadOnly: visible},
	}
	if err := b.log(u); err != nil {
		closeAll(b.open)
		return nil, nil, err
	}
	return l, b.open, nil
}

// grants lists what a workload without mounts may write, and what it may read.
// Directories of the user's are named by descriptors of what was judged.
func (p *Provider) grants(b *wrapping, u unit) (writable, visible []string, err error) {
	writable, visible = append([]string{u.tmp}, usable...), slices.Clone(readable)
	if !u.inPlace {
		writable = append(writable, u.files)
	} else if writable, err = p.grant(b, u.files, writable); err != nil {
		return nil, nil, err
	}
	for _, dir := range u.binds {
		if dir.Empty {
			continue
		}
		ro := dir.ReadOnly || u.policy.ReadOnly
		found, err := u.trapped(dir.Dir, !ro)
		switch {
		case err != nil:
			return nil, nil, err
		case ro:
			visible, err = p.grant(b, dir.Dir, visible)
		case found:
			err = fmt.Errorf("directory %q with files that others run later, which can't be kept read-only without mounts: %w", dir.Dir, fault.Unsupported)
		default:
			writable, err = p.grant(b, dir.Dir, writable)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return writable, visible, nil
}

// grant adds a directory that is judged to a list.
func (p *Provider) grant(b *wrapping, dir string, list []string) ([]string, error) {
	d, err := p.judge(dir)
	if err != nil {
		return nil, err
	}
	b.open = append(b.open, d.file)
	name := fmt.Sprintf("grant%d", len(b.launch.Files))
	b.launch.Files = append(b.launch.Files, guest.Named{Name: name, File: d.file})
	return append(list, "fd:"+name), nil
}
