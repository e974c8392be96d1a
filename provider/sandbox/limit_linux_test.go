package sandbox

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/cgroup"
	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/provider/sandbox/internal/mount"
	"github.com/croft-run/croft/workspace/driver"
)

// need skips where the host can't enforce a limit, and says why.
func need(t *testing.T, e driver.Enforcement) {
	t.Helper()
	if !e.Enforced() {
		t.Skip("skipped: host: " + e.Reason)
	}
}

func limits(l driver.Limits) func(*driver.Spec) { return policy(driver.Policy{Limits: l}) }

func TestMemoryHogIsKilledAndSaysWhy(t *testing.T) {
	need(t, limitEnforcement("memory"))
	p := newProvider(t, t.TempDir())
	ws := open(t, p, limits(driver.Limits{driver.ResourceMemory: {Max: 64 << 20}}))
	res := script(t, ws, "head -c 200M /dev/zero | tail > /dev/null")
	if res.Cause != driver.CauseOOM || res.ExitCode == 0 {
		t.Errorf("a memory hog gives %+v, want the cause oom", res)
	}
	if res := script(t, ws, "exit 3"); res.Cause != "" || res.ExitCode != 3 {
		t.Errorf("the command after it gives %+v", res)
	}
	// What is written to memory file systems is memory, and has an end before
	// it leaves none for programs.
	res = script(t, ws, "for d in /tmp /dev/shm ~ /var/tmp /run; do head -c 200M /dev/zero > $d/x; done; head -c 200M /dev/zero | tail > /dev/null")
	if !strings.Contains(string(res.Stderr), "No space left") || res.Cause != driver.CauseOOM {
		t.Errorf("a hog in files gives %+v", res)
	}
	if got := output(t, ws, "echo works"); got != "works" {
		t.Errorf("after it: %q", got)
	}
	if !alive(guestOf(t, p, ws)) {
		t.Error("the guest was killed with the hog")
	}
}

func TestForkBombIsContained(t *testing.T) {
	need(t, limitEnforcement("pids"))
	p := newProvider(t, t.TempDir())
	ws := open(t, p, limits(driver.Limits{driver.ResourcePIDs: {Max: 40}}))
	res, err := ws.Shell.Run(t.Context(), driver.Command{Script: "exec sh -c 'for i in $(seq 100); do sleep 100 & done; exit 1'"})
	if err != nil || res.Cause != driver.CausePIDs {
		t.Errorf("too many processes give %+v, %v, want the cause pids", res, err)
	}
	res, err = ws.Shell.Run(t.Context(), driver.Command{Script: "f() { f | f & }; f; sleep 1000", Timeout: 2 * time.Second})
	if err != nil || res.ExitCode == 0 {
		t.Errorf("a fork bomb gives %+v, %v", res, err)
	}
	if got := output(t, ws, "echo works"); got != "works" {
		t.Errorf("after it: %q", got)
	}
}

func TestCPUQuotaIsKept(t *testing.T) {
	need(t, limitEnforcement("cpu"))
	ws := open(t, newProvider(t, t.TempDir()), limits(driver.Limits{driver.ResourceCPU: {Max: 100}}))
	output(t, ws, "true") // the guest is there
	start := time.Now()
	res, err := ws.Shell.Run(t.Context(), driver.Command{Script: "while :; do :; done", Timeout: 2 * time.Second})
	took := time.Since(start) // where the machine is busy it ends later than it should
	if err != nil || res.Usage.User+res.Usage.System > took/4+500*time.Millisecond {
		t.Errorf("a tenth of a core gave %v in %v (%v)", res.Usage, took, err)
	}
}

func TestOpenFilesAreLimited(t *testing.T) {
	ws := open(t, newProvider(t, t.TempDir()), limits(driver.Limits{driver.ResourceOpenFiles: {Max: 64}}))
	if got := output(t, ws, "ulimit -n; ulimit -Hn; ulimit -n 100 2>/dev/null || echo refused"); got != "64\n64\nrefused" {
		t.Errorf("got %q", got)
	}
}

