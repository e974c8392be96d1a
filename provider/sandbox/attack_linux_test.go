package sandbox

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/workspace/driver"
)

// TestAttacks runs what someone would try from inside. Each script must say
// "held"; whatever else it says is what gave way.
func TestAttacks(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join("/tmp", "croft-bait-"+driver.NewID()) // short enough for an address
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	abstract, err := net.Listen("unix", "@croft-bait-"+filepath.Base(socket))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { abstract.Close() })
	loop, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { loop.Close() })
	port := loop.Addr().(*net.TCPAddr).Port
	p := newProvider(t, t.TempDir())
	ws := open(t, p)
	host := os.Getpid()
	victim := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() { defer close(gone); _ = victim.Wait() }()
	t.Cleanup(func() { victim.Process.Kill(); <-gone })
	for name, text := range map[string]string{
		"signal-to-the-host":   fmt.Sprintf(`[ -r /proc/%d/comm ] && [ "$(cat /proc/%d/comm)" = sleep ] && kill -TERM %d 2>/dev/null; echo held`, victim.Process.Pid, victim.Process.Pid, victim.Process.Pid),
		"trace-the-host":       fmt.Sprintf(`perl -e 'print syscall(101, 16, %d, 0, 0) == -1 ? "held" : "attached"'`, victim.Process.Pid),
		"memory-of-the-host":   fmt.Sprintf(`cat /proc/%d/environ /proc/%d/maps 2>/dev/null | grep -q . && echo read || echo held`, victim.Process.Pid, victim.Process.Pid),
		"loopback-of-the-host": fmt.Sprintf(`(exec 3<>/dev/tcp/127.0.0.1/%d) 2>/dev/null && echo reached || echo held`, port),
		"add-key":              `perl -e 'my ($a, $b, $c) = ("user", "croft", "x"); print syscall(248, $a, $b, $c, 1, -3) == -1 ? "held" : "added"'`,
		"descriptors":          `[ "$(ls /proc/self/fd | tr '\n' ' ')" = "0 1 2 3 " ] && echo held || ls -l /proc/self/fd`, // 3 is ls's own
		"no-capabilities":      `grep -E '^Cap(Inh|Prm|Eff|Bnd|Amb)' /proc/self/status | grep -v '0000000000000000$' || echo held`,
		"no-new-privileges":    `grep -q '^NoNewPrivs:.1$' /proc/self/status && echo held`,
		"guest-memory":         `cat /proc/1/mem /proc/1/maps /proc/1/environ 2>/dev/null | head -c1 | grep -q . || echo held`,
		"guest-descriptors":    `ls /proc/1/fd 2>/dev/null | grep -q . && echo seen || echo held`,
		"guest-root":           `ls /proc/1/root/ 2>/dev/null | grep -q . && echo seen || ls /proc/1/cwd/ 2>/dev/null | grep -q . && echo seen || echo held`,
		"guest-signals":        `for s in $(seq 1 64); do kill -$s 1 2>/dev/null; done; echo held`,
		"guest-survived":       `sleep 0.1; echo held`,
		"kill-all":             `(trap '' TERM; kill -TERM -1 2>/dev/null); echo held`,
		"host-process":         fmt.Sprintf(`[ -e /proc/%d/cmdline ] && tr '\0' ' ' < /proc/%d/cmdline | grep -q 'sand[b]ox' && echo seen || echo held`, host, host), // a number may be one of a process inside, which has these words
		"socket-of-the-host":   fmt.Sprintf(`perl -e 'use IO::Socket::UNIX; print IO::Socket::UNIX->new(Peer => "%s") ? "reached" : "held"'`, socket),
		"abstract-socket":      `perl -e 'use IO::Socket::UNIX; print IO::Socket::UNIX->new(Peer => "\0croft-bait-` + filepath.Base(socket) + `") ? "reached" : "held"'`,
		"user-namespace":       `unshare -U true 2>/dev/null && echo made || echo held`,
		"user-namespace-root":  `unshare -Ur true 2>/dev/null && echo made || echo held`,
		"mount-namespace":      `unshare -m true 2>/dev/null && echo made || echo held`,
		"mount":                `mount -t tmpfs x /tmp 2>/dev/null && echo mounted || mount --bind / /tmp 2>/dev/null && echo mounted || echo held`,
		"remount":              `mount -o remount,rw / 2>/dev/null && echo remounted || mount -o remount,rw,bind /usr 2>/dev/null && echo remounted || echo held`,
		"unmount":              `umount -l /proc 2>/dev/null && echo gone || umount -l /etc/shadow 2>/dev/null && echo gone || echo held`,
		"chroot":               `chroot / true 2>/dev/null && echo done || echo held`,
		"device":               `mknod d c 1 1 2>/dev/null && echo made || mknod /tmp/d b 7 0 2>/dev/null && echo made || echo held`,
		"setuid":               `cp /bin/bash s && chmod 4755 s && ./s -p -c 'id -u' | grep -q '^1000$' && for f in /usr/bin/su /usr/bin/passwd /usr/bin/mount; do [ -e $f ] && $f --version >/dev/null 2>&1; done; [ "$(id -u)" = 1000 ] && echo held`,
		"sys":                  `[ -z "$(ls -A /sys 2>/dev/null)" ] && echo held || ls /sys`,
		"core-pattern":         `(exec 3>>/proc/sys/kernel/core_pattern) 2>/dev/null && echo "can be written" || echo held`, // opened, never written: if it gives way, it is the host's
		"sysctl":               `for f in kernel/hostname vm/drop_caches kernel/modprobe fs/binfmt_misc/register vm/overcommit_memory; do (exec 3>>/proc/sys/$f) 2>/dev/null && echo can write $f; done; echo held`,
		"host-in-proc":         `for f in keys key-users timer_list latency_stats; do [ -s /proc/$f ] && cat /proc/$f 2>/dev/null; done; head -c1 /proc/kcore 2>/dev/null; ls /proc/acpi /proc/scsi 2>/dev/null | grep -v :$; echo held`,
		"sysrq":                `(exec 3>>/proc/sysrq-trigger) 2>/dev/null && echo "can be written" || echo held`,
		"keys":                 `perl -e 'print syscall(250, 0, 4294967293, 1) == -1 ? "held" : "a keyring"'`,
		"io-uring":             `perl -e 'my $p = "\0" x 200; print syscall(425, 8, $p) == -1 ? "held" : "made"'`,
		"bpf":                  `perl -e 'my $p = "\0" x 200; print syscall(321, 0, $p, 120) == -1 ? "held" : "made"'`,
		"perf":                 `perl -e 'my $p = "\0" x 200; print syscall(298, $p, 0, -1, -1, 0) == -1 ? "held" : "made"'`,
		"ptrace-guest":         `perl -e 'print syscall(101, 16, 1, 0, 0) == -1 ? "held" : "attached"'`,
		"module":               `perl -e 'my ($x, $y) = ("x", ""); print syscall(175, $x, 1, $y) == -1 ? "held" : "loaded"'`,
		"by-handle":            `perl -e 'my $h = pack("LL", 8, 1) . "\0" x 8; print syscall(304, -100, $h, 0) == -1 ? "held" : "opened"'`,
		"home":                 `ls /root /home 2>/dev/null | grep -v '^croft$' | grep -v ':$' | grep -q . && ls /root /home || echo held`,
		"shadow":               `[ -s /etc/shadow ] && cat /etc/shadow 2>/dev/null | grep -q : && echo read || echo held`,
		"data-directory":       `[ -e ` + p.store.Path() + ` ] && echo seen || echo held`,
		"interfaces":           `[ "$(grep -c : /proc/net/dev)" = 1 ] && echo held || cat /proc/net/dev`,
		"dns":                  `timeout 5 getent hosts example.com && echo resolved || echo held`,
		"raw-socket":           `perl -e 'use Socket; print socket(my $s, AF_INET, SOCK_RAW, 1) ? "made" : "held"'`,
		"packet-socket":        `perl -e 'print syscall(41, 17, 3, 768) == -1 ? "held" : "made"'`,
		"vsock":                `perl -e 'print syscall(41, 40, 1, 0) == -1 ? "held" : "made"'`,
		"clock":                `date -s 2000-01-01 >/dev/null 2>&1 && echo set || echo held`,
		"priority":             `nice -n -5 true 2>/dev/null; renice -n -5 $$ >/dev/null 2>&1 && echo raised || echo held`,
		"program-of-the-host":  `(echo x >> /usr/bin/true) 2>/dev/null && echo written || (: > /bin/true) 2>/dev/null && echo written || echo held`,
	} {
		t.Run(name, func(t *testing.T) {
			if why := notClaimed(name); why != "" {
				testenv.ReportAttack(t, name, string(levelHere()), testenv.NotClaimed, why)
				t.Skip("skipped: Traits: " + why)
			}
			testenv.ReportAttack(t, name, string(levelHere()), testenv.Prevented, "")
			res := script(t, ws, text)
			if got := strings.TrimSpace(string(res.Stdout)); got != "held" && res.Signal != "SIGTERM" {
				t.Errorf("got %q (exit %d, %q)", got, res.ExitCode, res.Stderr)
			}
		})
	}
	if got := output(t, ws, "echo works"); got != "works" {
		t.Errorf("after all that: %q", got)
	}
	if !alive(guestOf(t, p, ws)) {
		t.Error("the guest was ended from inside")
	}
	select {
	case <-gone:
		t.Error("a process of the host was ended from inside")
	default:
	}
}

