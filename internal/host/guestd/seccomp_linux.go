package guestd

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/workspace/driver"
)

//go:generate go run ./internal/gensyscalls

// The seccomp filter is a BPF program: a binary search over the numbers of system calls,
// some ten comparisons for a call instead of four hundred. The kernel caches the calls
// that are always allowed and skips the filter for them.
//
// Prevented are system calls outside Docker's default profile, new namespaces, input
// injection into terminals, signals to the guest, leases on files, device nodes,
// sockets of other than the usual families, and what filterOptions adds. Not
// prevented are calls whose arguments are behind pointers, which BPF can't read: those
// are refused as a whole where it matters (clone3, openat2).

// Offsets into struct seccomp_data.
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16 // eight bytes each; the low half comes first on little-endian architectures
)

const (
	retAllow  = unix.SECCOMP_RET_ALLOW
	retDenied = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	retNoCall = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	retNoNet  = unix.SECCOMP_RET_ERRNO | uint32(unix.EACCES)
	retNoKind = unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)
	retNoType = unix.SECCOMP_RET_ERRNO | uint32(unix.EPROTONOSUPPORT)
	retBroker = unix.SECCOMP_RET_USER_NOTIF
)

// cloneNewFlags are all flags of clone(2) that create a namespace.
const cloneNewFlags = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWTIME

// filterOptions are restrictions of one workload beyond those of all.
type filterOptions struct {
	noNetwork bool  // only Unix sockets, and no System V IPC and POSIX queues, which without namespaces are the host's
	noSetID   bool  // no set-user-ID and set-group-ID bits
	ids       []int // of threads of the guest, which the workload must not signal
	killable  bool  // SIGKILL from the workload would end the guest
	broker    bool  // the guest connects on behalf of the workload, see socketBroker
	netlink   bool  // the guest makes netlink sockets on behalf of the workload, see socketBroker
}

// seccompFilter returns the filter for a workload.
func seccompFilter(f filterOptions) ([]unix.SockFilter, error) {
	var arch uint32
	switch runtime.GOARCH {
	case "amd64":
		arch = unix.AUDIT_ARCH_X86_64
	case "arm64":
		arch = unix.AUDIT_ARCH_AARCH64
	default:
		return nil, fmt.Errorf("guest: no seccomp filter for %s", runtime.GOARCH)
	}
	const usual = 512 // instructions, slightly more than a filter has
	p := append(make([]unix.SockFilter, 0, usual),
		load(offArch),
		jump(unix.BPF_JEQ, arch, 1, 0),
		ret(retNoCall), // 32-bit programs have another table of system calls
		load(offNumber),
		jump(unix.BPF_JGE, x32Bit, 0, 1),
		ret(retNoCall),
	)
	rules := append(argumentRules(f.noNetwork), socketRules(f)...)
	rules = append(rules, socketOptionRule(f.netlink))
	rules = append(rules, whiteoutRules(f.noSetID)...)
	rules = append(rules, guestProtectionRules(f.killable, f.ids)...)
	if f.noSetID {
		rules = append(rules, setIDRules()...)
	}
	for _, rule := range rules {
		// The code of a rule ends in a verdict; other system calls jump over it.
		p = append(p, jump(unix.BPF_JEQ, rule.number, 0, uint8(len(rule.code))))
		p = append(p, rule.code...)
	}
	p = searchTree(p, joinRanges(plainSyscalls))
	if len(p) > unix.BPF_MAXINSNS {
		return nil, fmt.Errorf("guest: the seccomp filter has %d instructions", len(p))
	}
	return p, nil
}

// x32Bit marks system calls of the x32 ABI, which would bypass the filter.
const x32Bit = 0x40000000

// sharedIPC are the system calls for IPC objects that processes of one user share.
var sharedIPC = []uint32{
	unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_SEMGET, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP, unix.SYS_SEMCTL,
	unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL, unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK,
}

// fioSetOwn is FIOSETOWN, which package unix does not have.
const fioSetOwn = 0x8901

type callRule struct {
	number uint32
	code   []unix.SockFilter
}

