package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/guest/supervise"
	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/workspace/driver"
)

// A level is one way to isolate a workspace.
type level struct {
	name    driver.Isolation
	by      string // what enforces it, for Traits
	network string // what restricts the network, for Traits
	proof   string // what a probe tests
	script  string // tests the isolation from inside: prints "isolated", or what failed
	lacks   []string
	launch  func(p *Provider, l *launch, u launchSpec) error

	mapsIDs  bool // if Croft is root, ids inside map to other ids on the host
	gvisor   bool // the guest runs in gVisor's kernel, and in the limited cgroups
	noMounts bool // no mount namespace: the workspace has the same path as on the host
}

// canOverlay reports whether workspaces of this level can use overlayfs.
func (l *level) canOverlay() bool { return !l.noMounts && l.name != driver.IsolationBubblewrap }

// netlinkUnbound returns why the netlink sockets of a workspace of this level are not bounded
// on this host, or nil.
func (l *level) netlinkUnbound(p *Provider) error {
	if l.noMounts || l.gvisor {
		return nil // it has none, or its own
	}
	return cmp.Or(p.noNotify, guestproto.SeccompNotifies())
}

// levels lists all levels, the strongest first and the fastest among equals.
var levels = []*level{
	{
		name: driver.IsolationGVisor, by: "gVisor (systrap) inside namespaces, a rootfs of its own, seccomp, no new privileges, no capabilities",
		network: "gVisor without a network but a loopback interface, and a proxy for what the policy allows",
		proof: "a guest started in gVisor; from inside, the kernel was gVisor's, a file of the host could be neither read nor written, " +
			"the system not changed, no process of the host seen",
		lacks: []string{
			"a workspace over its memory limit ends whole, not one process of it", "it has no limit of processes, and can't be paused",
			"it refuses a directory in place that contains autorun files, such as .git/config",
			"where Croft is not root, the workload is root inside, without any capability, and can end its own guest",
		},
		script: gvisorScript, launch: (*Provider).launchGVisor, mapsIDs: true, gvisor: true,
	},
	{
		name: driver.IsolationNamespaces, by: "namespaces, a rootfs of its own, seccomp, no new privileges, no capabilities",
		network: "a network namespace with nothing but a loopback interface, and a proxy for what the policy allows",
		proof: "a guest started in namespaces of its own; from inside, a file of the host could be neither read nor written, " +
			"the system not changed, no process of the host seen, and no further namespace made",
		script: namespaceScript, launch: (*Provider).launchNamespaces, mapsIDs: true,
	},
	{
		name: driver.IsolationBubblewrap, by: "namespaces made by bubblewrap, seccomp, no new privileges, no capabilities",
		network: "a network namespace with nothing but a loopback interface, and a proxy for what the policy allows",
		proof: "a guest started by bubblewrap; from inside, a file of the host could be neither read nor written, " +
			"the system not changed, no process of the host seen, and no further namespace made",
		lacks: []string{
			"it has no templates: it mounts no overlayfs",
			"on cgroup version 1, buffers of TCP sockets may exceed the memory limit by more than a quarter: by 64 KiB for each socket",
			"one workspace can use up what the kernel counts for the user who runs Croft, such as watches of files",
			"where Croft is root, the workload is root's user without any capability: it reads what only root may read below /usr, /opt and the shown part of /etc",
		},
		script: namespaceScript, launch: (*Provider).launchBubblewrap,
	},
	{
		name: driver.IsolationProcess, by: "Landlock, seccomp, no new privileges, no capabilities", network: "seccomp: no socket but a local one can be made",
		proof: "a guest started without namespaces; from inside, a file of the host could be neither read nor written, " +
			"and no socket made that reaches a network",
		lacks: []string{
			"chmod, chown, utimes and changes of extended attributes work on files outside that belong to the same user",
			"the workload sees the processes of the host, their programs and arguments",
			"the workload can change the priority, the processors and the scheduling of processes of the same user",
			"before Linux 6.12 (version 6 of Landlock) the workload can send signals to other processes of the same user",
			"the workload can use FIFOs of the host in directories that are shown",
			"where a directory of the host is shown, no process can connect to a Unix socket that was made inside",
			"if the guest is killed, a process that left its session and its environment runs on until the workspace is used or ended" +
				" (and it is found then with cgroup version 2 alone)",
			"it is refused where Croft is root: the workload would be root",
			"it has no templates, and no read-only files in a directory in place: there are no mounts",
			"the workload can make no terminals, and no System V shared memory, semaphores or queues: it would see those of the host",
		},
		script: processScript, launch: (*Provider).launchProcess, noMounts: true,
	},
}

