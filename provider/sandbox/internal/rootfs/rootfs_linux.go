// Package rootfs lists what the rootfs of a guest has, besides the workspace.
//
// The rootfs is a tmpfs with read-only bind mounts of the host's programs and libraries,
// which the guest enters by pivot_root. What is not listed here is not in it: home
// directories, other workspaces, /var, /run with its sockets, /sys, most of /etc, the host's
// /tmp and devices.
package rootfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/internal/host/toolchain"
	"github.com/croft-run/croft/internal/paths"
)

// SystemDirs are bind mounts of the host's directories, read-only.
var SystemDirs = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/gnu/store"}

// etcShown are the patterns of names in the host's /etc that are shown, of files only those
// that every user may read. A name that is not listed is not there, whatever the host puts
// under it: secrets, accounts, settings of services.
var etcShown = []string{
	// The C library, the shell and the terminal.
	"nsswitch.conf", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "timezone", "locale.alias", "locale.conf", "default/locale", "host.conf",
	"gai.conf", "protocols", "services", "rpc", "networks", "netconfig", "ethertypes", "shells", "login.defs", "profile", "profile.d", "bash.bashrc",
	"bash_completion.d", "zsh", "fish", "inputrc", "terminfo", "skel", "xattr.conf", "iproute2",
	// What the system is.
	"os-release", "lsb-release", "debian_version", "redhat-release", "fedora-release", "system-release", "alpine-release", "arch-release", "alternatives",
	// Certificates, without keys.
	"ssl/certs", "ssl/cert.pem", "ssl/openssl.cnf", "ca-certificates", "ca-certificates.conf", "crypto-policies",
	"pki/tls/certs", "pki/tls/cert.pem", "pki/tls/openssl.cnf", "pki/ca-trust", "pki/java",
	// Programs.
	"gitconfig", "pip.conf", "matplotlibrc", "npmrc", "wgetrc", "python3*", "perl", "php/*/cli", "php/*/mods-available", "java*", "jvm*", "maven", "ant*", "R", "octave",
	"dotnet", "mono", "ghc", "gdb", "vim", "nanorc", "emacs", "tmux.conf", "groff", "magic", "magic.mime", "mailcap", "mime.types", "manpath.config",
	"papersize", "fonts", "gtk-*", "X11", "xdg", "xml", "sgml", "texmf", "ImageMagick-*", "OpenCL", "glvnd", "vulkan",
}

// procHidden are names in /proc that are masked: they reveal state of the whole host, and
// programs do not need them.
var procHidden = []string{
	"keys", "key-users", "kcore", "timer_list", "timer_stats", "latency_stats", "sched_debug", "scsi", "acpi", "asound", "kallsyms", "kmsg", "modules",
	"kpagecgroup", "kpagecount", "kpageflags", "vmallocinfo", "slabinfo", "pagetypeinfo", "iomem", "ioports", "interrupts", "mtrr",
}

// HomeOf returns the home of a user inside.
func HomeOf(user string) string { return "/home/" + user }

// A Rootfs says what a rootfs has.
type Rootfs struct {
	Image     string // directory with the files of an image; "" is the host's programs
	User      string // name of the workload's user
	Workspace string // path of the workspace inside
	Path      string // of login shells
	Memory    int64  // limit of memory; 0 is none
}

// TmpfsSize returns the mount option that limits a tmpfs to 1/part of the memory limit.
// All parts together leave memory for programs: the OOM killer can't free tmpfs files.
func TmpfsSize(memory, part int64) string {
	if memory == 0 {
		return ""
	}
	return fmt.Sprintf(",size=%d", max(memory/part, 64<<10))
}

// System returns the mounts of the system's programs and settings: the host's, or
// those of an image.
func (r *Rootfs) System() ([]guestproto.Mount, error) {
	if r.Image != "" {
		mounts, err := imageMounts(r.Image)
		login := guestproto.Mount{Kind: guestproto.MountMask, Target: toolchain.LoginFile, Source: toolchain.LoginText(r.Path), Optional: true}
		return append(mounts, login), err
	}
	var mounts []guestproto.Mount
	for _, dir := range SystemDirs {
		mounts = append(mounts, systemDirMount(dir)...)
	}
	mounts = append(mounts, etcMounts(r.User)...)
	mounts = append(mounts, fileMount(toolchain.LoginFile, toolchain.LoginText(r.Path)))
	return append(mounts, guestproto.Mount{Kind: guestproto.MountDir, Target: "/var"},
		guestproto.Mount{Kind: guestproto.MountSymlink, Target: "/var/run", Source: "/run"}), nil
}