// argumentRules are the rules for system calls whose arguments decide. Each ends in a verdict.
func argumentRules(noNetwork bool) []callRule {
	rules := []callRule{
		{unix.SYS_CLONE, []unix.SockFilter{
			load(offArgs),
			jump(unix.BPF_JSET, cloneNewFlags, 0, 1),
			ret(retDenied),
			ret(retAllow),
		}},
		// The flags of clone3 are behind a pointer; programs fall back to clone.
		{unix.SYS_CLONE3, []unix.SockFilter{ret(retNoCall)}},
		// TIOCSTI and TIOCLINUX inject input into a terminal; the other two do what
		// F_SETOWN does.
		{unix.SYS_IOCTL, []unix.SockFilter{
			load(offArgs + 8),
			jump(unix.BPF_JEQ, unix.TIOCSTI, 4, 0),
			jump(unix.BPF_JEQ, unix.TIOCLINUX, 3, 0),
			jump(unix.BPF_JEQ, fioSetOwn, 2, 0),
			jump(unix.BPF_JEQ, unix.SIOCSPGRP, 1, 0),
			ret(retAllow),
			ret(retDenied),
		}},
		{unix.SYS_PERSONALITY, []unix.SockFilter{
			load(offArgs),
			jump(unix.BPF_JEQ, 0, 4, 0),
			jump(unix.BPF_JEQ, 8, 3, 0),
			jump(unix.BPF_JEQ, 0x20000, 2, 0),
			jump(unix.BPF_JEQ, 0xffffffff, 1, 0),
			ret(retDenied),
			ret(retAllow),
		}},
	}
	if noNetwork {
		// Without namespaces, IPC objects are the host's.
		for _, n := range sharedIPC {
			rules = append(rules, callRule{n, []unix.SockFilter{ret(retNoCall)}})
		}
	}
	return rules
}

// socketRules are the rules for system calls that make and connect sockets.
//
// In a network namespace the workload has the address families that programs need, and of
// netlink the routing protocol: others reach rarely tested kernel code, some of which
// ignores namespaces. socketpair(2) makes Unix sockets alone.
//
// Where the guest connects on behalf of the workload, Unix datagram sockets are refused:
// they send to any path without connect(2). Each socket of a pair can do that, too.
func socketRules(f filterOptions) []callRule {
	const family, kind, protocol = offArgs, offArgs + 8, offArgs + 16
	local := []unix.SockFilter{ret(retAllow)} // the verdict on a Unix socket
	if f.broker {
		const typeMask = 0xf // the other bits are flags
		local = []unix.SockFilter{
			load(kind),
			{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: typeMask},
			jump(unix.BPF_JEQ, unix.SOCK_STREAM, 2, 0),
			jump(unix.BPF_JEQ, unix.SOCK_SEQPACKET, 1, 0),
			ret(retNoType),
			ret(retAllow),
		}
	}
	onlyLocal := func(other uint32) []unix.SockFilter {
		return append([]unix.SockFilter{load(family), jump(unix.BPF_JEQ, unix.AF_UNIX, 1, 0), ret(other)}, local...)
	}
	netlink := uint32(retAllow)
	if f.netlink {
		netlink = retBroker
	}
	rules := []callRule{{unix.SYS_SOCKETPAIR, onlyLocal(retNoKind)}}
	if f.broker {
		rules = append(rules, callRule{unix.SYS_CONNECT, []unix.SockFilter{ret(retBroker)}})
	}
	if f.noNetwork {
		return append(rules, callRule{unix.SYS_SOCKET, onlyLocal(retNoNet)})
	}
	return append(rules, callRule{unix.SYS_SOCKET, append([]unix.SockFilter{
		load(family),
		jump(unix.BPF_JEQ, unix.AF_UNIX, 9, 0),
		jump(unix.BPF_JEQ, unix.AF_INET, 7, 0),
		jump(unix.BPF_JEQ, unix.AF_INET6, 6, 0),
		jump(unix.BPF_JEQ, unix.AF_NETLINK, 1, 0),
		ret(retNoKind),
		load(protocol),
		jump(unix.BPF_JEQ, unix.NETLINK_ROUTE, 1, 0),
		ret(retNoType),
		ret(netlink),
		ret(retAllow),
	}, local...)})
}

// socketOptionRule is the rule for setsockopt(2). Filters on sockets are refused: their
// machine code counts against one limit of the host, beyond which no program there gets a
// filter. With netlink, the guest sets the sizes of receive buffers.
func socketOptionRule(netlink bool) callRule {
	size := uint32(retAllow)
	if netlink {
		size = retBroker
	}
	return callRule{unix.SYS_SETSOCKOPT, []unix.SockFilter{
		load(offArgs + 8),
		jump(unix.BPF_JEQ, unix.SOL_SOCKET, 0, 4),
		load(offArgs + 16),
		jump(unix.BPF_JEQ, unix.SO_ATTACH_FILTER, 4, 0),
		jump(unix.BPF_JEQ, unix.SO_ATTACH_REUSEPORT_CBPF, 3, 0),
		jump(unix.BPF_JEQ, unix.SO_RCVBUF, 1, 0),
		ret(retAllow),
		ret(size),
		ret(retDenied),
	}}
}

