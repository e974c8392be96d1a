package guestd

import (
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// verdict runs a filter as the kernel would.
func verdict(t *testing.T, p []unix.SockFilter, number, arch uint32, args ...uint64) uint32 {
	t.Helper()
	var acc uint32
	for pc := 0; pc < len(p); pc++ {
		in := p[pc]
		switch in.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			switch {
			case in.K == offNumber:
				acc = number
			case in.K == offArch:
				acc = arch
			case in.K >= offArgs:
				if i := int(in.K-offArgs) / 8; i < len(args) {
					acc = uint32(args[i] >> (8 * (in.K % 8))) // the low half, or the high one
				} else {
					acc = 0
				}
			}
		case unix.BPF_RET | unix.BPF_K:
			return in.K
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			acc &= in.K
		case unix.BPF_JMP | unix.BPF_JA:
			pc += int(in.K)
		default:
			var yes bool
			switch in.Code &^ (unix.BPF_JMP | unix.BPF_K) {
			case unix.BPF_JEQ:
				yes = acc == in.K
			case unix.BPF_JGE:
				yes = acc >= in.K
			case unix.BPF_JGT:
				yes = acc > in.K
			case unix.BPF_JSET:
				yes = acc&in.K != 0
			default:
				t.Fatalf("unknown instruction %#x", in.Code)
			}
			if yes {
				pc += int(in.Jt)
			} else {
				pc += int(in.Jf)
			}
		}
	}
	t.Fatal("the filter ended without a verdict")
	return 0
}