// processScript is namespaceScript for isolation without namespaces.
const processScript = `
bait=$1
cat "$bait" 2>/dev/null && { echo "a file of the host can be read"; exit; }
(echo x > "$bait") 2>/dev/null && { echo "a file of the host can be written"; exit; }
(echo x > /usr/croft-probe) 2>/dev/null && { echo "/usr can be written"; exit; }
(exec 3<>/dev/tcp/127.0.0.1/9) 2>&1 | grep -qi 'refused' && { echo "the network is reached"; exit; }
echo x > probe && [ "$(cat probe)" = x ] || { echo "the workspace can't be written"; exit; }
grep -q '^CapEff:.*0000000000000000$' /proc/self/status || { echo "there are capabilities"; exit; }
grep -q '^Seccomp:.*2$' /proc/self/status || { echo "there is no seccomp filter"; exit; }
echo isolated
`

// gvisorScript is namespaceScript for gVisor, which has only emulated network interfaces.
const gvisorScript = `
bait=$1
grep -qi gvisor /proc/version || { echo "the kernel is the host's"; exit; }
[ "$$" -lt 1000 ] || { echo "process numbers are the host's"; exit; }
[ -e "$bait" ] && { echo "a file of the host is seen"; exit; }
[ -e "/proc/1/root$bait" ] && { echo "a file of the host is seen through /proc"; exit; }
(echo x > /usr/croft-probe) 2>/dev/null && { echo "/usr can be written"; exit; }
ls /.croft/* >/dev/null 2>&1 && { echo "the guest's own directory can be read"; exit; }
echo x > probe && [ "$(cat probe)" = x ] || { echo "the workspace can't be written"; exit; }
[ "$(tail -n +3 /proc/net/dev | grep -vc ' lo:\|lo:')" = 0 ] || { echo "there is a network"; exit; }
grep -q '^CapEff:.*0000000000000000$' /proc/self/status || { echo "there are capabilities"; exit; }
echo isolated
`

// namespaceScript gets the path of a world-writable file of the host. It starts few
// programs, because opening the first workspace waits for it.
const namespaceScript = `
bait=$1
[ "$$" -lt 1000 ] || { echo "process numbers are the host's"; exit; }
[ -e "$bait" ] && { echo "a file of the host is seen"; exit; }
[ -e "/proc/1/root$bait" ] && { echo "a file of the host is seen through /proc"; exit; }
(echo x > /usr/croft-probe) 2>/dev/null && { echo "/usr can be written"; exit; }
unshare -U true 2>/dev/null && { echo "a user namespace can be made"; exit; }
echo x > probe && read -r got < probe && [ "$got" = x ] || { echo "the workspace can't be written"; exit; }
while read -r name rest; do
	case $name in "Inter-|" | face | lo:*) ;; *) echo "there is a network"; exit ;; esac
done < /proc/net/dev
while read -r key value; do
	case $key in CapEff:) caps=$value ;; Seccomp:) seccomp=$value ;; esac
done < /proc/self/status
[ "$caps" = 0000000000000000 ] || { echo "there are capabilities"; exit; }
[ "$seccomp" = 2 ] || { echo "there is no seccomp filter"; exit; }
echo isolated
`

// probed caches, for the life of this process, the result of each level on each host, which
// is more than one in tests.
var probed sync.Map // of probeKey to *probe

type probeKey struct {
	level driver.Isolation
	host  string // see hostDigest
}