// Base returns the mounts of the rootfs without the system's and the workspace.
func (r *Rootfs) Base() []guestproto.Mount {
	mounts := []guestproto.Mount{{Kind: guestproto.MountProc, Target: "/proc", NoExec: true}}
	for _, name := range procHidden {
		mounts = append(mounts, guestproto.Mount{Kind: guestproto.MountMask, Target: "/proc/" + name, Optional: true})
	}
	mounts = append(mounts,
		guestproto.Mount{Kind: guestproto.MountTmpfs, Target: "/dev", Data: "mode=755,size=64k", NoExec: true},
		deviceMount("/dev/null"), deviceMount("/dev/zero"), deviceMount("/dev/full"), deviceMount("/dev/random"), deviceMount("/dev/urandom"), deviceMount("/dev/tty"),
		guestproto.Mount{Kind: guestproto.MountDevPTS, Target: "/dev/pts", Data: "newinstance,ptmxmode=0666,mode=620,max=256", NoExec: true, Dev: true},
		guestproto.Mount{Kind: guestproto.MountSymlink, Target: "/dev/ptmx", Source: "pts/ptmx"},
		guestproto.Mount{Kind: guestproto.MountSymlink, Target: "/dev/fd", Source: "/proc/self/fd"},
		guestproto.Mount{Kind: guestproto.MountSymlink, Target: "/dev/stdin", Source: "/proc/self/fd/0"},
		guestproto.Mount{Kind: guestproto.MountSymlink, Target: "/dev/stdout", Source: "/proc/self/fd/1"},
		guestproto.Mount{Kind: guestproto.MountSymlink, Target: "/dev/stderr", Source: "/proc/self/fd/2"},
		guestproto.Mount{Kind: guestproto.MountTmpfs, Target: "/dev/shm", Data: "mode=1777" + TmpfsSize(r.Memory, 8)},
		guestproto.Mount{Kind: guestproto.MountTmpfs, Target: "/tmp", Data: "mode=1777" + TmpfsSize(r.Memory, 2)},
		guestproto.Mount{Kind: guestproto.MountTmpfs, Target: "/run", Data: "mode=755" + TmpfsSize(r.Memory, 32)},
		guestproto.Mount{Kind: guestproto.MountTmpfs, Target: "/var/tmp", Data: "mode=1777" + TmpfsSize(r.Memory, 16)},
	)
	if r.Workspace != HomeOf(r.User) {
		mounts = append(mounts, guestproto.Mount{Kind: guestproto.MountTmpfs, Target: HomeOf(r.User), Data: "mode=700,uid=1000,gid=1000" + TmpfsSize(r.Memory, 8)})
	}
	return mounts
}

func deviceMount(path string) guestproto.Mount {
	return guestproto.Mount{Kind: guestproto.MountBind, Source: path, Target: path, Dev: true}
}

// systemDirMount returns the bind mount of a directory of the host, or the same symlink.
func systemDirMount(dir string) []guestproto.Mount {
	info, err := os.Lstat(dir)
	if err != nil {
		return nil
	}
	if info.Mode()&os.ModeSymlink != 0 {
		if target, err := os.Readlink(dir); err == nil {
			return []guestproto.Mount{{Kind: guestproto.MountSymlink, Target: dir, Source: target}}
		}
		return nil
	}
	return []guestproto.Mount{{Kind: guestproto.MountBind, Source: dir, Target: dir, ReadOnly: true}}
}

// Files of /etc about the host.
const (
	hostsFile  = "127.0.0.1 localhost\n::1 localhost\n"
	resolvConf = "# there is no network here but through the proxy\n"
)

// passwdLine returns the line of the workload's user.
func passwdLine(user string) string { return user + ":x:1000:1000::" + HomeOf(user) + ":/bin/bash\n" }

// etcMounts returns the entries of /etc, which is a directory of the rootfs: files about
// the host and its users with neutral content, and what etcShown lists, read-only. A file
// that the host replaces later stays as it was.
func etcMounts(user string) []guestproto.Mount {
	mounts := []guestproto.Mount{
		{Kind: guestproto.MountDir, Target: "/etc"},
		fileMount("/etc/passwd", "root:x:0:0:root:/root:/usr/sbin/nologin\n"+passwdLine(user)+"nobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n"),
		fileMount("/etc/group", "root:x:0:\n"+user+":x:1000:\nnogroup:x:65534:\n"),
		fileMount("/etc/hosts", hostsFile),
		fileMount("/etc/hostname", Hostname+"\n"),
		fileMount("/etc/resolv.conf", resolvConf),
		{Kind: guestproto.MountSymlink, Target: "/etc/mtab", Source: "/proc/self/mounts"},
	}
	for _, path := range withoutProfileDir(EtcPaths()) {
		m := guestproto.Mount{Kind: guestproto.MountBind, Source: path, Target: path, ReadOnly: true, Optional: true}
		real, err := filepath.EvalSymlinks(path)
		inSystem := func(dir string) bool { return paths.Inside(dir, real) }
		if err == nil && real != path && slices.ContainsFunc(SystemDirs, inSystem) {
			m = guestproto.Mount{Kind: guestproto.MountSymlink, Source: real, Target: path} // programs read the time zone from it
		}
		mounts = append(mounts, m)
	}
	return mounts
}

