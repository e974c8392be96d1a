package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/workspace/driver"
)

// atEachLevel runs a test at each level that works here, or at the one that is set.
func atEachLevel(t *testing.T, f func(t *testing.T, p *Provider, level driver.Isolation)) {
	t.Helper()
	for _, r := range newProvider(t, t.TempDir()).levels(t.Context()) {
		t.Run(string(r.Level), func(t *testing.T) {
			if !r.Works {
				t.Skipf("skipped: host: %s: %s", r.Level, r.Reason)
			}
			p := newProvider(t, t.TempDir())
			p.onlyLevel, p.cfg.Isolation = r.Level, r.Level
			f(t, p, r.Level)
		})
	}
}

// hostSockets makes sockets in a directory of the host and counts what reaches them.
func hostSockets(t *testing.T, dir string) *atomic.Int32 {
	t.Helper()
	reached := new(atomic.Int32)
	l, err := net.Listen("unix", filepath.Join(dir, "stream"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			reached.Add(1)
			c.Close()
		}
	}()
	d, err := net.ListenPacket("unixgram", filepath.Join(dir, "datagram"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	go func() {
		buf := make([]byte, 10)
		for {
			if _, _, err := d.ReadFrom(buf); err != nil {
				return
			}
			reached.Add(1)
		}
	}()
	for _, name := range []string{"stream", "datagram"} {
		if err := os.Chmod(filepath.Join(dir, name), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	return reached
}

// connectAttack tries the sockets in the directory D in several ways.
const connectAttack = `cd "$D"; export D; perl -MIO::Socket::UNIX -MSocket -e '
my $d = $ENV{D};
sub try { my ($how, $path) = @_; print "$how " if IO::Socket::UNIX->new(Type => SOCK_STREAM, Peer => $path) }
try("absolute", "$d/stream");
try("relative", "stream");
symlink "$d/stream", "/tmp/link-$$"; try("symlink", "/tmp/link-$$");
link "$d/stream", "/tmp/hard-$$"; try("link", "/tmp/hard-$$");
link "$d/stream", "$ENV{TMPDIR}/hard-$$"; try("link", "$ENV{TMPDIR}/hard-$$");
opendir my $h, $d; my $n = fileno $h; try("descriptor", "/proc/self/fd/$n/stream");
try("cwd", "/proc/self/cwd/stream");
if (socket(my $s, AF_UNIX, SOCK_DGRAM, 0)) {
	print "sent " if send $s, "x", 0, pack_sockaddr_un("$d/datagram");
	print "connected " if connect $s, pack_sockaddr_un("$d/datagram");
}
if (socketpair(my $x, my $y, AF_UNIX, SOCK_DGRAM, 0)) {
	print "sent by a pair " if send $x, "x", 0, pack_sockaddr_un("$d/datagram");
}
if (rename "$d/stream", "$ENV{TMPDIR}/moved") { try("moved", "$ENV{TMPDIR}/moved"); rename "$ENV{TMPDIR}/moved", "$d/stream" }
print "held"'`

// TestAttackSocketsOfTheHost connects to sockets of the host in directories that are
// shown: in place, read-only and writable.
func TestAttackSocketsOfTheHost(t *testing.T) {
	for _, shown := range []string{"in place", "read-only", "writable"} {
		t.Run(strings.ReplaceAll(shown, " ", "-"), func(t *testing.T) {
			atEachLevel(t, func(t *testing.T, p *Provider, level driver.Isolation) {
				testenv.ReportAttack(t, "Unix socket of the host, directory "+shown, string(level), testenv.Prevented, "")
				dir, err := os.MkdirTemp("", "s") //nolint:usetesting // short enough for an address
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { os.RemoveAll(dir) })
				if err := os.Chmod(dir, 0o777); err != nil {
					t.Fatal(err)
				}
				reached := hostSockets(t, dir)
				ws := open(t, p, func(s *driver.Spec) {
					if shown == "in place" {
						s.Dir = dir
						return
					}
					s.Config, _ = json.Marshal(Options{Binds: []Bind{{Dir: dir, ReadOnly: shown == "read-only"}}})
				})
				res := script(t, ws, "D="+dir+"\n"+connectAttack)
				if got := strings.TrimSpace(string(res.Stdout)); got != "held" {
					t.Errorf("reached by: %s (%s)", got, res.Stderr)
				}
				if n := reached.Load(); n != 0 {
					t.Errorf("the host's sockets were reached %d times", n)
				}
			})
		})
	}
}

// TestSocketsOfTheHost connects to sockets in directories that the option "sockets" names,
// and to no others.
func TestSocketsOfTheHost(t *testing.T) {
	for _, shown := range []string{"in place", "read-only", "writable"} {
		t.Run(strings.ReplaceAll(shown, " ", "-"), func(t *testing.T) {
			atEachLevel(t, func(t *testing.T, p *Provider, level driver.Isolation) {
				dir := t.TempDir()
				if err := os.Mkdir(filepath.Join(dir, "asked"), 0o755); err != nil {
					t.Fatal(err)
				}
				for _, name := range []string{"asked/s", "other"} {
					l, err := net.Listen("unix", filepath.Join(dir, name))
					if err != nil {
						t.Fatal(err)
					}
					defer l.Close() // connections wait in its queue
				}
				opts := Options{Sockets: []string{filepath.Join(dir, "asked")}}
				spec := driver.Spec{ID: driver.NewID(), Kind: Kind, Dir: dir}
				if shown != "in place" {
					spec.Dir, opts.Binds = "", []Bind{{Dir: dir, ReadOnly: shown == "read-only"}}
				}
				spec.Config, _ = json.Marshal(opts)
				if level == driver.IsolationProcess || level == driver.IsolationGVisor {
					if _, err := p.Open(t.Context(), spec); fault.Of(err) != fault.Unsupported {
						t.Errorf("Open: %v, want %s", err, fault.Unsupported)
					}
					return
				}
				ws := open(t, p, func(s *driver.Spec) { *s = spec })
				got := output(t, ws, "D="+dir+` perl -MIO::Socket::UNIX -e '
for ("asked/s", "other") { print IO::Socket::UNIX->new(Type => SOCK_STREAM, Peer => "$ENV{D}/$_") ? "yes " : "no " }'`)
				if got != "yes no" {
					t.Errorf("the sockets are reached: %q, want %q", got, "yes no")
				}
			})
		})
	}
	opts, _ := json.Marshal(Options{Sockets: []string{t.TempDir()}})
	_, err := newProvider(t, t.TempDir()).Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: Kind, Config: opts})
	if fault.Of(err) != fault.InvalidArgument {
		t.Errorf("sockets of a directory that is not shown: %v, want %s", err, fault.InvalidArgument)
	}
}

// TestAttackSocketPathRace changes the path of a socket while connect(2) is under way.
func TestAttackSocketPathRace(t *testing.T) {
	atEachLevel(t, func(t *testing.T, p *Provider, level driver.Isolation) {
		testenv.ReportAttack(t, "Unix socket of the host, path changed during connect", string(level), testenv.Prevented, "")
		dir, err := os.MkdirTemp("", "s") //nolint:usetesting // short enough for an address
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		reached := hostSockets(t, dir)
		ws := open(t, p, func(s *driver.Spec) { s.Config, _ = json.Marshal(Options{Binds: []Bind{{Dir: dir, ReadOnly: true}}}) })
		res := script(t, ws, "D="+dir+` timeout 60 perl -MIO::Socket::UNIX -e '
my $own = "$ENV{TMPDIR}/own"; my $at = "$ENV{TMPDIR}/at"; my $next = "$ENV{TMPDIR}/next";
my $l = IO::Socket::UNIX->new(Type => SOCK_STREAM, Local => $own, Listen => 1000) or die "listen: $!";
my $pid = fork // die;
if (!$pid) { while (1) { for my $to ($own, "$ENV{D}/stream") { symlink $to, $next; rename $next, $at } } }
for (1 .. 3000) { my $c = IO::Socket::UNIX->new(Type => SOCK_STREAM, Peer => $at) or next; my $s; $l->blocking(0); $l->accept }
kill 9, $pid; print "held"'`)
		if n := reached.Load(); n != 0 || !strings.Contains(string(res.Stdout), "held") {
			t.Errorf("the host's socket was reached %d times (%q %q)", n, res.Stdout, res.Stderr)
		}
	})
}

// TestOwnSocketsWork connects to what the workload itself listens on.
func TestOwnSocketsWork(t *testing.T) {
	const use = `perl -MIO::Socket::UNIX -MIO::Socket::INET -e '
sub own { my ($path) = @_;
	my $l = IO::Socket::UNIX->new(Type => SOCK_STREAM, Local => $path, Listen => 1) or return print "listen on $path: $!\n";
	my $c = IO::Socket::UNIX->new(Type => SOCK_STREAM, Peer => $path) or return print "connect to $path: $!\n";
	my $s = $l->accept; print $c "hello\n"; $c->flush; my $got = <$s>; print "lost\n" unless $got eq "hello\n" }
own("$ENV{TMPDIR}/a"); own("b"); mkdir "$ENV{HOME}/d"; chdir "$ENV{HOME}/d"; own("../c");
unless ($ENV{NONET}) {
	own("\0abstract");
	my $l = IO::Socket::INET->new(LocalAddr => "127.0.0.1", Listen => 1) or print "listen: $!\n";
	my $c = IO::Socket::INET->new(PeerAddr => "127.0.0.1", PeerPort => $l->sockport) or print "connect: $!\n";
}
print "-" if IO::Socket::UNIX->new(Type => SOCK_STREAM, Peer => "$ENV{TMPDIR}/none"); print "none: $!\n"'`
	atEachLevel(t, func(t *testing.T, p *Provider, level driver.Isolation) {
		nonet := ""
		if level == driver.IsolationProcess {
			nonet = "export NONET=1; "
		}
		if got := output(t, open(t, p), nonet+use); got != "none: No such file or directory" {
			t.Errorf("got %q", got)
		}
	})
}

// TestManyConnectionsAtOnce connects from more processes than the guest connects for at a
// time.
func TestManyConnectionsAtOnce(t *testing.T) {
	const use = `perl -MIO::Socket::UNIX -e '
my $path = "$ENV{TMPDIR}/many"; my $l = IO::Socket::UNIX->new(Type => SOCK_STREAM, Local => $path, Listen => 1000) or die "listen: $!";
for (1 .. 200) { next if fork; my $c = IO::Socket::UNIX->new(Type => SOCK_STREAM, Peer => $path); exit($c ? 0 : 1) }
my $failed = 0; while ((my $pid = wait) > 0) { $failed++ if $? } print $failed'`
	if got := output(t, open(t, newProvider(t, t.TempDir())), use); got != "0" {
		t.Errorf("%s of 200 failed", got)
	}
}

//croft:slow
func TestAttackSocketsUnprivileged(t *testing.T) {
	asNobody(t, "^Test(AttackSocketsOfTheHost|AttackSocketPathRace|OwnSocketsWork|AttackLease|AttackSocketFamilies|AttackNetlinkBuffers|AttackCoreFiles|AttackFIFOsOfTheHost|AttackLaterFIFOs|AttackOtherWorkspaces)$")
}

// TestAttackLease takes a lease on a file in a directory in place, which would stall
// programs of the host that open the file.
func TestAttackLease(t *testing.T) {
	atEachLevel(t, func(t *testing.T, p *Provider, level driver.Isolation) {
		testenv.ReportAttack(t, "lease on a file of the host", string(level), testenv.Prevented, "")
		dir := t.TempDir()
		ws := open(t, p, func(s *driver.Spec) { s.Dir = dir })
		// F_SETLEASE is 1024; F_WRLCK is 1, F_RDLCK is 0.
		got := output(t, ws, `echo x > f; perl -e 'open my $f, "<", "f" or die; print "read lease " if fcntl $f, 1024, 0; open my $g, "+<", "f" or die; close $f; print "write lease " if fcntl $g, 1024, 1; print "held"'`)
		if got != "held" {
			t.Errorf("got %q", got)
		}
	})
}

// TestAttackSocketFamilies makes sockets of unusual families, pairs and netlink protocols.
func TestAttackSocketFamilies(t *testing.T) {
	atEachLevel(t, func(t *testing.T, p *Provider, level driver.Isolation) {
		testenv.ReportAttack(t, "socket families and netlink protocols", string(level), testenv.Prevented, "")
		// AF_TIPC 30, AF_NETLINK 16: audit 9, generic 16, netfilter 12, uevents 15, sock_diag 4.
		got := output(t, open(t, p), `perl -MSocket -e '
for my $f (2, 10, 16, 30) { print "pair $f " if socketpair(my $x, my $y, $f, SOCK_STREAM, 0) || socketpair($x, $y, $f, SOCK_DGRAM, 0) }
for my $n (1 .. 31) { print "netlink $n " if socket(my $s, 16, SOCK_RAW, $n) }
socketpair(my $x, my $y, AF_UNIX, SOCK_STREAM, 0) or print "no pair: $! "; print "held"'`)
		if got != "held" {
			t.Errorf("got %q", got)
		}
	})
}

// TestAttackNetlinkBuffers makes as many netlink sockets as it can in two processes, with
// buffers as large as it can: no limit of memory has them.
func TestAttackNetlinkBuffers(t *testing.T) {
	atEachLevel(t, func(t *testing.T, p *Provider, level driver.Isolation) {
		testenv.ReportAttack(t, "memory of the host in buffers of netlink sockets", string(level), testenv.Prevented, "")
		if level == driver.IsolationGVisor {
			return // these are gVisor's own
		}
		want := "128 of 212992 bytes, then 1"
		if level == driver.IsolationProcess {
			want = "0 of 0 bytes, then 0" // no network, and no such sockets
		}
		got := output(t, open(t, p), `perl -MSocket -e '
my @all; pipe(my $r, my $w); my $size = 0;
sub fill { while (@all < 100 && socket(my $s, 16, SOCK_RAW, 0)) {
	setsockopt($s, SOL_SOCKET, SO_RCVBUF, pack("i", $_)) or die $! for 1 << 30, -1;
	my $got = unpack("i", getsockopt($s, SOL_SOCKET, SO_RCVBUF)); $size = $got if $got > $size; push @all, $s } }
fill(); my $first = @all;
my $pid = fork // die; if (!$pid) { @all = (); fill(); syswrite $w, scalar(@all); exit }
close $w; waitpid $pid, 0; sysread $r, my $second, 9;
if ($first) {
	my $udp; socket($udp, AF_INET, SOCK_DGRAM, 0) && setsockopt($udp, SOL_SOCKET, SO_RCVBUF, pack("i", 5000)) or die $!;
	die "size of UDP" if unpack("i", getsockopt($udp, SOL_SOCKET, SO_RCVBUF)) != 10000;
}
@all = (); my $again = socket(my $s, 16, SOCK_RAW, 0) ? 1 : 0;
print $first + $second, " of $size bytes, then $again"' 2>&1`)
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// TestReceiveBufferOfNegativeSize: as the kernel does, the guest refuses a value whose size is
// negative.
func TestReceiveBufferOfNegativeSize(t *testing.T) {
	atEachLevel(t, func(t *testing.T, p *Provider, level driver.Isolation) {
		if level == driver.IsolationProcess {
			return // no such sockets
		}
		got := output(t, open(t, p), `python3 -c '
import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
value = ctypes.c_int(9000)
print(libc.setsockopt(s.fileno(), socket.SOL_SOCKET, socket.SO_RCVBUF, ctypes.byref(value), -1), os.strerror(ctypes.get_errno()))' 2>&1`)
		if want := "-1 Invalid argument"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// TestUnboundNetlinkIsSaid opens a workspace on a host whose kernel can't bound netlink sockets:
// the workspace works, and the levels and the traits say what it lacks.
func TestUnboundNetlinkIsSaid(t *testing.T) {
	atEachLevel(t, func(t *testing.T, p *Provider, level driver.Isolation) {
		p.noNotify = errors.New("an old kernel")
		const more = 200 // above the bound
		sockets := output(t, open(t, p), fmt.Sprintf(`perl -MSocket -e 'my @all; while (@all < %d && socket(my $s, 16, SOCK_RAW, 0)) { push @all, $s } print scalar @all'`, more))
		unbound := level == driver.IsolationNamespaces || level == driver.IsolationBubblewrap
		if unbound && sockets != strconv.Itoa(more) {
			t.Errorf("%s sockets were made, want %d", sockets, more)
		}
		traits, err := p.Probe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if memory := traits.Limits[driver.ResourceMemory]; memory.Enforced() && unbound != strings.Contains(memory.By, "netlink sockets are not counted: an old kernel") {
			t.Errorf("the traits say %+v", memory)
		}
		for _, r := range p.levels(t.Context()) {
			if r.Level == level && unbound != strings.Contains(strings.Join(r.Lacks, "\n"), "netlink sockets take memory of the host") {
				t.Errorf("the report says %q", r.Lacks)
			}
		}
	})
}

// TestAttackCoreFiles looks at the limit of core files, which the host's core_pattern may
// put into a directory of the host.
func TestAttackCoreFiles(t *testing.T) {
	atEachLevel(t, func(t *testing.T, p *Provider, level driver.Isolation) {
		testenv.ReportAttack(t, "core files", string(level), testenv.Prevented, "")
		if got := output(t, open(t, p), "ulimit -Sc; ulimit -Hc; ulimit -c 100 2>/dev/null || echo refused"); got != "0\n0\nrefused" {
			t.Errorf("got %q", got)
		}
	})
}

// TestAttackFIFOsOfTheHost writes to FIFOs of the host, and reads them.
func TestAttackFIFOsOfTheHost(t *testing.T) {
	for _, shown := range []string{"in place", "read-only"} {
		t.Run(strings.ReplaceAll(shown, " ", "-"), func(t *testing.T) {
			atEachLevel(t, func(t *testing.T, p *Provider, level driver.Isolation) {
				verdict := testenv.Prevented
				if level == driver.IsolationProcess {
					verdict = testenv.NotClaimed
				}
				testenv.ReportAttack(t, "FIFO of the host, directory "+shown, string(level), verdict, "")
				dir := t.TempDir()
				if err := os.Mkdir(filepath.Join(dir, "sub"), 0o777); err != nil {
					t.Fatal(err)
				}
				fifo := filepath.Join(dir, "sub", "fifo")
				if err := unix.Mkfifo(fifo, 0o666); err != nil {
					t.Fatal(err)
				}
				f, err := os.OpenFile(fifo, os.O_RDWR|unix.O_NONBLOCK, 0) // both ends, as a program of the host that waits
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				if level == driver.IsolationProcess {
					return
				}
				ws := open(t, p, func(s *driver.Spec) {
					if shown == "in place" {
						s.Dir = dir
						return
					}
					s.Config, _ = json.Marshal(Options{Binds: []Bind{{Dir: dir, ReadOnly: true}}})
				})
				res := script(t, ws, "cd "+dir+"; (echo attack > sub/fifo) 2>/dev/null; mv sub/fifo moved 2>/dev/null && echo x > moved; timeout 5 mkfifo own && (echo hi > own & cat own); true")
				var buf [10]byte
				if n, err := unix.Read(int(f.Fd()), buf[:]); n > 0 {
					t.Errorf("the host received %q, %v (%q)", buf[:n], err, res.Stderr)
				}
				if text := output(t, ws, "timeout 5 cat "+fifo+" || true"); level != driver.IsolationGVisor && text != strings.TrimSpace(fifoText) {
					t.Errorf("in its place is %q", text)
				}
				if shown == "in place" && strings.TrimSpace(string(res.Stdout)) != "hi" {
					t.Errorf("a FIFO made inside gives %q %q", res.Stdout, res.Stderr)
				}
			})
		})
	}
}

// TestAttackLaterFIFOs uses FIFOs that the host makes while the guest runs: each is reported.
func TestAttackLaterFIFOs(t *testing.T) {
	for _, shown := range []string{"in place", "read-only"} {
		t.Run(strings.ReplaceAll(shown, " ", "-"), func(t *testing.T) {
			atEachLevel(t, func(t *testing.T, p *Provider, level driver.Isolation) {
				verdict := testenv.Reported
				switch level {
				case driver.IsolationProcess:
					verdict = testenv.NotClaimed
				case driver.IsolationGVisor:
					verdict = testenv.Prevented
				}
				testenv.ReportAttack(t, "FIFO of the host, made later, directory "+shown, string(level), verdict, "")
				if verdict == testenv.NotClaimed {
					return
				}
				dir := t.TempDir()
				told := new(events)
				p.cfg.Events = told
				ws := open(t, p, func(s *driver.Spec) {
					if shown == "in place" {
						s.Dir = dir
						return
					}
					s.Config, _ = json.Marshal(Options{Binds: []Bind{{Dir: dir, ReadOnly: true}}})
				})
				output(t, ws, "true")
				fifo := filepath.Join(dir, "fifo")
				for range 2 { // also where one replaces another
					os.Remove(fifo)
					if err := unix.Mkfifo(fifo+".new", 0o666); err != nil {
						t.Fatal(err)
					}
					if err := os.Rename(fifo+".new", fifo); err != nil {
						t.Fatal(err)
					}
					f, err := os.OpenFile(fifo, os.O_RDWR|unix.O_NONBLOCK, 0)
					if err != nil {
						t.Fatal(err)
					}
					defer f.Close()
					scanAgain(t, ws)
					res := script(t, ws, "timeout 5 sh -c 'echo attack > "+fifo+"' 2>/dev/null; true")
					if verdict == testenv.Reported {
						if !slices.Contains(res.AutorunChanges, fifo) || !slices.Contains(told.paths(), fifo) {
							t.Errorf("the FIFO is not reported: %q, events %q", res.AutorunChanges, told.paths())
						}
						continue
					}
					var buf [10]byte
					if n, _ := unix.Read(int(f.Fd()), buf[:]); n > 0 {
						t.Errorf("the host received %q", buf[:n])
					}
				}
			})
		})
	}
}

// TestAttackOtherWorkspaces looks for the id of another workspace of the same user, and
// connects to the socket of its proxy.
func TestAttackOtherWorkspaces(t *testing.T) {
	atEachLevel(t, func(t *testing.T, _ *Provider, level driver.Isolation) {
		testenv.ReportAttack(t, "proxy and id of another workspace", string(level), testenv.Prevented, "")
		data, err := os.MkdirTemp("", "d") //nolint:usetesting // short enough for an address
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(data) })
		p := newProvider(t, data)
		p.onlyLevel, p.cfg.Isolation = level, level
		victim, ws := open(t, p), open(t, p)
		output(t, victim, "true") // its guest is there
		id := idOf(t, victim)
		dir := p.store.Path(id, egressName)
		if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
		socket := filepath.Join(dir, "s")
		l, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		got := output(t, ws, `perl -MIO::Socket::UNIX -e 'print IO::Socket::UNIX->new(Type => SOCK_STREAM, Peer => "`+socket+`") ? "reached " : ""'
cat /proc/self/cgroup 2>/dev/null | grep -o `+id+`; find /sys/fs/cgroup -name '*`+id+`*' 2>/dev/null | head -1; echo held`)
		if got != "held" {
			t.Errorf("got %q", got)
		}
	})
}

// TestDatagramSockets: a workspace that sees no directory of the host has Unix datagram
// sockets, which need no broker there.
func TestDatagramSockets(t *testing.T) {
	atEachLevel(t, func(t *testing.T, p *Provider, level driver.Isolation) {
		if level == driver.IsolationProcess {
			return // which sees the paths of the host
		}
		res := script(t, open(t, p), `perl -MSocket -e '
my ($s, $c); socket($s, AF_UNIX, SOCK_DGRAM, 0) && bind($s, pack_sockaddr_un("/tmp/own")) or die $!;
socket($c, AF_UNIX, SOCK_DGRAM, 0) && defined(send $c, "hello", 0, pack_sockaddr_un("/tmp/own")) or die $!;
recv($s, my $m, 10, 0); print $m' 2>&1`)
		if got := string(res.Stdout); got != "hello" {
			t.Errorf("a datagram: %q", got)
		}
	})
}

// connectMany lets 200 processes wait for a listener that accepts none of them, and connects to others meanwhile.
const connectMany = `cd "$TMPDIR"; perl -MSocket -MPOSIX -e '
sub listening { my ($domain, $address, $backlog) = @_; my $s; socket($s, $domain, SOCK_STREAM, 0) && bind($s, $address) && listen($s, $backlog) or die "listen: $!"; $s }
sub connected { my ($domain, $address) = @_; socket(my $s, $domain, SOCK_STREAM, 0) or die; connect($s, $address) ? $s : undef }
my $full = pack_sockaddr_un("full"); my $other = pack_sockaddr_un("other");
my $busy = listening(AF_UNIX, $full, 0);
my $free = listening(AF_UNIX, $other, 10);
pipe(my $begun, my $begins); pipe(my $over, my $ends);
my @waiting;
for (1..200) {
	my $pid = fork;
	if (!$pid) {
		close $over; syswrite $begins, "b";
		my $s = connected(AF_UNIX, $full) or POSIX::_exit(1);
		syswrite $ends, "e"; POSIX::_exit(0);
	}
	push @waiting, $pid;
}
for (1..200) { sysread $begun, my $x, 1 }
my $got = connected(AF_UNIX, $other); print "other " if $got;
socket(my $timed, AF_UNIX, SOCK_STREAM, 0); setsockopt($timed, SOL_SOCKET, SO_SNDTIMEO, pack("l!l!", 0, 100000));
print "timed " if !connect($timed, $full) && $!{EAGAIN};
socket(my $flagged, AF_UNIX, SOCK_STREAM, 0); fcntl($flagged, F_SETFL, O_NONBLOCK);
print "flagged " if !connect($flagged, $full) && $!{EAGAIN};
print "flag " if !(fcntl($timed, F_GETFL, 0) & O_NONBLOCK) && fcntl($flagged, F_GETFL, 0) & O_NONBLOCK;
my @killed = splice @waiting, 0, 50;
kill "KILL", @killed; waitpid $_, 0 for @killed;
for (1..@waiting) { accept(my $c, $busy) or die "accept: $!"; push @held, $c }
my $lost = 0; for (@waiting) { waitpid $_, 0; $lost++ if $? } print "lost $lost ";
if (-e "/proc/net/tcp") {
	my $l = listening(AF_INET, pack_sockaddr_in(0, INADDR_LOOPBACK), 5);
	print "tcp " if connected(AF_INET, getsockname $l);
	my $gone = getsockname $l; close $l;
	print "refused " if !connected(AF_INET, $gone) && $!{ECONNREFUSED};
}'`

// TestBlockedConnectsHoldUpNoOthers: what waits for a listener keeps no other process from connecting, ends with its caller and at its
// time-out, and gets its connection.
func TestBlockedConnectsHoldUpNoOthers(t *testing.T) {
	atEachLevel(t, func(t *testing.T, p *Provider, level driver.Isolation) {
		if level == driver.IsolationGVisor {
			t.Skip("skipped: host: gVisor makes its connections itself")
		}
		dir := t.TempDir()
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		ws := open(t, p, func(s *driver.Spec) { s.Dir = dir })
		res := script(t, ws, connectMany)
		if got := string(res.Stdout); !strings.HasPrefix(got, "other timed flagged flag lost 0 ") ||
			level != driver.IsolationProcess && !strings.HasSuffix(got, "tcp refused ") {
			t.Errorf("it says %q, %s", got, res.Stderr)
		}
	})
}