// notClaimed says why a level does not promise to hold an attempt, "" where it
// does.
func notClaimed(name string) string {
	switch {
	case here(driver.IsolationProcess) && os.Getuid() != 0 && name == "no-capabilities":
		return "an ordinary user can't empty the bounding set; with no-new-privileges it has no effect"
	case here(driver.IsolationProcess):
		return map[string]string{
			"guest-memory":      "the first process is the host's",
			"guest-descriptors": "the first process is the host's",
			"guest-root":        "the first process is the host's",
			"guest-signals":     "the first process is the host's",
			"ptrace-guest":      "the first process is the host's",
			"kill-all":          "not tried: without a process namespace it would end processes of the host",
			"host-process":      "without a process namespace, processes of the host are seen",
			"data-directory":    "that a directory exists is seen",
			"interfaces":        "no socket can be made, but interfaces are seen",
			"setuid":            "the user is the host's",
			"sys":               "what may be read of /sys is seen",
			"host-in-proc":      "what may be read of /proc is seen",
		}[name]
	case here(driver.IsolationBubblewrap):
		return map[string]string{"guest-descriptors": "the numbers of descriptors are seen, and nothing else"}[name]
	case here(driver.IsolationGVisor):
		return map[string]string{
			"no-new-privileges": "gVisor does not show it",
			"priority":          "it is the priority among gVisor's own processes",
			"sysctl":            "they are gVisor's own",
			"sysrq":             "it is gVisor's own",
			"core-pattern":      "it is gVisor's own",
			"guest-signals":     "where Croft is not root, the workload can end its own guest",
			"guest-survived":    "where Croft is not root, the workload can end its own guest",
			"kill-all":          "where Croft is not root, the workload can end its own guest",
			"sys":               "it is gVisor's own",
			"guest-descriptors": "the numbers of descriptors are seen, and nothing else",
			"setuid":            "where Croft is not root, the workload is root inside",
		}[name]
	}
	return ""
}

