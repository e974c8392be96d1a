package sandbox

import (
	"fmt"
	"os"

	"github.com/croft-run/croft/host/guestproto"
)

// The world inside: a tmpfs that holds the host's programs and libraries, read
// only, and nothing of its people. What is not listed is not there: home
// directories, other workspaces, /var, /run with its sockets, /sys, the host's
// /tmp, its devices.

// stage is where the guest builds the world before it moves in. It must exist,
// and hide nothing that is needed while building; nothing below /sys is.
const stage = "/sys"

// systemDirs are shown as the host has them, read only.
var systemDirs = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/gnu/store"}

// etcHidden are in /etc and nobody's business.
var etcHidden = []string{
	"shadow", "shadow-", "gshadow", "gshadow-", "sudoers", "sudoers.d", "ssh", "ssl/private", "kubernetes", "docker", "NetworkManager",
	"wireguard", "openvpn", "ppp", "krb5.keytab", "machine-id", "passwd-", "group-", "subuid", "subgid",
	"security", "pam.d", "cron.d", "crontab", "systemd", "postgresql", "mysql", "redis", "croft",
}

// procHidden are in /proc, tell of the whole host, and help no program that is to
// work here.
var procHidden = []string{"keys", "key-users", "kcore", "timer_list", "latency_stats", "scsi", "acpi"}

// workload is who the processes are, inside.
const (
	workloadUID  = 1000
	workloadName = "croft"
	home         = "/home/croft"
)

// size limits a file system in memory to a part of the memory that there is.
// All parts together leave room for programs: what is in such files can't be
// freed by killing anyone.
func size(memory, part int64) string {
	if memory == 0 {
		return ""
	}
	return fmt.Sprintf(",size=%d", max(memory/part, 64<<10))
}

// world returns the mounts of the system, without the workspace, for a workload
// that may use so much memory; 0 is no limit.
func world(memory int64) []guestproto.Mount {
	var mounts []guestproto.Mount
	for _, dir := range systemDirs {
		mounts = append(mounts, systemDir(dir)...)
	}
	mounts = append(mounts, etc()...)
	mounts = append(mounts,
		guestproto.Mount{Kind: guestproto.MountProc, Target: "/proc", NoExec: true})
	for _, name := range procHidden {
		mounts = append(mounts, guestproto.Mount{Kind: guestproto.MountMask, Target: "/proc/" + name, Optional: true})
	}
	return append(mounts,
		guestproto.Mount{Kind: guestproto.MountTmpfs, Target: "/dev", Data: "mode=755,size=64k", NoExec: true},
		device("/dev/null"), device("/dev/zero"), device("/dev/full"), device("/dev/random"), device("/dev/urandom"), device("/dev/tty"),
		guestproto.Mount{Kind: guestproto.MountDevPTS, Target: "/dev/pts", Data: "newinstance,ptmxmode=0666,mode=620,max=256", NoExec: true, Dev: true},
		guestproto.Mount{Kind: guestproto.MountSymlink, Target: "/dev/ptmx", Source: "pts/ptmx"},
		guestproto.Mount{Kind: guestproto.MountSymlink, Target: "/dev/fd", Source: "/proc/self/fd"},
		guestproto.Mount{Kind: guestproto.MountSymlink, Target: "/dev/stdin", Source: "/proc/self/fd/0"},
		guestproto.Mount{Kind: guestproto.MountSymlink, Target: "/dev/stdout", Source: "/proc/self/fd/1"},
		guestproto.Mount{Kind: guestproto.MountSymlink, Target: "/dev/stderr", Source: "/proc/self/fd/2"},
		guestproto.Mount{Kind: guestproto.MountTmpfs, Target: "/dev/shm", Data: "mode=1777" + size(memory, 8)},
		guestproto.Mount{Kind: guestproto.MountTmpfs, Target: "/tmp", Data: "mode=1777" + size(memory, 2)},
		guestproto.Mount{Kind: guestproto.MountTmpfs, Target: "/run", Data: "mode=755" + size(memory, 32)},
		guestproto.Mount{Kind: guestproto.MountDir, Target: "/var"},
		guestproto.Mount{Kind: guestproto.MountTmpfs, Target: "/var/tmp", Data: "mode=1777" + size(memory, 16)},
		guestproto.Mount{Kind: guestproto.MountSymlink, Target: "/var/run", Source: "/run"},
		guestproto.Mount{Kind: guestproto.MountTmpfs, Target: home, Data: "mode=700,uid=1000,gid=1000" + size(memory, 8)},
	)
}

func device(path string) guestproto.Mount {
	return guestproto.Mount{Kind: guestproto.MountBind, Source: path, Target: path, Dev: true}
}

// systemDir shows a directory of the host, or the symlink that it is there.
func systemDir(dir string) []guestproto.Mount {
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

// etc shows the host's /etc, with what tells of the host and its people covered
// by what programs need instead, or by nothing.
func etc() []guestproto.Mount {
	mounts := []guestproto.Mount{
		{Kind: guestproto.MountBind, Source: "/etc", Target: "/etc", ReadOnly: true},
		file("/etc/passwd", "root:x:0:0:root:/root:/usr/sbin/nologin\n"+workloadName+":x:1000:1000::"+home+":/bin/bash\nnobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n"),
		file("/etc/group", "root:x:0:\n"+workloadName+":x:1000:\nnogroup:x:65534:\n"),
		file("/etc/hosts", "127.0.0.1 localhost\n::1 localhost\n"),
		file("/etc/hostname", hostname+"\n"),
		file("/etc/resolv.conf", "# there is no network here but through the proxy\n"),
	}
	for _, name := range etcHidden {
		mounts = append(mounts, guestproto.Mount{Kind: guestproto.MountMask, Target: "/etc/" + name, Optional: true})
	}
	return mounts
}

func file(path, content string) guestproto.Mount {
	return guestproto.Mount{Kind: guestproto.MountMask, Target: path, Source: content, Optional: true}
}

const hostname = "croft"