type probe struct {
	sem  chan struct{}
	done bool
	err  error
}

// levels tests every level of isolation, whatever earlier processes found, and reports
// the results.
func (p *Provider) levels(ctx context.Context) []driver.Level {
	var reports []driver.Level
	for _, l := range levels {
		lacks := l.lacks
		if err := l.netlinkUnbound(p); err != nil {
			lacks = append(lacks[:len(lacks):len(lacks)], "netlink sockets take memory of the host beyond the memory limit: "+err.Error())
		}
		r := driver.Level{Level: l.name, Works: true, Proof: l.proof, Lacks: lacks}
		if err := p.probeLevel(ctx, l, true); err != nil {
			r = driver.Level{Level: l.name, Reason: err.Error(), Lacks: lacks}
		}
		reports = append(reports, r)
	}
	return reports
}

// chooseLevel returns the first level that is at least as strong as least and passes its
// test. If there is none, the error names the levels that were tested.
func (p *Provider) chooseLevel(ctx context.Context, least driver.Isolation) (*level, error) {
	if least.Rank() < 0 {
		return nil, fault.Advise(fmt.Errorf("isolation %q: %w", least, fault.InvalidArgument), "the levels are %v", driver.Isolations)
	}
	if least == "" || least == driver.IsolationNone {
		least = p.cfg.Isolation
	}
	want := least.Rank()
	if want == 0 {
		want = driver.IsolationNamespaces.Rank()
	}
	var tried []string
	for _, l := range candidateLevels(least, want) {
		if p.onlyLevel != "" && l.name != p.onlyLevel {
			continue
		}
		err := p.probeLevel(ctx, l, false)
		if err == nil {
			return l, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		tried = append(tried, fmt.Sprintf("%s (%v)", l.name, err))
	}
	if len(tried) == 0 {
		var names []string
		for _, l := range levels {
			names = append(names, string(l.name))
		}
		err := fmt.Errorf("isolation %q: %w: this provider has only the levels %s", least, fault.Unsupported, strings.Join(names, ", "))
		return nil, fault.Advise(err, "choose one of them or another provider")
	}
	if _, err := p.binary(); err != nil { // then every level fails for it
		return nil, err
	}
	subject := "isolation"
	if least != "" {
		subject = fmt.Sprintf("isolation %q", least)
	}
	err := fmt.Errorf("%s: %w: tried %s%s", subject, fault.Unsupported, strings.Join(tried, "; "), p.weakerChoice(ctx, want))
	return nil, fault.WithHint(err, fault.HintDoctor)
}

// candidateLevels lists the levels of at least a rank: first the named one, then the
// others from the weakest, which is the fastest.
func candidateLevels(named driver.Isolation, rank int) []*level {
	var list []*level
	for _, l := range levels {
		if l.name.Rank() >= rank {
			list = append(list, l)
		}
	}
	slices.SortStableFunc(list, func(a, b *level) int {
		if (a.name == named) != (b.name == named) {
			if a.name == named {
				return -1
			}
			return 1
		}
		return a.name.Rank() - b.name.Rank()
	})
	return list
}

// probeLevel tests a level, once per process. Concurrent callers wait for the one that
// runs the test. A test that an earlier process made is enough, unless anew.
func (p *Provider) probeLevel(ctx context.Context, l *level, anew bool) error {
	host, err := p.digest()
	if err != nil {
		return err
	}
	v, _ := probed.LoadOrStore(probeKey{l.name, host}, &probe{sem: make(chan struct{}, 1)})
	pr := v.(*probe) // nothing else is stored
	select {
	case pr.sem <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-pr.sem }()
	if pr.done {
		return pr.err
	}
	if !anew && p.proofs.has(l, host) {
		return nil
	}
	if p.beforeTest != nil {
		p.beforeTest()
	}
	err = explainRefusal(l, p.testLevel(ctx, l))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil {
		p.proofs.record(l, host)
	}
	pr.done, pr.err = true, err
	return err
}

// testLevel starts a guest at a level and runs the level's script in it.
func (p *Provider) testLevel(ctx context.Context, l *level) error {
	dir, err := newProbeDir()
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	files, bait := filepath.Join(dir, "files"), filepath.Join(dir, "bait")
	if err := errors.Join(os.Mkdir(files, 0o755), os.WriteFile(bait, []byte("bait"), 0o600), os.Chmod(bait, 0o666)); err != nil {
		return err
	}
	u := launchSpec{level: l, id: "probe", files: files, guestDir: guestWorkspaceDir, user: workloadName, throwaway: true}
	if l.noMounts {
		u.guestDir, u.tmp = files, filepath.Join(dir, tmpName)
		if err := os.Mkdir(u.tmp, 0o700); err != nil {
			return err
		}
	}
	start := new(launch)
	defer start.close()
	if err := l.launch(p, start, u); err != nil {
		return err
	}
	start.Config.Version, start.ServingConfig().Version = "probe", "probe"
	r, err := start.Start(ctx)
	if err != nil {
		return err
	}
	if l.name == driver.IsolationNamespaces { // the PID namespace ends with the guest
		defer r.Kill()
	} else {
		defer r.End(context.WithoutCancel(ctx)) //nolint:errcheck // it is killed
	}
	res, err := r.Shell().Run(ctx, driver.Command{Argv: []string{"bash", "-c", l.script, "probe", bait}, Timeout: time.Minute})
	if err != nil {
		return err
	}
	if out := strings.TrimSpace(string(res.Stdout)); out != "isolated" {
		return fmt.Errorf("the isolation test failed: %q (exit %d, %q): %w", out, res.ExitCode, res.Stderr, fault.Failed)
	}
	return nil
}

// levelTraits returns the traits of a level on this host. disk says how a disk limit is
// enforced.
func (p *Provider) levelTraits(l *level, disk driver.Enforcement) driver.Traits {
	t := driver.Traits{
		Isolation:  l.name,
		IsolatedBy: driver.Enforcement{By: l.by},
		Network:    driver.NetworkPolicy,
		NetworkBy:  driver.Enforcement{By: l.network},
		Limits:     driver.NoLimits("the sandbox does not limit this"),
		ReadOnly:   driver.Enforcement{By: "a read-only mount, and checks before each change"},
		Durability: driver.DurablePower,
		Streaming:  true,
		InPlace:    true,

		CopyOnWrite: "overlay",
	}
	for _, r := range []driver.Resource{driver.ResourceCPU, driver.ResourceMemory, driver.ResourcePIDs} {
		t.Limits[r] = limitEnforcement(string(r))
	}
	if err := l.netlinkUnbound(p); err != nil && t.Limits[driver.ResourceMemory].Enforced() {
		t.Limits[driver.ResourceMemory] = driver.Enforcement{By: t.Limits[driver.ResourceMemory].By + "; netlink sockets are not counted: " + err.Error()}
	}
	t.Limits[driver.ResourceDisk] = disk
	t.Limits[driver.ResourceWall] = driver.Enforcement{By: "the guest, which kills the whole process tree"}
	t.Limits[driver.ResourceOpenFiles] = driver.Enforcement{By: "a hard resource limit of each process"}
	if l.noMounts {
		t.Network = driver.NetworkNone
		t.ReadOnly = driver.Enforcement{Reason: "without mounts nothing keeps a process from changing modes"}
	}
	if l.gvisor {
		t.Limits[driver.ResourcePIDs] = driver.Enforcement{Reason: "processes are gVisor's own, which the host does not count"}
	}
	if !l.mapsIDs {
		t.CopyOnWrite = ""
		t.Limits[driver.ResourceDisk] = driver.Enforcement{Reason: "a plain directory has no quota"}
	}
	return t
}

const probePrefix = "croft-probe-"

// newProbeDir creates a directory for a probe. Its name has the id and the start time of
// this process, since process ids are reused.
func newProbeDir() (string, error) {
	pid := os.Getpid()
	start, err := supervise.StartTime(pid)
	if err != nil {
		return "", err
	}
	return os.MkdirTemp("", fmt.Sprintf("%s%d.%s-", probePrefix, pid, start))
}

// cleanProbes removes the probe directories of processes that have died.
func cleanProbes() error {
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), probePrefix+"*-*"))
	if err != nil {
		return err
	}
	var errs error
	for _, dir := range dirs {
		owner, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), probePrefix), "-")
		if !probeOwnerDead(owner) {
			continue
		}
		if err := os.RemoveAll(dir); err != nil && !errors.Is(err, os.ErrPermission) { // another user's
			errs = errors.Join(errs, err)
		}
	}
	return errs
}

