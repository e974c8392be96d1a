package docker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/host/files"
	"github.com/croft-run/croft/internal/atomicfile"
	"github.com/croft-run/croft/workspace/driver"
)

// A fact is what was proven of an engine with one of its runtimes: it is not
// known from what the engine says of itself.
type fact struct {
	Proof   int    `json:"proof"`   // version of what was tried
	Runtime string `json:"runtime"` // "" is the engine's default
	UID     int    `json:"uid"`     // of the workload inside
	Outside int    `json:"outside"` // of the same on this host
	Kernel  bool   `json:"kernel"`  // the runtime has a kernel of its own: gVisor
	Volume  bool   `json:"volume"`  // with files on a volume, which this host does not see
	Apart   bool   `json:"apart"`   // nothing can be mounted: the engine does not see this host's files

	info Info
}

// proofVersion changes with what is tried.
const proofVersion = 3

// gvisorRuntime is how an engine is told of gVisor by those who follow its manual.
const gvisorRuntime = "runsc"

// runtime chooses what runs a workspace.
func (p *Provider) runtime(ctx context.Context, policy driver.Policy, opts options) (string, error) {
	runtime := opts.Runtime
	if runtime == "" {
		runtime = p.cfg.Runtime
	}
	if policy.Isolation.Rank() > driver.IsolationGVisor.Rank() {
		return "", fmt.Errorf("isolation %q: %w: a container gives %q, and %q with the runtime %s", policy.Isolation, fault.Unsupported,
			driver.IsolationContainer, driver.IsolationGVisor, gvisorRuntime)
	}
	if runtime == "" && policy.Isolation.Rank() >= driver.IsolationGVisor.Rank() {
		runtime = gvisorRuntime
	}
	if runtime == "" {
		return "", nil
	}
	info, err := p.describe(ctx)
	if err != nil {
		return "", err
	}
	if !slices.Contains(info.Runtimes, runtime) {
		return "", fmt.Errorf("runtime %q: %w: the engine has %s", runtime, fault.Unsupported, strings.Join(info.Runtimes, ", "))
	}
	return runtime, nil
}

// take takes the turn to use what is known of the engine.
func (p *Provider) take(ctx context.Context) (give func(), err error) {
	select {
	case p.turn <- struct{}{}:
		return func() { <-p.turn }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("docker: %w", ctx.Err())
	}
}

// describe asks the engine what it is, once per process.
func (p *Provider) describe(ctx context.Context) (Info, error) {
	give, err := p.take(ctx)
	if err != nil {
		return Info{}, err
	}
	defer give()
	return p.describeLocked(ctx)
}

func (p *Provider) describeLocked(ctx context.Context) (Info, error) {
	if p.info != nil {
		return *p.info, nil
	}
	soon, cancel := context.WithTimeout(ctx, p.cfg.AnswerTimeout)
	defer cancel()
	info, err := p.engine.Info(soon)
	if err != nil {
		return Info{}, p.hung(ctx, err)
	}
	p.info = &info
	return info, nil
}

// prove returns what is proven of the engine with a runtime, and with files in one
// place or the other: from memory, from the cache, or by trying.
func (p *Provider) prove(ctx context.Context, runtime string, volume bool) (*fact, error) {
	f, err := p.proven(ctx, runtime, volume)
	if err == nil && f.Apart {
		return nil, fmt.Errorf("docker: try the engine: %w", errNotShared)
	}
	return f, err
}

func (p *Provider) proven(ctx context.Context, runtime string, volume bool) (*fact, error) {
	give, err := p.take(ctx)
	if err != nil {
		return nil, err
	}
	defer give()
	key := fmt.Sprint(runtime, volume)
	if f := p.facts[key]; f != nil {
		return f, nil
	}
	info, err := p.describeLocked(ctx)
	if err != nil {
		return nil, err
	}
	path, err := p.proofPath(info, key)
	if err != nil {
		return nil, err
	}
	f := readProof(path, runtime, volume)
	if f == nil {
		if f, err = p.try(ctx, info, runtime, volume); err != nil {
			return nil, err
		}
		data, err := json.Marshal(f)
		if err == nil {
			err = atomicfile.Write(path, data, atomicfile.Options{})
		}
		if err != nil {
			return nil, fmt.Errorf("docker: keep what was proven: %w: %w", fault.Of(err), err)
		}
	}
	f.info = info
	p.facts[key] = f
	return f, nil
}