func TestSeccompFilter(t *testing.T) {
	arch := uint32(unix.AUDIT_ARCH_X86_64)
	if runtime.GOARCH == "arm64" {
		arch = unix.AUDIT_ARCH_AARCH64
	}
	const guest, starter = 1, 7
	p, err := seccompFilter(filterOptions{ids: []int{guest, starter}})
	if err != nil {
		t.Fatal(err)
	}
	special := []uint32{
		unix.SYS_CLONE, unix.SYS_CLONE3, unix.SYS_IOCTL, unix.SYS_PERSONALITY, unix.SYS_SOCKET, unix.SYS_KILL, unix.SYS_TKILL, unix.SYS_TGKILL,
		unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_TGSIGQUEUEINFO, unix.SYS_PIDFD_OPEN, unix.SYS_PRLIMIT64, unix.SYS_FCNTL, unix.SYS_SOCKETPAIR,
	}
	for n := range uint32(600) {
		if slices.Contains(special, n) {
			continue
		}
		want := retDenied
		if slices.Contains(plainSyscalls, n) {
			want = retAllow
		}
		if got := verdict(t, p, n, arch); got != want {
			t.Errorf("call %d: verdict %#x, want %#x", n, got, want)
		}
	}
	denied := map[string]uint32{
		"mount": unix.SYS_MOUNT, "umount2": unix.SYS_UMOUNT2, "bpf": unix.SYS_BPF, "keyctl": unix.SYS_KEYCTL, "add_key": unix.SYS_ADD_KEY,
		"io_uring_setup": unix.SYS_IO_URING_SETUP, "unshare": unix.SYS_UNSHARE, "setns": unix.SYS_SETNS, "pivot_root": unix.SYS_PIVOT_ROOT,
		"open_tree": unix.SYS_OPEN_TREE, "move_mount": unix.SYS_MOVE_MOUNT, "fsopen": unix.SYS_FSOPEN, "mount_setattr": unix.SYS_MOUNT_SETATTR,
		"kexec_load": unix.SYS_KEXEC_LOAD, "init_module": unix.SYS_INIT_MODULE, "perf_event_open": unix.SYS_PERF_EVENT_OPEN,
		"open_by_handle_at": unix.SYS_OPEN_BY_HANDLE_AT, "userfaultfd": unix.SYS_USERFAULTFD, "chroot": unix.SYS_CHROOT, "reboot": unix.SYS_REBOOT,
	}
	for name, n := range denied {
		if got := verdict(t, p, n, arch); got != retDenied {
			t.Errorf("%s: verdict %#x, want denied", name, got)
		}
	}
	tests := []struct {
		name   string
		number uint32
		args   []uint64
		want   uint32
	}{
		{"fork", unix.SYS_CLONE, []uint64{uint64(unix.SIGCHLD)}, retAllow},
		{"user namespace", unix.SYS_CLONE, []uint64{unix.CLONE_NEWUSER}, retDenied},
		{"time namespace hides in the signal", unix.SYS_CLONE, []uint64{unix.CLONE_NEWNS | unix.CLONE_VM}, retDenied},
		{"clone3", unix.SYS_CLONE3, nil, retNoCall},
		{"TIOCSTI", unix.SYS_IOCTL, []uint64{0, unix.TIOCSTI}, retDenied},
		{"TIOCSTI with high bits", unix.SYS_IOCTL, []uint64{0, 1<<32 | unix.TIOCSTI}, retDenied},
		{"TIOCLINUX", unix.SYS_IOCTL, []uint64{0, unix.TIOCLINUX}, retDenied},
		{"TCGETS", unix.SYS_IOCTL, []uint64{0, unix.TCGETS}, retAllow},
		{"personality 0", unix.SYS_PERSONALITY, []uint64{0}, retAllow},
		{"personality odd", unix.SYS_PERSONALITY, []uint64{0x40000}, retDenied},
		{"tcp", unix.SYS_SOCKET, []uint64{unix.AF_INET}, retAllow},
		{"unix", unix.SYS_SOCKET, []uint64{unix.AF_UNIX}, retAllow},
		{"vsock", unix.SYS_SOCKET, []uint64{unix.AF_VSOCK}, retNoKind},
		{"alg", unix.SYS_SOCKET, []uint64{unix.AF_ALG}, retNoKind},
		{"packet", unix.SYS_SOCKET, []uint64{unix.AF_PACKET}, retNoKind},
		{"interfaces", unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}, retAllow},
		{"netlink audit", unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT}, retNoType},
		{"unix datagrams", unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_DGRAM}, retAllow},
		{"a pair", unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, unix.SOCK_STREAM}, retAllow},
		{"a pair of another family", unix.SYS_SOCKETPAIR, []uint64{unix.AF_TIPC, unix.SOCK_STREAM}, retNoKind},
		{"a whiteout", unix.SYS_MKNODAT, []uint64{3, 4096, unix.S_IFCHR | 0o644, 0}, retDenied},
		{"a block device", unix.SYS_MKNODAT, []uint64{3, 4096, unix.S_IFBLK | 0o644, 0}, retDenied},
		{"a fifo", unix.SYS_MKNODAT, []uint64{3, 4096, unix.S_IFIFO | 0o644, 0}, retAllow},
		{"a file with the set-user-ID bit", unix.SYS_MKNODAT, []uint64{3, 4096, unix.S_IFREG | 0o4755, 0}, retAllow},
		{"a whiteout by rename", unix.SYS_RENAMEAT2, []uint64{3, 4096, 3, 4096, unix.RENAME_WHITEOUT}, retDenied},
		{"an exchange", unix.SYS_RENAMEAT2, []uint64{3, 4096, 3, 4096, unix.RENAME_EXCHANGE}, retAllow},
		{"a lease", unix.SYS_FCNTL, []uint64{3, unix.F_SETLEASE, unix.F_RDLCK}, retDenied},
		{"tcp 6", unix.SYS_SOCKET, []uint64{unix.AF_INET6}, retAllow},
		{"bluetooth", unix.SYS_SOCKET, []uint64{unix.AF_BLUETOOTH}, retNoKind},
		{"qipcrtr", unix.SYS_SOCKET, []uint64{unix.AF_QIPCRTR}, retNoKind},
		{"packet with high bits", unix.SYS_SOCKET, []uint64{1<<32 | unix.AF_PACKET}, retNoKind},
		{"kill", unix.SYS_KILL, []uint64{9, 9}, retAllow},
		{"kill the guest", unix.SYS_KILL, []uint64{guest, 9}, retDenied},
		{"kill its starter", unix.SYS_KILL, []uint64{starter, 9}, retDenied},
		{"kill its group", unix.SYS_KILL, []uint64{^uint64(guest) + 1, 9}, retDenied},
		{"kill with high bits", unix.SYS_KILL, []uint64{1<<32 | guest, 9}, retDenied},
		{"tkill", unix.SYS_TKILL, []uint64{8, 9}, retAllow},
		{"tkill the starter", unix.SYS_TKILL, []uint64{starter, 9}, retDenied},
		{"tgkill", unix.SYS_TGKILL, []uint64{8, 8, 9}, retAllow},
		{"tgkill the guest", unix.SYS_TGKILL, []uint64{guest, 3, 9}, retDenied},
		{"tgkill the starter", unix.SYS_TGKILL, []uint64{3, starter, 9}, retDenied},
		{"tgkill to wake", unix.SYS_TGKILL, []uint64{guest, 3, uint64(unix.SIGURG)}, retAllow},
		{"sigqueue to the starter", unix.SYS_RT_SIGQUEUEINFO, []uint64{starter, 9}, retDenied},
		{"sigqueue to a thread of the guest", unix.SYS_RT_TGSIGQUEUEINFO, []uint64{guest, 3, 9}, retDenied},
		{"pidfd of the starter", unix.SYS_PIDFD_OPEN, []uint64{starter}, retDenied},
		{"pidfd", unix.SYS_PIDFD_OPEN, []uint64{9}, retAllow},
		{"pidfd_send_signal", unix.SYS_PIDFD_SEND_SIGNAL, []uint64{3, 9}, retAllow},
		{"limits of another", unix.SYS_PRLIMIT64, []uint64{9, 7, 0, 4096}, retAllow},
		{"set limits", unix.SYS_PRLIMIT64, []uint64{0, 7, 4096, 0}, retAllow},
		{"set limits of another", unix.SYS_PRLIMIT64, []uint64{9, 7, 4096, 0}, retDenied},
		{"set limits of another, by a round address", unix.SYS_PRLIMIT64, []uint64{9, 7, 1 << 32, 0}, retDenied},
		{"flags of a descriptor", unix.SYS_FCNTL, []uint64{3, unix.F_GETFL, starter}, retAllow},
		{"owner of a descriptor", unix.SYS_FCNTL, []uint64{3, unix.F_SETOWN, 9}, retAllow},
		{"the starter as owner", unix.SYS_FCNTL, []uint64{3, unix.F_SETOWN, starter}, retDenied},
		{"the guest's group as owner", unix.SYS_FCNTL, []uint64{3, unix.F_SETOWN, ^uint64(guest) + 1}, retDenied},
		{"an owner behind a pointer", unix.SYS_FCNTL, []uint64{3, unix.F_SETOWN_EX, 4096}, retDenied},
		{"an owner by ioctl", unix.SYS_IOCTL, []uint64{3, fioSetOwn}, retDenied},
		{"an owner by ioctl of a socket", unix.SYS_IOCTL, []uint64{3, unix.SIOCSPGRP}, retDenied},
		{"a filter on a socket", unix.SYS_SETSOCKOPT, []uint64{3, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER}, retDenied},
		{"a filter on a group of sockets", unix.SYS_SETSOCKOPT, []uint64{3, unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF}, retDenied},
		{"a receive buffer", unix.SYS_SETSOCKOPT, []uint64{3, unix.SOL_SOCKET, unix.SO_RCVBUF}, retAllow},
		{"an option of TCP", unix.SYS_SETSOCKOPT, []uint64{3, unix.IPPROTO_TCP, unix.SO_ATTACH_FILTER}, retAllow},
		{"x32", x32Bit | unix.SYS_GETPID, nil, retNoCall},
	}
	for _, tt := range tests {
		if got := verdict(t, p, tt.number, arch, tt.args...); got != tt.want {
			t.Errorf("%s: verdict %#x, want %#x", tt.name, got, tt.want)
		}
	}
	if got := verdict(t, p, unix.SYS_GETPID, 0x40000003); got != retNoCall {
		t.Errorf("another architecture: verdict %#x", got)
	}
	p, err = seccompFilter(filterOptions{broker: true, netlink: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		number uint32
		args   []uint64
		want   uint32
	}{
		{"connect", unix.SYS_CONNECT, nil, retBroker},
		{"interfaces", unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}, retBroker},
		{"netlink audit", unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT}, retNoType},
		{"a receive buffer", unix.SYS_SETSOCKOPT, []uint64{3, unix.SOL_SOCKET, unix.SO_RCVBUF}, retBroker},
		{"a send buffer", unix.SYS_SETSOCKOPT, []uint64{3, unix.SOL_SOCKET, unix.SO_SNDBUF}, retAllow},
		{"unix", unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_STREAM | unix.SOCK_CLOEXEC}, retAllow},
		{"unix datagrams", unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_DGRAM | unix.SOCK_CLOEXEC}, retNoType},
		{"unix raw, which is datagrams", unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_RAW}, retNoType},
		{"udp", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_DGRAM}, retAllow},
		{"a pair", unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, unix.SOCK_SEQPACKET}, retAllow},
		{"a pair of datagrams", unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, unix.SOCK_DGRAM}, retNoType},
	} {
		if got := verdict(t, p, tt.number, arch, tt.args...); got != tt.want {
			t.Errorf("with a broker, %s: verdict %#x, want %#x", tt.name, got, tt.want)
		}
	}
	p, err = seccompFilter(filterOptions{noNetwork: true, killable: true, ids: []int{guest, starter}})
	if err != nil {
		t.Fatal(err)
	}
	for family, want := range map[uint64]uint32{unix.AF_UNIX: retAllow, unix.AF_INET: retNoNet, unix.AF_INET6: retNoNet, unix.AF_NETLINK: retNoNet} {
		if got := verdict(t, p, unix.SYS_SOCKET, arch, family); got != want {
			t.Errorf("without network, family %d: verdict %#x, want %#x", family, got, want)
		}
	}
	for _, n := range sharedIPC {
		if got := verdict(t, p, n, arch); got != retNoCall {
			t.Errorf("without namespaces, call %d: verdict %#x", n, got)
		}
	}
	if got := verdict(t, p, unix.SYS_PIDFD_SEND_SIGNAL, arch, 3, 9); got != retNoCall {
		t.Errorf("where the guest is mortal, a signal through /proc: verdict %#x", got)
	}
}