//croft:race
func TestPauseFreezes(t *testing.T) {
	need(t, limitEnforcement("freezer"))
	p := newProvider(t, t.TempDir())
	ws := open(t, p)
	if _, err := ws.Shell.Start(t.Context(), driver.Command{Script: "while :; do echo x >> beat; sleep 0.01; done"}); err != nil {
		t.Fatal(err)
	}
	size := func() int64 {
		info, err := ws.FS.Stat(t.Context(), "beat", &driver.StatOptions{})
		if err != nil {
			return 0
		}
		return info.Size
	}
	eventually(t, "beating", func() bool { return size() > 0 })
	if err := ws.Life.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := size()
	time.Sleep(1500 * time.Millisecond) // longer than the interval of supervise.FreezeWatch
	if after := size(); after != before {
		t.Errorf("it went on while paused: %d, %d", before, after)
	}
	if err := ws.Life.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "going on", func() bool { return size() > before })
	if err := ws.Life.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	groups := guestOf(t, p, ws).Groups
	if err := ws.Life.Destroy(t.Context()); err != nil {
		t.Fatalf("destroy while paused: %v", err)
	}
	for _, dir := range groups {
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("group %s is left", dir)
		}
	}
}

func TestDiskIsLimited(t *testing.T) {
	need(t, diskLimit())
	template := t.TempDir()
	put(t, filepath.Join(template, "of-template"), "x")
	for name, from := range map[string]string{"empty": "", "template": template} {
		t.Run(name, func(t *testing.T) {
			data := t.TempDir()
			p := newProvider(t, data)
			ws := open(t, p, limits(driver.Limits{driver.ResourceDisk: {Max: 8 << 20}}), func(s *driver.Spec) { s.From.Template = from })
			res := script(t, ws, "head -c 100M /dev/zero > big")
			if res.Cause != driver.CauseDisk || res.ExitCode == 0 {
				t.Errorf("a disk filler gives %+v, want the cause disk", res)
			}
			if got := output(t, ws, "rm big; echo kept > small; ls"); got != strings.TrimSpace(strings.TrimPrefix("of-template\nsmall", map[bool]string{true: "of-template\n"}[from == ""])) {
				t.Errorf("there is %q", got)
			}
			if err := ws.Life.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := guestOf(t, p, ws).Kill(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			next, err := newProvider(t, data).Resolve(t.Context(), ws.Ref)
			if err != nil {
				t.Fatal(err)
			}
			if got := read(t, next, "small"); got != "kept\n" {
				t.Errorf("after the guest was killed: %q", got)
			}
			if _, err := next.Life.Update(t.Context(), driver.Policy{}); fault.Of(err) != fault.Unsupported {
				t.Errorf("a change of the limit gives %v", err)
			}
			if err := next.Life.Destroy(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestLimitThatIsNotEnforcedIsRefused(t *testing.T) {
	p := newProvider(t, t.TempDir())
	level := driver.IsolationProcess
	if os.Getuid() == 0 { // where that one is refused
		level = driver.IsolationBubblewrap
		needLevel(t, level)
	}
	p.onlyLevel = level
	spec := driver.Spec{ID: driver.NewID(), Kind: Kind, Policy: driver.Policy{Isolation: level}}
	spec.Policy.Limits = driver.Limits{driver.ResourceDisk: {Max: 1 << 20}}
	if _, err := p.Open(t.Context(), spec); fault.Of(err) != fault.Unsupported || !strings.Contains(err.Error(), "disk") {
		t.Errorf("a limit of disk gives %v", err)
	}
}

// TestLimitsHaveMinima: what nothing can run under is refused when it is asked for,
// and the minimum is named.
func TestLimitsHaveMinima(t *testing.T) {
	p := newProvider(t, t.TempDir())
	ws := open(t, p)
	for _, tt := range []struct {
		limits driver.Limits
		want   string
	}{
		{driver.Limits{driver.ResourceCPU: {Max: 9}}, "limit cpu: invalid argument: the minimum is 0.01 cores"},
		{driver.Limits{driver.ResourceMemory: {Max: 1<<20 - 1}}, "limit memory: invalid argument: the minimum is 1 MiB"},
		{driver.Limits{driver.ResourceDisk: {Max: 1}}, "limit disk: invalid argument: the minimum is 1 MiB"},
		{driver.Limits{driver.ResourceOpenFiles: {Max: 7}}, "limit openFiles: invalid argument: the minimum is 8"},
	} {
		_, err := p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: Kind, Policy: driver.Policy{Limits: tt.limits}})
		if fault.Of(err) != fault.InvalidArgument || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("open with %+v: %v; want %s", tt.limits, err, tt.want)
		}
		if _, err := ws.Life.Update(t.Context(), driver.Policy{Limits: tt.limits}); fault.Of(err) != fault.InvalidArgument || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("update to %+v: %v; want %s", tt.limits, err, tt.want)
		}
	}
}

// TestLimitsAreProvenByGoingBeyond asks each controller of this host, and one
// whose limit is out of reach.
func TestLimitsAreProvenByGoingBeyond(t *testing.T) {
	p := newProvider(t, t.TempDir())
	for _, name := range []string{"memory", "pids", "cpu"} {
		t.Run(name, func(t *testing.T) {
			need(t, limitEnforcement(name))
			if err := probeLimit(t.Context(), name, p.binary); err != nil {
				t.Errorf("the limit: %v", err)
			}
			old := probedLimits
			t.Cleanup(func() { probedLimits = old })
			probedLimits = cgroup.Limits{name: 1 << 20}
			if name == cgroup.Memory {
				probedLimits[name] = 1 << 40
			}
			if err := probeLimit(t.Context(), name, p.binary); fault.Of(err) != fault.Failed {
				t.Errorf("with a limit out of reach: %v", err)
			}
		})
	}
}

func TestDiskIsTriedWhereItMatters(t *testing.T) {
	asked := driver.Policy{Limits: driver.Limits{driver.ResourceDisk: {Max: mount.MinDisk}}}
	for name, c := range map[string]struct {
		policy driver.Policy
		brief  bool
		tried  bool
	}{
		"asked for, and soon gone": {asked, true, true},
		"asked for":                {asked, false, true},
		"a workspace that stays":   {driver.Policy{}, false, true},
		"soon gone":                {driver.Policy{}, true, false},
	} {
		got := diskEnforcement(c.policy, c.brief)
		if tried := got == diskLimit(); tried != c.tried {
			t.Errorf("%s: %+v, tried = %v, want %v", name, got, tried, c.tried)
		}
	}
}

// TestAttackSocketBuffers fills the buffers of TCP connections inside a memory limit.
func TestAttackSocketBuffers(t *testing.T) {
	need(t, limitEnforcement("memory"))
	const fill = `perl -MSocket -e '
socket(my $l, AF_INET, SOCK_STREAM, 0) or die; bind($l, pack_sockaddr_in(0, INADDR_LOOPBACK)) or die; listen($l, 1000) or die;
my ($port) = unpack_sockaddr_in(getsockname $l); my @keep; my $sum = 0; my $data = "x" x 65536;
for (1 .. 400) {
	socket(my $c, AF_INET, SOCK_STREAM, 0) or last; connect($c, pack_sockaddr_in($port, INADDR_LOOPBACK)) or last; accept(my $s, $l) or last;
	for my $f ($c, $s) { syscall(72, fileno $f, 4, 2048); while (my $n = syswrite $f, $data) { $sum += $n } }  # F_SETFL, O_NONBLOCK
	push @keep, $c, $s;
}
print $sum >> 20'`
	atEachLevel(t, func(t *testing.T, p *Provider, level driver.Isolation) {
		if level == driver.IsolationProcess {
			t.Skip("skipped: Traits: no TCP socket can be made")
		}
		verdict, most := testenv.Prevented, 32
		if level == driver.IsolationBubblewrap && !cgroup.Find(cgroup.Memory).V2 { // see its lacks
			verdict, most = testenv.NotClaimed, 100
		}
		testenv.ReportAttack(t, "TCP buffers beyond the memory limit", string(level), verdict, "")
		ws := open(t, p, limits(driver.Limits{driver.ResourceMemory: {Max: 64 << 20}}))
		res := script(t, ws, "ulimit -n 1000; "+fill)
		mib, err := strconv.Atoi(strings.TrimSpace(string(res.Stdout)))
		if res.Cause == driver.CauseOOM {
			return // they count as memory
		}
		if err != nil || mib > most {
			t.Errorf("the buffers took %s MiB (%+v)", res.Stdout, res)
		}
	})
}

// TestAttackSessionLogs writes more output than the disk limit: the logs of sessions are
// outside of the limited file system.
func TestAttackSessionLogs(t *testing.T) {
	need(t, diskLimit())
	testenv.ReportAttack(t, "session logs beyond the disk limit", string(driver.IsolationNamespaces), testenv.Prevented, "")
	p := newProvider(t, t.TempDir())
	ws := open(t, p, limits(driver.Limits{driver.ResourceDisk: {Max: 8 << 20}}))
	for range 3 {
		s, err := ws.Shell.Start(t.Context(), driver.Command{Script: "head -c 20M /dev/zero"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	logs, err := filepath.Glob(p.store.Path(idOf(t, ws), logName, "*"))
	if err != nil {
		t.Fatal(err)
	}
	var sum int64
	for _, path := range logs {
		if info, err := os.Stat(path); err == nil {
			sum += info.Size()
		}
	}
	if sum > 5<<20 { // a quarter of the limit, and the end of each stream
		t.Errorf("the logs have %d bytes with a limit of %d", sum, 8<<20)
	}
}
