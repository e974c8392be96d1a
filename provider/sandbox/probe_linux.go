package sandbox

import (
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
	"github.com/croft-run/croft/host/guest/supervise"
	"github.com/croft-run/croft/workspace/driver"
)

// A level is one way to put up a fence.
type level struct {
	name    driver.Isolation
	by      string // what enforces it, for Traits
	network string // what keeps the network away, for Traits
	proof   string // what a probe tries
	script  string // tries the fence from inside: prints "held" if it holds
	lacks   []string
	launch  func(p *Provider, l *launch, u launchSpec) error

	mapped bool // where Croft is root, ids inside are others outside
	kernel bool // the guest is in a kernel of its own, and in the limit groups
	plain  bool // the workspace is where it is on the host, and there are no mounts
}

// overlays reports whether workspaces of this level can lie over a directory.
func (l *level) overlays() bool { return !l.plain && l.name != driver.IsolationBubblewrap }

// levels lists what there is, the strongest first and the fastest among equals.
var levels = []*level{
	{
		name: driver.IsolationGVisor, by: "gVisor (systrap) inside namespaces, a root of its own, seccomp, no new privileges, no capabilities",
		network: "gVisor without a network but a loopback interface, and a proxy for what the policy allows",
		proof: "a guest started in gVisor; from inside, the kernel was gVisor's, a file of the host could be neither read nor written, " +
			"the system not changed, no process of the host seen",
		lacks: []string{
			"over its memory limit everything that runs in the workspace ends, not one process", "no limit of processes, and no pause",
			"no directory in place that holds files which others run later, such as .git/config",
			"where Croft is not root, the workload is root inside, without any capability, and can end its own guest",
		},
		script: gvisorScript, launch: (*Provider).gvisor, mapped: true, kernel: true,
	},
	{
		name: driver.IsolationNamespaces, by: "namespaces, a root of its own, seccomp, no new privileges, no capabilities",
		network: "a network namespace with nothing but a loopback interface, and a proxy for what the policy allows",
		proof: "a guest started in namespaces of its own; from inside, a file of the host could be neither read nor written, " +
			"the system not changed, no process of the host seen, and no further namespace made",
		script: namespaceScript, launch: (*Provider).namespaces, mapped: true,
	},
	{
		name: driver.IsolationBubblewrap, by: "namespaces made by bubblewrap, seccomp, no new privileges, no capabilities",
		network: "a network namespace with nothing but a loopback interface, and a proxy for what the policy allows",
		proof: "a guest started by bubblewrap; from inside, a file of the host could be neither read nor written, " +
			"the system not changed, no process of the host seen, and no further namespace made",
		lacks: []string{
			"no template: it mounts no overlay",
			"what the kernel counts for the user who runs Croft, such as watches of files, can be used up by one workspace",
			"where Croft is root, the workload is root's user without any capability: it reads what only root may read below /usr, /opt and the shown part of /etc",
		},
		script: namespaceScript, launch: (*Provider).bubblewrap,
	},
	{
		name: driver.IsolationProcess, by: "Landlock, seccomp, no new privileges, no capabilities", network: "seccomp: no socket but a local one can be made",
		proof: "a guest started without namespaces; from inside, a file of the host could be neither read nor written, " +
			"and no socket made that reaches a network",
		lacks: []string{
			"chmod, chown, utimes and extended attributes of files outside, where their owner is the same user",
			"seeing that processes of the host exist, and which programs they run with which arguments",
			"changing the priority, the processors and the scheduling of processes of the same user",
			"connecting to local sockets of the host that the same user may use, by their path",
			"before Linux 6.12 (version 6 of Landlock): signals to other processes of the same user, and their abstract sockets",
			"a process that leaves its session and its environment outlives a guest that is killed, until the workspace is used or ended" +
				" (and there by a group of cgroup version 2 alone)",
			"no template, and no read-only files in a directory in place: there are no mounts",
			"no terminals and no System V shared memory, semaphores or queues made by what runs inside: the host's would be among them",
		},
		script: processScript, launch: (*Provider).process, plain: true,
	},
}