// TestAttacksAtEveryLevel tries the same at the other levels, as this user and as
// an ordinary one.
func TestAttacksAtEveryLevel(t *testing.T) {
	for _, level := range []driver.Isolation{driver.IsolationGVisor, driver.IsolationBubblewrap, driver.IsolationProcess} {
		t.Run(string(level), func(t *testing.T) { atLevel(t, level, "^Test(Attacks|TerminalInjectionIsRefused)$") })
	}
}

// everyLevel runs a test at each level that works here, in a workspace that was
// opened for it.
func everyLevel(t *testing.T, f func(t *testing.T, p *Provider, level driver.Isolation, ws *driver.Workspace)) {
	for _, r := range newProvider(t, t.TempDir()).levels(t.Context()) {
		t.Run(string(r.Level), func(t *testing.T) {
			if !r.Works {
				t.Skipf("skipped: host: %s: %s", r.Level, r.Reason)
			}
			p := newProvider(t, t.TempDir())
			p.onlyLevel, p.cfg.Isolation = r.Level, r.Level
			f(t, p, r.Level, open(t, p))
		})
	}
}

// TestGuestCannotBeEnded sends SIGKILL to every thread of the guest, in all ways
// that there are, and sets its limits.
func TestGuestCannotBeEnded(t *testing.T) {
	const attack = `perl -MFcntl -MSocket -e '
my $g = getppid();
for (glob "/proc/$g/task/*") {
	my ($t) = m{(\d+)$};
	kill 9, $t;
	kill 9, -$t;
	syscall(200, $t, 9);      # tkill
	syscall(234, $g, $t, 9);  # tgkill
	my $info = pack("iii", 9, 0, -1) . "\0" x 116;
	syscall(129, $t, 9, $info);      # rt_sigqueueinfo
	syscall(297, $g, $t, 9, $info);  # rt_tgsigqueueinfo
	for my $flags (0, 128) {
		my $fd = syscall(434, $t, $flags);  # pidfd_open
		syscall(424, $fd, 9, 0, 0) if $fd >= 0;
	}
	for my $dir ("/proc/$t", "/proc/$g/task/$t") {
		my $fd = syscall(2, $dir, 65536);
		syscall(424, $fd, 9, 0, 0) if $fd >= 0;  # pidfd_send_signal
	}
	for my $how (8, 15, 0x8901) {  # F_SETOWN, F_SETOWN_EX, FIOSETOWN
		socketpair(my $x, my $y, AF_UNIX, SOCK_STREAM, 0) or die;
		my $owner = $how == 15 ? pack("ii", 0, $t) : pack("i", $t);
		$how == 8 ? fcntl($x, 8, 0 + $t) : $how == 15 ? fcntl($x, 15, $owner) : ioctl($x, $how, $owner);
		fcntl($x, 10, 9);  # F_SETSIG
		fcntl($x, F_SETFL, O_ASYNC | O_RDWR);
		syswrite $y, "x";
	}
	my $none = pack("QQ", 0, 0);
	syscall(302, $t, 0, $none, 0) == -1 or print "limited ";  # prlimit64
}
select undef, undef, undef, 0.2;
print "held";'`
	everyLevel(t, func(t *testing.T, _ *Provider, level driver.Isolation, ws *driver.Workspace) {
		if level == driver.IsolationGVisor && os.Getuid() != 0 {
			t.Skip("skipped: the guest and the workload are one user of gVisor, which spares no process")
		}
		for range 3 { // which thread is which is a matter of chance
			if res := script(t, ws, attack); string(res.Stdout) != "held" {
				t.Fatalf("got %q, cause %q (%q)", res.Stdout, res.Cause, res.Stderr)
			}
		}
	})
}