// probeOwnerDead reports whether the process in the name of a probe directory has ended.
func probeOwnerDead(owner string) bool {
	number, start, known := strings.Cut(owner, ".")
	pid, err := strconv.Atoi(number)
	if err != nil {
		return false
	}
	if errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
		return true
	}
	now, err := supervise.StartTime(pid)
	return known && err == nil && now != start
}

// A hostState is what decides whether this process may make user namespaces.
type hostState struct {
	root     bool // Croft is root
	readFile func(path string) ([]byte, error)
}

// namespaceRemedy says why the kernel refuses user namespaces, and what to run. It is ""
// if no known cause applies.
func (h hostState) namespaceRemedy() string {
	setting := func(name string) string {
		data, err := h.readFile("/proc/sys/" + strings.ReplaceAll(name, ".", "/"))
		if err != nil {
			return "" // this kernel does not have it
		}
		return strings.TrimSpace(string(data))
	}
	for _, cause := range []struct {
		name, refuses, set string
		why                string
		all                bool   // it refuses root, too
		first              string // a better remedy
	}{
		{"user.max_user_namespaces", "0", "15000", "this host allows no user namespaces", true, ""},
		{"kernel.unprivileged_userns_clone", "0", "1", "this kernel allows user namespaces to root alone", false, ""},
		{"kernel.apparmor_restrict_unprivileged_userns", "1", "0", "AppArmor restricts user namespaces of ordinary users, as Ubuntu sets it", false, loadProfile},
	} {
		if setting(cause.name) == cause.refuses && (cause.all || !h.root) {
			return fmt.Sprintf("%s (%s is %s); to allow them%s, run: sudo sysctl -w %[2]s=%[5]s", cause.why, cause.name, cause.refuses, cause.first, cause.set)
		}
	}
	if status, err := h.readFile("/proc/self/status"); err == nil && strings.Contains(string(status), "\nSeccomp:\t2\n") {
		return "a seccomp filter, such as that of a container, refuses user namespaces; to allow them, start the container with: --security-opt seccomp=unconfined"
	}
	return ""
}