// processScript is namespaceScript for a fence without namespaces.
const processScript = `
bait=$1
cat "$bait" 2>/dev/null && { echo "a file of the host can be read"; exit; }
(echo x > "$bait") 2>/dev/null && { echo "a file of the host can be written"; exit; }
(echo x > /usr/croft-probe) 2>/dev/null && { echo "/usr can be written"; exit; }
(exec 3<>/dev/tcp/127.0.0.1/9) 2>&1 | grep -qi 'refused' && { echo "the network is reached"; exit; }
echo x > probe && [ "$(cat probe)" = x ] || { echo "the workspace can't be written"; exit; }
grep -q '^CapEff:.*0000000000000000$' /proc/self/status || { echo "there are capabilities"; exit; }
grep -q '^Seccomp:.*2$' /proc/self/status || { echo "there is no seccomp filter"; exit; }
echo held
`

// gvisorScript is namespaceScript for a kernel in user space, which knows no
// network interface beyond what it makes up.
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
echo held
`

// namespaceScript is given a file of the host that everybody may write. It starts
// as few programs as it can: whoever opens the first workspace waits for it.
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
echo held
`

// probed remembers, for the life of this process, what was found at each level
// with each guest.
var probed sync.Map // of probeKey to *probe

type probeKey struct {
	level   driver.Isolation
	version string
}

type probe struct {
	turn chan struct{}
	done bool
	err  error
}

// Levels reports on every level of isolation, by trying it.
func (p *Provider) Levels(ctx context.Context) []LevelReport {
	var reports []LevelReport
	for _, l := range levels {
		r := LevelReport{Level: l.name, Works: true, Proof: l.proof, Lacks: l.lacks}
		if err := p.try(ctx, l); err != nil {
			r = LevelReport{Level: l.name, Reason: err.Error(), Lacks: l.lacks}
		}
		reports = append(reports, r)
	}
	return reports
}