func TestSeccompKeepsOwnersBitsOff(t *testing.T) {
	arch := uint32(unix.AUDIT_ARCH_X86_64)
	if runtime.GOARCH == "arm64" {
		arch = unix.AUDIT_ARCH_AARCH64
	}
	p, err := seccompFilter(filterOptions{noSetID: true})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		number uint32
		args   []uint64
		want   uint32
	}{
		{"fchmod", unix.SYS_FCHMOD, []uint64{3, 0o755}, retAllow},
		{"fchmod setuid", unix.SYS_FCHMOD, []uint64{3, 0o4755}, retDenied},
		{"fchmodat setgid", unix.SYS_FCHMODAT, []uint64{3, 4096, 0o2755}, retDenied},
		{"fchmodat2 setuid", unix.SYS_FCHMODAT2, []uint64{3, 4096, 0o4755, 0}, retDenied},
		{"fchmodat sticky", unix.SYS_FCHMODAT, []uint64{3, 4096, 0o1777}, retAllow},
		{"mknodat setuid", unix.SYS_MKNODAT, []uint64{3, 4096, unix.S_IFREG | 0o4755}, retDenied},
		{"open", unix.SYS_OPENAT, []uint64{3, 4096, unix.O_RDONLY, 0o4755}, retAllow},
		{"create", unix.SYS_OPENAT, []uint64{3, 4096, unix.O_CREAT, 0o755}, retAllow},
		{"create setuid", unix.SYS_OPENAT, []uint64{3, 4096, unix.O_CREAT, 0o4755}, retDenied},
		{"without a name", unix.SYS_OPENAT, []uint64{3, 4096, unix.O_TMPFILE | unix.O_RDWR, 0o4755}, retDenied},
		{"a directory", unix.SYS_OPENAT, []uint64{3, 4096, unix.O_DIRECTORY, 0o4755}, retAllow},
		{"openat2", unix.SYS_OPENAT2, []uint64{3, 4096, 4096, 24}, retNoCall},
	}
	for _, tt := range tests {
		if got := verdict(t, p, tt.number, arch, tt.args...); got != tt.want {
			t.Errorf("%s: verdict %#x, want %#x", tt.name, got, tt.want)
		}
	}
}