// proofPath names the file of a proof by all that it depends on.
func (p *Provider) proofPath(info Info, key string) (string, error) {
	bin, err := p.binary()
	if err != nil {
		return "", fmt.Errorf("docker: %w", err)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", []string{
		info.ID, info.Name, key, bin.Version, fmt.Sprint(os.Geteuid(), p.cfg.UIDBase, info.UserNS, info.Rootless, p.ground.Boot()),
	}))
	return p.cachePath("proof-" + hex.EncodeToString(sum[:8]))
}

func readProof(path, runtime string, volume bool) *fact {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	f := new(fact)
	if driver.DecodeStrict(data, f) != nil || f.Proof != proofVersion || f.Runtime != runtime || f.Volume != volume {
		return nil
	}
	return f
}

// user is the workload's id inside: one that owns nothing on this host where that
// can be had, and else one that this process can share files with.
func (p *Provider) user(info Info, volume bool) int {
	const workload = 1000
	switch {
	case volume && (info.UserNS || info.Rootless):
		return workload
	case volume:
		return p.cfg.UIDBase + workload
	case info.Rootless && os.Geteuid() != 0:
		return 0 // which is this very user outside
	case os.Geteuid() != 0:
		return os.Geteuid()
	case info.UserNS || info.Rootless:
		return workload
	}
	return p.cfg.UIDBase + workload
}

const (
	probePrefix = "probe-"
	probeLock   = "probe.lock"
	probeID     = "probe" // in place of a workspace's
)

// fenceScript tries the fence from inside. It is given a file of the host that
// everybody may write.
const fenceScript = `
bait=$1
[ "$$" -lt 1000 ] || { echo "process numbers are the host's"; exit; }
[ -e "$bait" ] && { echo "a file of the host is seen"; exit; }
[ -e "/proc/1/root$bait" ] && { echo "a file of the host is seen through /proc"; exit; }
(echo x > /usr/croft-probe) 2>/dev/null && { echo "/usr can be written"; exit; }
for s in /var/run/docker.sock /run/docker.sock /run/podman/podman.sock; do [ -e $s ] && { echo "the socket of an engine is seen"; exit; }; done
[ "$2" = closed ] && ls /.croft/ >/dev/null 2>&1 && { echo "the guest's own directory can be read"; exit; }
echo x > probe && [ "$(cat probe)" = x ] || { echo "the workspace can't be written"; exit; }
[ "$(tail -n +3 /proc/net/dev | grep -vc 'lo:')" = 0 ] || { echo "there is a network"; exit; }
grep -q '^CapEff:.*0000000000000000$' /proc/self/status || { echo "there are capabilities"; exit; }
grep -qi gvisor /proc/version && { echo kernel; exit; }
grep -q '^Seccomp:.*2$' /proc/self/status || { echo "there is no seccomp filter"; exit; }
grep -q '^NoNewPrivs:.*1$' /proc/self/status || { echo "there may be new privileges"; exit; }
echo held
`

// try starts a container and lets it try the fence.
func (p *Provider) try(ctx context.Context, info Info, runtime string, volume bool) (*fact, error) {
	f := &fact{Proof: proofVersion, Runtime: runtime, Volume: volume, UID: p.user(info, volume), info: info}
	err := p.aside(ctx, func(dir string) error { return p.tryIn(ctx, dir, f) })
	if notShared(err) && !volume {
		f.Apart = true
		return f, nil
	}
	if err != nil {
		return nil, fmt.Errorf("docker: try the engine: %w", err)
	}
	return f, nil
}