// TestSettingsOfTheKernelCannotBeWritten only opens them: where they can be, a
// word would change the host.
func TestSettingsOfTheKernelCannotBeWritten(t *testing.T) {
	const attack = `find /proc -path '/proc/[0-9]*' -prune -o -type f -print 2>/dev/null |
while read -r f; do [ -f "$f" ] && (: >> "$f") 2>/dev/null && echo "$f"; done |
grep -v -e '^/proc/pressure/' -e '/ns_last_pid$' # anyone may ask for alarms; a number is refused when it comes`
	everyLevel(t, func(t *testing.T, _ *Provider, level driver.Isolation, ws *driver.Workspace) {
		if level == driver.IsolationGVisor {
			t.Skip("skipped: the kernel is the workspace's own")
		}
		if res := script(t, ws, attack); len(res.Stdout) > 0 {
			t.Errorf("can be written:\n%s", res.Stdout)
		}
	})
}

// TestNoProgramOfItsOwnerIsLeftBehind: what a workload makes in a directory in
// place belongs to whose directory it is, and anyone on the host may run it.
func TestNoProgramOfItsOwnerIsLeftBehind(t *testing.T) {
	for _, r := range newProvider(t, t.TempDir()).levels(t.Context()) {
		t.Run(string(r.Level), func(t *testing.T) {
			if !r.Works {
				t.Skipf("skipped: host: %s: %s", r.Level, r.Reason)
			}
			dir := t.TempDir()
			p := newProvider(t, t.TempDir())
			p.onlyLevel, p.cfg.Isolation = r.Level, r.Level
			ws := open(t, p, func(s *driver.Spec) { s.Dir = dir })
			res := script(t, ws, `cp /bin/true a && chmod 4755 a; cp /bin/true b; chmod g+s b; install -m 6755 /bin/true c
perl -MFcntl -e 'sysopen my $f, "d", O_CREAT | O_WRONLY, 04755; chmod 02755, "a"; mkdir "e"; chmod 0755, "a" or print "not even a plain mode"'`)
			files, err := os.ReadDir(dir)
			if err != nil || len(res.Stdout) > 0 || len(files) < 3 {
				t.Fatalf("%v: %v (%s %s)", files, err, res.Stdout, res.Stderr)
			}
			for _, f := range files {
				if info, err := f.Info(); err != nil || info.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 {
					t.Errorf("%s is %v, %v", f.Name(), info.Mode(), err)
				}
			}
		})
	}
}