// loadProfile allows user namespaces to croft alone. The sysctl that follows it allows them to
// every program, until the next boot.
const loadProfile = " to croft, run: croft doctor --apparmor | sudo tee /etc/apparmor.d/croft && sudo apparmor_parser -r /etc/apparmor.d/croft; to allow them to every program"

// explainRefusal adds the remedy to an error of a level that needs user namespaces.
func explainRefusal(l *level, err error) error {
	if err == nil || l.noMounts || !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EUSERS) {
		return err
	}
	if remedy := (hostState{os.Geteuid() == 0, os.ReadFile}).namespaceRemedy(); remedy != "" {
		return fmt.Errorf("%w: %s", err, remedy)
	}
	return err
}

// weakerChoice names the strongest level below a rank that works on this host, for an
// error.
func (p *Provider) weakerChoice(ctx context.Context, rank int) string {
	for _, l := range levels {
		if l.name.Rank() < rank && p.probeLevel(ctx, l, false) == nil {
			scope := ""
			if l.noMounts {
				scope = ", but neither for the work of an agent nor for a template"
			}
			return fmt.Sprintf("; weaker isolation works here%s: %s", scope, l.name)
		}
	}
	if rank > driver.IsolationProcess.Rank() {
		return "; no weaker isolation works here"
	}
	return ""
}