// withoutProfileDir replaces the directory of [toolchain.LoginFile] by the files in it, so
// that there can be one more.
func withoutProfileDir(paths []string) []string {
	dir := filepath.Dir(toolchain.LoginFile)
	i := slices.Index(paths, dir)
	if i < 0 {
		return paths
	}
	files, _ := filepath.Glob(dir + "/*") // the pattern is valid
	files = slices.DeleteFunc(files, func(file string) bool { return file == toolchain.LoginFile || !IsShown(file) })
	return slices.Replace(paths, i, i+1, files...)
}

// EtcPaths lists what etcShown matches on this host.
func EtcPaths() []string {
	var paths []string
	for _, pattern := range etcShown {
		found, _ := filepath.Glob("/etc/" + pattern) // the patterns are valid
		for _, path := range found {
			if IsShown(path) {
				paths = append(paths, path)
			}
		}
	}
	return paths
}

// IsShown reports whether every user may read a file or directory.
func IsShown(path string) bool {
	const others = 0o004
	info, err := os.Stat(path)
	return err == nil && info.Mode()&others != 0 && (info.IsDir() || info.Mode().IsRegular())
}

func fileMount(path, content string) guestproto.Mount {
	return guestproto.Mount{Kind: guestproto.MountFile, Target: path, Source: content}
}

// Hostname is the name of the host inside.
const Hostname = "croft"

// ownDirs are directories of an image that the sandbox has of its own.
var ownDirs = []string{"proc", "dev", "sys", "tmp", "run", "home", "root"}

// Complete adds what the sandbox needs to the files of an image: the user, names of
// this host, and mount points. Symlinks of the image are not followed out of it.
func Complete(dir, user string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // closing a directory can lose nothing
	for _, name := range []string{"etc", "var"} {
		if err := root.MkdirAll(name, 0o755); err != nil {
			return err
		}
	}
	if err := root.RemoveAll("var/tmp"); err != nil {
		return err
	}
	if err := errors.Join(root.Mkdir("var/tmp", 0o755), root.RemoveAll("var/run")); err != nil {
		return err
	}
	if err := root.Symlink("/run", "var/run"); err != nil {
		return err
	}
	for name, line := range map[string]string{"passwd": passwdLine(user), "group": user + ":x:1000:\n"} {
		if err := addAccount(root, "etc/"+name, line); err != nil {
			return err
		}
	}
	if info, err := root.Stat(filepath.Dir(toolchain.LoginFile)[1:]); err == nil && info.IsDir() { // else no shell of the image reads it
		if err := replaceFile(root, toolchain.LoginFile[1:], ""); err != nil {
			return err
		}
	}
	for name, text := range map[string]string{"hosts": hostsFile, "hostname": Hostname + "\n", "resolv.conf": resolvConf} {
		if err := replaceFile(root, "etc/"+name, text); err != nil {
			return err
		}
	}
	return nil
}

// addAccount adds a line to a list of accounts, in place of others of the same id.
func addAccount(root *os.Root, name, line string) error {
	data, err := root.ReadFile(name)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	text := line
	for old := range strings.Lines(string(data)) {
		if f := strings.Split(old, ":"); len(f) > 2 && f[2] != "1000" && !strings.HasPrefix(line, f[0]+":") {
			text += strings.TrimSuffix(old, "\n") + "\n"
		}
	}
	return replaceFile(root, name, text)
}

// replaceFile writes a file, in place of a symlink, too.
func replaceFile(root *os.Root, name, text string) error {
	if err := root.RemoveAll(name); err != nil {
		return err
	}
	return root.WriteFile(name, []byte(text), 0o644)
}

// imageMounts returns the mounts of an image's files: each entry of its root, read-only.
func imageMounts(dir string) ([]guestproto.Mount, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("image: %w: %w", fault.Of(err), err)
	}
	var mounts []guestproto.Mount
	for _, e := range entries {
		if slices.Contains(ownDirs, e.Name()) {
			continue
		}
		source, target := filepath.Join(dir, e.Name()), "/"+e.Name()
		switch {
		case e.IsDir():
			mounts = append(mounts, guestproto.Mount{Kind: guestproto.MountBind, Source: source, Target: target, ReadOnly: true})
		case e.Type()&os.ModeSymlink != 0:
			link, err := os.Readlink(source)
			if err != nil {
				return nil, fmt.Errorf("image: %w: %w", fault.Of(err), err)
			}
			mounts = append(mounts, guestproto.Mount{Kind: guestproto.MountSymlink, Target: target, Source: link})
		}
	}
	return mounts, nil
}