// guestProtectionRules keep the workload from signalling the guest and from changing its
// resource limits. The confined thread of the guest has the user of the workload, and
// SIGKILL to one thread ends the whole process. PID 1 of a namespace is immune to that, but
// not every guest is PID 1, and gVisor does not protect it.
//
// Where the guest is killable, pidfd_send_signal(2) is refused as well, because a
// directory of /proc leads to the guest's threads. F_SETOWN, which makes the kernel send
// signals, can't name the guest anywhere.
func guestProtectionRules(mortal bool, ids []int) []callRule {
	const first, second = 0, 1
	groups := ids // for kill(2), where a negative number is a process group
	for _, id := range ids {
		groups = append(groups[:len(groups):len(groups)], -id)
	}
	// Go's runtime preempts threads of the guest by SIGURG, also from the confined thread.
	wake := []unix.SockFilter{load(offArgs + 16), jump(unix.BPF_JEQ, uint32(unix.SIGURG), 0, 1), ret(retAllow)}
	rules := []callRule{
		{unix.SYS_KILL, denyArguments(groups, first)},
		{unix.SYS_TKILL, denyArguments(ids, first)},
		{unix.SYS_TGKILL, append(wake, denyArguments(ids, first, second)...)},
		{unix.SYS_RT_SIGQUEUEINFO, denyArguments(ids, first)},
		{unix.SYS_RT_TGSIGQUEUEINFO, denyArguments(ids, first, second)},
		{unix.SYS_PIDFD_OPEN, denyArguments(ids, first)},
		// prlimit(2) may read the limits of any process and set those of the caller.
		{unix.SYS_PRLIMIT64, []unix.SockFilter{
			load(offArgs),
			jump(unix.BPF_JEQ, 0, 5, 0),
			load(offArgs + 16),
			jump(unix.BPF_JEQ, 0, 0, 2),
			load(offArgs + 16 + 4),
			jump(unix.BPF_JEQ, 0, 1, 0),
			ret(retDenied),
			ret(retAllow),
		}},
	}
	if mortal {
		rules = append(rules, callRule{unix.SYS_PIDFD_SEND_SIGNAL, []unix.SockFilter{ret(retNoCall)}})
	}
	owner := denyArguments(groups, 2)
	return append(rules, callRule{unix.SYS_FCNTL, append([]unix.SockFilter{
		load(offArgs + 8),
		jump(unix.BPF_JEQ, unix.F_SETOWN, 4, 0),
		jump(unix.BPF_JEQ, unix.F_SETLEASE, 2, 0),  // a lease stalls open(2) on the host for lease-break-time
		jump(unix.BPF_JEQ, unix.F_SETOWN_EX, 1, 0), // the owner is behind a pointer
		ret(retAllow),
		ret(retDenied),
	}, owner...)})
}

// whiteoutRules deny device nodes. An ordinary user can make one, 0:0, which hides a file
// where its directory is a layer of an overlayfs. With noSetID they also deny what
// setIDRules do, for the same system calls.
func whiteoutRules(noSetID bool) []callRule {
	bits := uint32(unix.S_IFCHR) // S_IFBLK has this bit, too
	if noSetID {
		bits |= setIDBits
	}
	deny := func(arg, bits uint32) []unix.SockFilter {
		return []unix.SockFilter{load(offArgs + 8*arg), jump(unix.BPF_JSET, bits, 0, 1), ret(retDenied), ret(retAllow)}
	}
	rules := []callRule{{unix.SYS_MKNODAT, deny(2, bits)}, {unix.SYS_RENAMEAT2, deny(4, unix.RENAME_WHITEOUT)}}
	if legacyMknod != 0 {
		rules = append(rules, callRule{legacyMknod, deny(1, bits)})
	}
	return rules
}

const setIDBits = unix.S_ISUID | unix.S_ISGID