func (p *Provider) tryIn(ctx context.Context, dir string, f *fact) error {
	files, bait := filepath.Join(dir, "files"), filepath.Join(dir, "bait")
	if err := errors.Join(os.Mkdir(files, 0o755), os.Chmod(files, 0o777), os.WriteFile(bait, []byte("bait"), 0o600), os.Chmod(bait, 0o666)); err != nil { // it is bait
		return err
	}
	f.Outside = -1 // not known yet: whoever it is may write
	u := &launch{
		dir: dir, id: probeID, name: namePrefix + filepath.Base(dir), image: p.cfg.Image, files: files, fact: f, key: probeID, autoRemove: true,
		policy: driver.Policy{}, lease: time.Minute,
	}
	if f.Volume {
		done, err := p.probeVolume(ctx, u)
		if err != nil {
			return err
		}
		defer done()
	}
	c, err := p.start(ctx, u)
	defer p.removeUnit(ctx, u.name) //nolint:errcheck // it removes itself, or is swept
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // nothing is lost with it
	closed := ""
	if os.Geteuid() == 0 || f.Volume {
		closed = "closed" // see launch.seal, and ensureOwn
	}
	res, err := c.Shell().Run(ctx, driver.Command{Argv: []string{"sh", "-c", fenceScript, "probe", bait, closed}, Timeout: p.cfg.AnswerTimeout})
	if err != nil {
		return err
	}
	said := strings.TrimSpace(string(res.Stdout))
	if said != "held" && said != "kernel" {
		return fmt.Errorf("the fence does not hold: %q (exit %d, %q): %w", said, res.ExitCode, res.Stderr, fault.Failed)
	}
	f.Kernel = said == "kernel"
	if f.Volume {
		return nil
	}
	return f.learn(filepath.Join(files, "probe"))
}

// learn finds out who the workload is outside, by what it made.
func (f *fact) learn(made string) error {
	info, err := os.Lstat(made)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return errors.New("no owner is known")
	}
	f.Outside = int(st.Uid)
	switch euid := os.Geteuid(); {
	case euid == 0 && f.Outside == 0:
		return fmt.Errorf("files that are made inside belong to root outside: %w", fault.Failed)
	case euid != 0 && f.Outside != euid:
		return fmt.Errorf("files that are made inside belong to user %d outside, and this process is %d: %w: it can't share them", f.Outside, euid, fault.Unsupported)
	}
	return nil
}

// give makes a file or directory belong to the workload.
func (f *fact) give(path string) error {
	if os.Geteuid() != 0 {
		return nil // it is this user
	}
	return os.Lchown(path, f.Outside, f.Outside)
}

// fence opens the files of a workspace. Changes are made by a thread that is the
// workload for files, who can't read what the gate looks at.
func (f *fact) fence(dir string, opts *files.Options) (*files.Root, error) {
	if os.Geteuid() == 0 {
		opts.Commit = files.GuardAsProcess(opts.Commit)
	}
	return files.Open(dir, opts)
}

// traitsOf says what a container gives.
func (p *Provider) traitsOf(f *fact) driver.Traits {
	by := f.info.Name + ": namespaces, a read-only root, seccomp, no new privileges, no capabilities, a user of its own"
	t := driver.Traits{
		Isolation:   driver.IsolationContainer,
		IsolatedBy:  driver.Enforcement{By: by},
		Network:     driver.NetworkPolicy,
		NetworkBy:   driver.Enforcement{By: "a container without a network but a loopback interface, and a proxy for what the policy allows"},
		Limits:      driver.NoLimits("containers have nothing that bounds it"),
		ReadOnly:    driver.Enforcement{By: "a read-only mount, and the boundary"},
		Durability:  driver.DurablePower,
		Streaming:   true,
		CopyOnWrite: "copy",
	}
	t.Limits[driver.ResourceCPU] = has(f.info.CPU, "cpu")
	t.Limits[driver.ResourceMemory] = has(f.info.Memory && f.info.Swap, "memory and swap")
	t.Limits[driver.ResourcePIDs] = has(f.info.PIDs, "pids")
	t.Limits[driver.ResourceDisk] = driver.Enforcement{Reason: "a directory of the host that is mounted has no quota"}
	t.Limits[driver.ResourceWall] = driver.Enforcement{By: "the guest, which ends the whole tree"}
	t.Limits[driver.ResourceOpenFiles] = driver.Enforcement{By: "a hard resource limit of each process"}
	if f.Volume {
		t.Limits[driver.ResourceDisk] = driver.Enforcement{Reason: "a volume of the engine has no quota"}
		t.Durability = driver.DurableProcess
	}
	if f.Kernel {
		t.Isolation = driver.IsolationGVisor
		t.IsolatedBy.By = f.info.Name + " with gVisor: a kernel in user space, a read-only root, no capabilities, a user of its own"
		t.Limits[driver.ResourcePIDs] = driver.Enforcement{Reason: "processes are gVisor's own, which the host does not count"}
	}
	return t
}

func has(yes bool, what string) driver.Enforcement {
	if yes {
		return driver.Enforcement{By: "control groups, by the engine"}
	}
	return driver.Enforcement{Reason: "the engine says that it can't limit " + what}
}
