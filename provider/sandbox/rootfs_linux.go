package sandbox

import (
	"fmt"
	"os"

	"github.com/croft-run/croft/host/guestproto"
)

// The rootfs is a tmpfs with read-only bind mounts of the host's programs and libraries,
// which the guest enters by pivot_root. What is not listed here is not in it: home
// directories, other workspaces, /var, /run with its sockets, /sys, the host's /tmp and
// devices.

// rootfsBuildDir is the mount point on which the guest builds the rootfs before
// pivot_root. It must exist, and hide nothing that is needed while building; nothing
// below /sys is.
const rootfsBuildDir = "/sys"

// systemDirs are bind mounts of the host's directories, read-only.
var systemDirs = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/gnu/store"}

// etcHidden are names in /etc that are masked: secrets and settings of host services.
var etcHidden = []string{
	"shadow", "shadow-", "gshadow", "gshadow-", "sudoers", "sudoers.d", "ssh", "ssl/private", "kubernetes", "docker", "NetworkManager",
	"wireguard", "openvpn", "ppp", "krb5.keytab", "machine-id", "passwd-", "group-", "subuid", "subgid",
	"security", "pam.d", "cron.d", "crontab", "systemd", "postgresql", "mysql", "redis", "croft",
}

// procHidden are names in /proc that are masked: they reveal state of the whole host, and
// programs do not need them.
var procHidden = []string{"keys", "key-users", "kcore", "timer_list", "latency_stats", "scsi", "acpi"}

// The user of the workload, inside.
const (
	workloadUID  = 1000
	workloadName = "croft"
	home         = "/home/croft"
)

// tmpfsSize returns the mount option that limits a tmpfs to 1/part of the memory limit.
// All parts together leave memory for programs: the OOM killer can't free tmpfs files.
func tmpfsSize(memory, part int64) string {
	if memory == 0 {
		return ""
	}
	return fmt.Sprintf(",size=%d", max(memory/part, 64<<10))
}

// baseMounts returns the mounts of the rootfs without the workspace. memory is the memory
// limit of the workload; 0 is no limit.
func baseMounts(memory int64) []guestproto.Mount {
	var mounts []guestproto.Mount
	for _, dir := range systemDirs {
		mounts = append(mounts, systemDirMount(dir)...)
	}
	mounts = append(mounts, etcMounts()...)
	mounts = append(mounts,
		guestproto.Mount{Kind: guestproto.MountProc, Target: "/proc", NoExec: true})
	for _, name := range procHidden {
		mounts = append(mounts, guestproto.Mount{Kind: guestproto.MountMask, Target: "/proc/" + name, Optional: true})
	}
	return append(mounts,
		guestproto.Mount{Kind: guestproto.MountTmpfs, Target: "/dev", Data: "mode=755,size=64k", NoExec: true},
		deviceMount("/dev/null"), deviceMount("/dev/zero"), deviceMount("/dev/full"), deviceMount("/dev/random"), deviceMount("/dev/urandom"), deviceMount("/dev/tty"),
		guestproto.Mount{Kind: guestproto.MountDevPTS, Target: "/dev/pts", Data: "newinstance,ptmxmode=0666,mode=620,max=256", NoExec: true, Dev: true},
		guestproto.Mount{Kind: guestproto.MountSymlink, Target: "/dev/ptmx", Source: "pts/ptmx"},
		guestproto.Mount{Kind: guestproto.MountSymlink, Target: "/dev/fd", Source: "/proc/self/fd"},
		guestproto.Mount{Kind: guestproto.MountSymlink, Target: "/dev/stdin", Source: "/proc/self/fd/0"},
		guestproto.Mount{Kind: guestproto.MountSymlink, Target: "/dev/stdout", Source: "/proc/self/fd/1"},
		guestproto.Mount{Kind: guestproto.MountSymlink, Target: "/dev/stderr", Source: "/proc/self/fd/2"},
		guestproto.Mount{Kind: guestproto.MountTmpfs, Target: "/dev/shm", Data: "mode=1777" + tmpfsSize(memory, 8)},
		guestproto.Mount{Kind: guestproto.MountTmpfs, Target: "/tmp", Data: "mode=1777" + tmpfsSize(memory, 2)},
		guestproto.Mount{Kind: guestproto.MountTmpfs, Target: "/run", Data: "mode=755" + tmpfsSize(memory, 32)},
		guestproto.Mount{Kind: guestproto.MountDir, Target: "/var"},
		guestproto.Mount{Kind: guestproto.MountTmpfs, Target: "/var/tmp", Data: "mode=1777" + tmpfsSize(memory, 16)},
		guestproto.Mount{Kind: guestproto.MountSymlink, Target: "/var/run", Source: "/run"},
		guestproto.Mount{Kind: guestproto.MountTmpfs, Target: home, Data: "mode=700,uid=1000,gid=1000" + tmpfsSize(memory, 8)},
	)
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

// etcMounts returns the mounts of /etc: the host's, read-only, with files about the host
// and its users masked by neutral content or by empty files.
func etcMounts() []guestproto.Mount {
	mounts := []guestproto.Mount{
		{Kind: guestproto.MountBind, Source: "/etc", Target: "/etc", ReadOnly: true},
		maskFile("/etc/passwd", "root:x:0:0:root:/root:/usr/sbin/nologin\n"+workloadName+":x:1000:1000::"+home+":/bin/bash\nnobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n"),
		maskFile("/etc/group", "root:x:0:\n"+workloadName+":x:1000:\nnogroup:x:65534:\n"),
		maskFile("/etc/hosts", "127.0.0.1 localhost\n::1 localhost\n"),
		maskFile("/etc/hostname", hostname+"\n"),
		maskFile("/etc/resolv.conf", "# there is no network here but through the proxy\n"),
	}
	for _, name := range etcHidden {
		mounts = append(mounts, guestproto.Mount{Kind: guestproto.MountMask, Target: "/etc/" + name, Optional: true})
	}
	return mounts
}

func maskFile(path, content string) guestproto.Mount {
	return guestproto.Mount{Kind: guestproto.MountMask, Target: path, Source: content, Optional: true}
}

const hostname = "croft"