// setIDRules deny the set-user-ID and set-group-ID bits on files. Without a user
// namespace such a file on the host would run as the workload's user for any caller.
func setIDRules() []callRule {
	const creates = unix.O_CREAT | unix.O_TMPFILE&^unix.O_DIRECTORY
	mode := func(arg uint32) []unix.SockFilter {
		return []unix.SockFilter{load(offArgs + 8*arg), jump(unix.BPF_JSET, setIDBits, 0, 1), ret(retDenied), ret(retAllow)}
	}
	open := func(flags uint32) []unix.SockFilter { // the next argument is the mode, used only if a file is created
		return append([]unix.SockFilter{load(offArgs + 8*flags), jump(unix.BPF_JSET, creates, 1, 0), ret(retAllow)}, mode(flags+1)...)
	}
	rules := []callRule{
		{unix.SYS_FCHMOD, mode(1)},
		{unix.SYS_FCHMODAT, mode(2)},
		{unix.SYS_FCHMODAT2, mode(2)},
		{unix.SYS_OPENAT, open(2)},
		{unix.SYS_OPENAT2, []unix.SockFilter{ret(retNoCall)}}, // the mode is behind a pointer
	}
	for number, arg := range legacyModeCalls {
		rules = append(rules, callRule{number, mode(arg)})
	}
	if legacyOpen != 0 {
		rules = append(rules, callRule{legacyOpen, open(1)})
	}
	return rules
}

// denyArguments allows a system call unless one of the arguments args is in ids.
func denyArguments(ids []int, args ...uint32) []unix.SockFilter {
	left := len(args) * (1 + len(ids)) // instructions until the verdicts
	var code []unix.SockFilter
	for _, arg := range args {
		code = append(code, load(offArgs+8*arg))
		left--
		for _, id := range ids {
			code = append(code, jump(unix.BPF_JEQ, uint32(id), uint8(left), 0))
			left--
		}
	}
	return append(code, ret(retAllow), ret(retDenied))
}

// A callRange is a range of allowed system call numbers, both ends included.
type callRange struct{ first, last uint32 }

// joinRanges joins sorted numbers into ranges.
func joinRanges(numbers []uint32) []callRange {
	var out []callRange
	for _, n := range numbers {
		if k := len(out); k > 0 && out[k-1].last+1 >= n {
			out[k-1].last = n
			continue
		}
		out = append(out, callRange{n, n})
	}
	return out
}

// searchTree appends a binary search for the loaded number in the ranges.
func searchTree(p []unix.SockFilter, spans []callRange) []unix.SockFilter {
	if len(spans) == 1 {
		s := spans[0]
		return append(p,
			jump(unix.BPF_JGE, s.first, 0, 2),
			jump(unix.BPF_JGT, s.last, 1, 0),
			ret(retAllow),
			ret(retDenied),
		)
	}
	mid := len(spans) / 2
	// A conditional jump reaches 255 instructions, an unconditional one all.
	p = append(p, jump(unix.BPF_JGE, spans[mid].first, 0, 1), unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JA})
	low := len(p)
	p = searchTree(p, spans[:mid])
	p[low-1].K = uint32(len(p) - low) // a program has a few hundred instructions
	return searchTree(p, spans[mid:])
}

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

func jump(op uint16, k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_K | op, Jt: yes, Jf: no, K: k}
}

func ret(verdict uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: verdict}
}

// installSeccomp installs a filter on the calling thread, and so on every process it
// starts. With NEW_LISTENER it returns a descriptor for the notifications of the filter.
func installSeccomp(f filterOptions, flags uintptr) (listener int, err error) {
	filter, err := seccompFilter(f)
	if err != nil {
		return -1, err
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	fd, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(filter)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

// startSeccomp installs the filter of a workload and serves its notifications.
func startSeccomp(cfg *guestproto.Config) error {
	f := filterOptions{
		noNetwork: cfg.Confine.NoNetwork, noSetID: cfg.Confine.NoSetID, ids: []int{os.Getpid(), unix.Gettid()},
		killable: os.Getpid() != 1 || cfg.Level == driver.IsolationGVisor, broker: cfg.Confine.BrokerConnect,
		netlink: cfg.Confine.BoundNetlink,
	}
	flags := uintptr(0)
	if f.broker || f.netlink {
		// WAIT_KILLABLE_RECV: without it a signal to the caller interrupts a call that the
		// guest has begun, and the caller makes that call again.
		flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
	}
	listener, err := installSeccomp(f, flags)
	if errors.Is(err, unix.EINVAL) && !f.netlink && flags != 0 { // before Linux 5.19
		flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER
		listener, err = installSeccomp(f, flags)
	}
	if err != nil {
		return setupError("install the seccomp filter", err)
	}
	if flags != 0 {
		startSocketBroker(cfg, listener)
	}
	return nil
}