// choose returns the first level that is proven and meets the least one. Without
// one it fails, naming what was tried.
func (p *Provider) choose(ctx context.Context, least driver.Isolation) (*level, error) {
	if least.Rank() < 0 {
		return nil, fmt.Errorf("isolation %q: %w: the levels are %v", least, fault.InvalidArgument, driver.Isolations)
	}
	if least == "" || least == driver.IsolationNone {
		least = p.cfg.Isolation
	}
	want := least.Rank()
	if want == 0 {
		want = driver.IsolationNamespaces.Rank()
	}
	var tried []string
	for _, l := range candidates(least, want) {
		if p.only != "" && l.name != p.only {
			continue
		}
		err := p.try(ctx, l)
		if err == nil {
			return l, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		tried = append(tried, fmt.Sprintf("%s (%v)", l.name, err))
	}
	if len(tried) == 0 {
		return nil, fmt.Errorf("isolation %q: %w: this provider has no level as strong", least, fault.Unsupported)
	}
	hint := ""
	if want > driver.IsolationNamespaces.Rank() {
		hint = "; isolation \"namespaces\" is a lesser choice"
	} else if want > driver.IsolationProcess.Rank() {
		hint = "; isolation \"process\" is a lesser choice"
	}
	return nil, fmt.Errorf("isolation %q: %w: tried %s%s", least, fault.Unsupported, strings.Join(tried, "; "), hint)
}

// candidates lists the levels that meet a rank: first the level that was named,
// if one was, then the others from the weakest, which is the fastest.
func candidates(named driver.Isolation, rank int) []*level {
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

// try proves a level, once per process.
func (p *Provider) try(ctx context.Context, l *level) error {
	bin, err := p.binary()
	if err != nil {
		return err
	}
	v, _ := probed.LoadOrStore(probeKey{l.name, bin.Version}, &probe{turn: make(chan struct{}, 1)})
	pr := v.(*probe) // nothing else is stored
	select {
	case pr.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-pr.turn }()
	if pr.done {
		return pr.err
	}
	err = p.prove(ctx, l)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	pr.done, pr.err = true, err
	return err
}

// prove starts a guest at a level and lets it try the fence.
func (p *Provider) prove(ctx context.Context, l *level) error {
	dir, err := probeDir()
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) // nothing of worth is in it
	files, bait := filepath.Join(dir, "files"), filepath.Join(dir, "bait")
	if err := errors.Join(os.Mkdir(files, 0o755), os.WriteFile(bait, []byte("bait"), 0o600), os.Chmod(bait, 0o666)); err != nil { // it is bait
		return err
	}
	u := launchSpec{level: l, id: "probe", files: files, inside: inside, throwaway: true}
	if l.plain {
		u.inside, u.tmp = files, filepath.Join(dir, tmpName)
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
	if l.name == driver.IsolationNamespaces { // all that it runs ends with it
		defer r.Kill()
	} else {
		defer r.End(context.WithoutCancel(ctx)) //nolint:errcheck // it is killed
	}
	res, err := r.Shell().Run(ctx, driver.Command{Argv: []string{"bash", "-c", l.script, "probe", bait}, Timeout: time.Minute})
	if err != nil {
		return err
	}
	if said := strings.TrimSpace(string(res.Stdout)); said != "held" {
		return fmt.Errorf("the fence does not hold: %q (exit %d, %q): %w", said, res.ExitCode, res.Stderr, fault.Failed)
	}
	return nil
}

// traitsOf says what a level gives on this host; disk is how a limit of that is kept.
func (p *Provider) traitsOf(l *level, disk driver.Enforcement) driver.Traits {
	t := driver.Traits{
		Isolation:  l.name,
		IsolatedBy: driver.Enforcement{By: l.by},
		Network:    driver.NetworkPolicy,
		NetworkBy:  driver.Enforcement{By: l.network},
		Limits:     driver.NoLimits("the sandbox has nothing that bounds it"),
		ReadOnly:   driver.Enforcement{By: "a read-only mount, and the boundary"},
		Durability: driver.DurablePower,
		Streaming:  true,
		InPlace:    true,

		CopyOnWrite: "overlay",
	}
	for _, r := range []driver.Resource{driver.ResourceCPU, driver.ResourceMemory, driver.ResourcePIDs} {
		t.Limits[r] = limited(string(r))
	}
	t.Limits[driver.ResourceDisk] = disk
	t.Limits[driver.ResourceWall] = driver.Enforcement{By: "the guest, which ends the whole tree"}
	t.Limits[driver.ResourceOpenFiles] = driver.Enforcement{By: "a hard resource limit of each process"}
	if l.plain {
		t.Network = driver.NetworkNone
		t.ReadOnly = driver.Enforcement{Reason: "without mounts nothing keeps a process from changing modes"}
	}
	if l.kernel {
		t.Limits[driver.ResourcePIDs] = driver.Enforcement{Reason: "processes are gVisor's own, which the host does not count"}
	}
	if !l.mapped {
		t.CopyOnWrite = ""
		t.Limits[driver.ResourceDisk] = driver.Enforcement{Reason: "a plain directory has no quota"}
	}
	return t
}

const probePrefix = "croft-probe-"

// probeDir makes a directory for a probe, whose name tells who made it: the number
// of a process, and when that started, since numbers are used again.
func probeDir() (string, error) {
	pid := os.Getpid()
	start, err := supervise.StartTime(pid)
	if err != nil {
		return "", err
	}
	return os.MkdirTemp("", fmt.Sprintf("%s%d.%s-", probePrefix, pid, start))
}

// cleanProbes removes directories of probes whose process has died meanwhile.
func cleanProbes() error {
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), probePrefix+"*-*"))
	if err != nil {
		return err
	}
	var errs error
	for _, dir := range dirs {
		owner, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), probePrefix), "-")
		if !dead(owner) {
			continue
		}
		if err := os.RemoveAll(dir); err != nil && !errors.Is(err, os.ErrPermission) { // another user's is its own to remove
			errs = errors.Join(errs, err)
		}
	}
	return errs
}

// dead reports whether the process that the name of a probe tells of has ended.
func dead(owner string) bool {
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