// TestTerminalsOfTheHostAreNotReached opens one that belongs to the same user.
func TestTerminalsOfTheHostAreNotReached(t *testing.T) {
	ptmx, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("skipped: host: %v", err)
	}
	defer ptmx.Close()
	n, err := unix.IoctlGetInt(int(ptmx.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(ptmx.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	everyLevel(t, func(t *testing.T, _ *Provider, _ driver.Isolation, ws *driver.Workspace) {
		if res := script(t, ws, fmt.Sprintf("(: > /dev/pts/%d) 2>/dev/null && echo opened", n)); len(res.Stdout) > 0 {
			t.Errorf("a terminal of the host: %s", res.Stdout)
		}
	})
}

func TestTerminalInjectionIsRefused(t *testing.T) {
	ws := open(t, newProvider(t, t.TempDir()))
	res, err := ws.Shell.Run(t.Context(), driver.Command{
		Argv: []string{"perl", "-e", `my $c = "x"; print syscall(16, 0, 0x5412, $c) == -1 ? "held" : "injected"`},
		TTY:  &driver.Size{Rows: 24, Cols: 80},
	})
	if err != nil || !strings.Contains(string(res.Stdout), "held") {
		t.Errorf("TIOCSTI gives %+v, %v", res, err)
	}
}

func TestAttacksUnprivileged(t *testing.T) {
	asNobody(t, "^Test(Attacks|GuestCannotBeEnded|SettingsOfTheKernelCannotBeWritten|TerminalInjectionIsRefused)$")
}

// TestOutputFloodCostsNoMemory lets a command write a gigabyte, and looks at what
// this process and the guest held at most. The race detector shadows every byte of
// this process several times; the guest is built without it.
func TestOutputFloodCostsNoMemory(t *testing.T) {
	p := newProvider(t, t.TempDir())
	ws := open(t, p)
	debug.FreeOSMemory() // what the tests before this one held does not count
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		t.Fatal(err)
	}
	res := script(t, ws, "head -c 1G /dev/zero")
	if res.ExitCode != 0 || int64(len(res.Stdout))+res.StdoutDropped != 1<<30 {
		t.Errorf("a gigabyte gives exit %d, %d and %d bytes dropped", res.ExitCode, len(res.Stdout), res.StdoutDropped)
	}
	ours := 100 << 10
	if testenv.Race {
		ours = 400 << 10
	}
	if peak := field(t, os.Getpid(), "VmHWM"); peak > ours {
		t.Errorf("this process used %d KiB, want at most %d", peak, ours)
	}
	if peak := field(t, guestOf(t, p, ws).PID, "VmHWM"); peak > 100<<10 {
		t.Errorf("the guest used %d KiB, want at most %d", peak, 100<<10)
	}
}

// field is a number of /proc/PID/status, in KiB.
func field(t testing.TB, pid int, name string) int {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			var n int
			if _, err := fmt.Sscan(rest, &n); err == nil {
				return n
			}
		}
	}
	t.Fatalf("no %s of %d", name, pid)
	return 0
}

func TestIdleGuestIsSmall(t *testing.T) {
	p := newProvider(t, t.TempDir())
	ws := open(t, p)
	for range 20 {
		output(t, ws, "echo works")
	}
	pid := guestOf(t, p, ws).PID
	anon, rss := field(t, pid, "RssAnon"), field(t, pid, "VmRSS")
	t.Logf("RssAnon %d KiB, VmRSS %d KiB", anon, rss)
	if anon > 6<<10 || rss > 12<<10 {
		t.Errorf("the guest holds %d KiB, %d KiB of it its own; the most is 12 and 6 MiB", rss, anon)
	}
}
