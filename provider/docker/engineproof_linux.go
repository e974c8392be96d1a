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
	"github.com/croft-run/croft/internal/atomicfile"
	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/workspace/driver"
)

// An engineProof is the result of testing an engine with one of its runtimes. The engine's
// own description does not tell it.
type engineProof struct {
	Proof        int    `json:"proof"`        // version of the test
	Runtime      string `json:"runtime"`      // "" is the engine's default
	UID          int    `json:"uid"`          // of the workload, inside
	HostUID      int    `json:"hostUID"`      // of the workload, on this host
	GVisor       bool   `json:"gvisor"`       // the runtime is gVisor
	Volume       bool   `json:"volume"`       // files are on a volume, which this host does not see
	NoHostMounts bool   `json:"noHostMounts"` // the engine does not see files of this host, and can't mount them

	info  Info
	image string // in which it was tested, and in which volumes are filled
}

// proofVersion changes with what is tested.
const proofVersion = 4

// gvisorRuntime is the runtime name of gVisor in its installation guide.
const gvisorRuntime = "runsc"

// chooseRuntime returns the runtime for a policy; "" is the engine's default.
func (p *Provider) chooseRuntime(ctx context.Context, policy driver.Policy, opts Options) (string, error) {
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
	info, err := p.engineInfo(ctx)
	if err != nil {
		return "", err
	}
	if !slices.Contains(info.Runtimes, runtime) {
		return "", fmt.Errorf("runtime %q: %w: the engine has %s", runtime, fault.Unsupported, strings.Join(info.Runtimes, ", "))
	}
	return runtime, nil
}

// lockInfo locks info and proofs. Waiting ends with the context.
func (p *Provider) lockInfo(ctx context.Context) (unlock func(), err error) {
	select {
	case p.sem <- struct{}{}:
		return func() { <-p.sem }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("docker: %w", ctx.Err())
	}
}

// engineInfo returns the engine's description, which it requests once per process, or with Podman
// once an hour, as that takes most of the time of a short command there.
func (p *Provider) engineInfo(ctx context.Context) (Info, error) {
	unlock, err := p.lockInfo(ctx)
	if err != nil {
		return Info{}, err
	}
	defer unlock()
	return p.engineInfoLocked(ctx)
}

func (p *Provider) engineInfoLocked(ctx context.Context) (Info, error) {
	if p.info != nil {
		return *p.info, nil
	}
	path, socket, err := p.infoPath()
	if err != nil {
		return Info{}, err
	}
	if p.info = readInfo(path, socket); p.info != nil {
		return *p.info, nil
	}
	soon, cancel := context.WithTimeout(ctx, p.cfg.AnswerTimeout)
	defer cancel()
	info, err := p.engine.Info(soon)
	if err != nil {
		return Info{}, p.engineTimeout(ctx, err)
	}
	p.info = &info
	if info.Podman && socket != "" {
		data, err := json.Marshal(keptInfo{socket, info})
		if err == nil {
			err = atomicfile.Write(path, data, atomicfile.Options{})
		}
		if err != nil { // it is asked again
			p.log.Warn("docker: keep the description of the engine", "error", err)
		}
	}
	return info, nil
}

// A keptInfo is the description of an engine that was asked before.
type keptInfo struct {
	Socket string // identifies the socket that the engine listened on: with another, the engine was started since
	Info   Info
}

// infoPath returns where the description of the engine is kept, and what identifies its socket; ""
// if it has none on this host.
func (p *Provider) infoPath() (path, socket string, err error) {
	e, ok := p.engine.(*remoteEngine)
	if !ok {
		return "", "", nil
	}
	name, local := strings.CutPrefix(e.c.DaemonHost(), "unix://")
	var st syscall.Stat_t
	if !local || syscall.Stat(name, &st) != nil {
		return "", "", nil
	}
	sum := sha256.Sum256([]byte(name))
	path, err = p.cachePath("info-" + hex.EncodeToString(sum[:8]))
	return path, fmt.Sprint(p.store.Boot(), st.Dev, st.Ino, st.Ctim.Nano()), err
}

// readInfo returns a description that was kept less than an hour ago; nil if there is none.
func readInfo(path, socket string) *Info {
	info, err := os.Stat(path)
	if err != nil || time.Since(info.ModTime()) > time.Hour {
		return nil
	}
	data, err := os.ReadFile(path)
	kept := new(keptInfo)
	if err != nil || driver.DecodeStrict(data, kept) != nil || kept.Socket != socket {
		return nil
	}
	return &kept.Info
}

// checkEngine returns the proof of the engine with a runtime, and with files in a directory
// or on a volume: from memory, from the cache, or by a test.
func (p *Provider) checkEngine(ctx context.Context, runtime string, volume bool, asked string) (*engineProof, error) {
	f, err := p.loadProof(ctx, runtime, volume, asked)
	if err == nil && f.NoHostMounts {
		return nil, fmt.Errorf("docker: test the engine: %w", errNotShared)
	}
	return f, err
}

func (p *Provider) loadProof(ctx context.Context, runtime string, volume bool, asked string) (*engineProof, error) {
	unlock, err := p.lockInfo(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	key := fmt.Sprint(runtime, volume)
	if f := p.proofs[key]; f != nil {
		return f, nil
	}
	info, err := p.engineInfoLocked(ctx)
	if err != nil {
		return nil, err
	}
	path, err := p.proofPath(info, key)
	if err != nil {
		return nil, err
	}
	f, image := readProof(path, runtime, volume), p.cfg.Image
	if f == nil {
		var id string
		if image, id, err = p.proofImage(ctx, asked); err != nil {
			return nil, err
		}
		if id != "" { // the proof holds for this image alone, whose programs may say anything
			key += " " + id
			if f := p.proofs[key]; f != nil {
				return f, nil
			}
			if path, err = p.proofPath(info, key); err != nil {
				return nil, err
			}
			f = readProof(path, runtime, volume)
		}
	}
	if f == nil {
		if f, err = p.testEngine(ctx, info, runtime, volume, image); err != nil {
			return nil, err
		}
		data, err := json.Marshal(f)
		if err == nil {
			err = atomicfile.Write(path, data, atomicfile.Options{})
		}
		if err != nil {
			return nil, fmt.Errorf("docker: cache the proof of the engine: %w: %w", fault.Of(err), err)
		}
	}
	f.info, f.image = info, image
	p.proofs[key] = f
	return f, nil
}

// proofImage returns the image in which the engine is tested: the configured one, or if the
// engine lacks it and has another that is asked for, that one, with its id.
func (p *Provider) proofImage(ctx context.Context, asked string) (image, id string, err error) {
	if asked == "" || asked == p.cfg.Image {
		return p.cfg.Image, "", nil
	}
	soon, cancel := context.WithTimeout(ctx, p.cfg.AnswerTimeout)
	defer cancel()
	if _, err := p.engine.Image(soon, p.cfg.Image); fault.Of(err) != fault.NotFound {
		return p.cfg.Image, "", p.engineTimeout(ctx, err)
	}
	img, err := p.ensureImage(ctx, asked)
	return asked, img.ID, err
}

// proofPath returns the path of a cached proof, named by a digest of all that it depends on.
func (p *Provider) proofPath(info Info, key string) (string, error) {
	bin, err := p.binary()
	if err != nil {
		return "", fmt.Errorf("docker: %w", err)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", []string{
		info.ID, info.Name, key, bin.Version, fmt.Sprint(os.Geteuid(), p.cfg.UIDBase, info.UserNS, info.Rootless, p.store.Boot()),
	}))
	return p.cachePath("proof-" + hex.EncodeToString(sum[:8]))
}

func readProof(path, runtime string, volume bool) *engineProof {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	f := new(engineProof)
	if driver.DecodeStrict(data, f) != nil || f.Proof != proofVersion || f.Runtime != runtime || f.Volume != volume {
		return nil
	}
	return f
}

// workloadUID returns the uid of the workload inside: one that owns nothing on this host if
// possible, else one that shares files with this process.
func (p *Provider) workloadUID(info Info, volume bool) int {
	const workload = 1000
	switch {
	case volume && (info.UserNS || info.Rootless):
		return workload
	case volume:
		return p.cfg.UIDBase + workload
	case info.Rootless && os.Geteuid() != 0:
		return 0 // a rootless engine maps it to this user
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
	probeID     = "probe" // instead of a workspace id
)

// isolationScript tests the isolation from inside. It gets the path of a world-writable file
// of the host, and prints "isolated", "gvisor" or what failed.
const isolationScript = `
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
grep -qi gvisor /proc/version && { echo gvisor; exit; }
grep -q '^Seccomp:.*2$' /proc/self/status || { echo "there is no seccomp filter"; exit; }
grep -q '^NoNewPrivs:.*1$' /proc/self/status || { echo "there may be new privileges"; exit; }
echo isolated
`

// engineTestTimeout bounds the test of an engine, whose image is there.
const engineTestTimeout = 30 * time.Second

// testEngine starts a container of an image and runs isolationScript in it.
func (p *Provider) testEngine(ctx context.Context, info Info, runtime string, volume bool, image string) (*engineProof, error) {
	f := &engineProof{Proof: proofVersion, Runtime: runtime, Volume: volume, UID: p.workloadUID(info, volume), info: info, image: image}
	err := p.withProbeDir(ctx, func(dir string) error {
		// An engine that can't start a container does not always say so, such as rootless Podman
		// without systemd, and the guest that bounds the commands is not there then.
		soon, cancel := context.WithTimeout(ctx, min(engineTestTimeout, p.cfg.AnswerTimeout))
		defer cancel()
		err := p.testEngineIn(soon, dir, f)
		if soon.Err() != nil && ctx.Err() == nil {
			return fmt.Errorf("%w: a container did not start and answer within %v; check whether the engine runs one by itself "+
				"(rootless Podman without a systemd session of the user needs cgroup_manager = \"cgroupfs\" in containers.conf)",
				fault.Unavailable, min(engineTestTimeout, p.cfg.AnswerTimeout))
		}
		return err
	})
	if isNotShared(err) && !volume {
		f.NoHostMounts = true
		return f, nil
	}
	if err != nil {
		return nil, fmt.Errorf("docker: test the engine with the image %s: %w", image, err)
	}
	return f, nil
}

func (p *Provider) testEngineIn(ctx context.Context, dir string, f *engineProof) error {
	files, bait := filepath.Join(dir, "files"), filepath.Join(dir, "bait")
	if err := errors.Join(os.Mkdir(files, 0o755), os.Chmod(files, 0o777), os.WriteFile(bait, []byte("bait"), 0o600), os.Chmod(bait, 0o666)); err != nil { // it is bait
		return err
	}
	f.HostUID = -1 // not known yet: modes let any uid write
	u := &launch{
		dir: dir, id: probeID, name: namePrefix + filepath.Base(dir), image: f.image, files: files, proof: f, key: probeID, autoRemove: true,
		policy: driver.Policy{}, lease: time.Minute,
	}
	if f.Volume {
		done, err := p.probeVolume(ctx, u)
		if err != nil {
			return err
		}
		defer done()
	}
	c, err := p.startContainer(ctx, u)
	defer p.removeContainer(ctx, u.name) //nolint:errcheck // it removes itself, or is swept
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // nothing is lost with it
	closed := ""
	if os.Geteuid() == 0 || f.Volume {
		closed = "closed" // see launch.closeBox and ensureGuestImage
	}
	res, err := c.Shell().Run(ctx, driver.Command{Argv: []string{"sh", "-c", isolationScript, "probe", bait, closed}, Timeout: p.cfg.AnswerTimeout})
	if err != nil {
		return err
	}
	out := strings.TrimSpace(string(res.Stdout))
	if out != "isolated" && out != "gvisor" {
		return fmt.Errorf("the isolation test failed: %q (exit %d, %q): %w", out, res.ExitCode, res.Stderr, fault.Failed)
	}
	f.GVisor = out == "gvisor"
	if f.Volume {
		return nil
	}
	return f.setHostUID(filepath.Join(files, "probe"))
}

// setHostUID sets the workload's uid on this host, the owner of a file that it created.
func (f *engineProof) setHostUID(made string) error {
	info, err := os.Lstat(made)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return errors.New("no owner is known")
	}
	f.HostUID = int(st.Uid)
	switch euid := os.Geteuid(); {
	case euid == 0 && f.HostUID == 0:
		return fmt.Errorf("files created inside belong to root on the host: %w", fault.Failed)
	case euid != 0 && f.HostUID != euid:
		return fmt.Errorf("files created inside belong to user %d on the host, but this process is user %d: %w: it can't share files", f.HostUID, euid, fault.Unsupported)
	}
	return nil
}

// chownPath gives a file or directory to the workload.
func (f *engineProof) chownPath(path string) error {
	if os.Geteuid() != 0 {
		return nil // it is this user
	}
	return os.Lchown(path, f.HostUID, f.HostUID)
}

// openRoot opens the files of a workspace. Changes are made by a thread with the workload's
// fsuid, which may not read the state, so the commit guard runs on another thread.
func (f *engineProof) openRoot(dir string, opts *files.Options) (*files.Root, error) {
	if os.Geteuid() == 0 {
		opts.Commit = files.GuardAsProcess(opts.Commit)
	}
	return files.Open(dir, opts)
}

// engineTraits returns the traits of workspaces in the engine.
func (p *Provider) engineTraits(f *engineProof) driver.Traits {
	by := f.info.Name + ": namespaces, a read-only rootfs, seccomp, no new privileges, no capabilities, a user of its own"
	t := driver.Traits{
		Isolation:   driver.IsolationContainer,
		IsolatedBy:  driver.Enforcement{By: by},
		Network:     driver.NetworkPolicy,
		NetworkBy:   driver.Enforcement{By: "a container without a network but a loopback interface, and a proxy for what the policy allows"},
		Limits:      driver.NoLimits("containers do not limit this"),
		ReadOnly:    driver.Enforcement{By: "a read-only mount, and checks before each change"},
		Durability:  driver.DurablePower,
		Streaming:   true,
		CopyOnWrite: "copy",
	}
	t.Limits[driver.ResourceCPU] = cgroupEnforcement(f.info.CPU, "cpu")
	t.Limits[driver.ResourceMemory] = cgroupEnforcement(f.info.Memory && f.info.Swap, "memory and swap")
	t.Limits[driver.ResourcePIDs] = cgroupEnforcement(f.info.PIDs, "pids")
	t.Limits[driver.ResourceDisk] = driver.Enforcement{Reason: "a directory of the host that is mounted has no quota"}
	t.Limits[driver.ResourceWall] = driver.Enforcement{By: "the guest, which kills the whole process tree"}
	t.Limits[driver.ResourceOpenFiles] = driver.Enforcement{By: "a hard resource limit of each process"}
	if f.Volume {
		t.Limits[driver.ResourceDisk] = driver.Enforcement{Reason: "a volume of the engine has no quota"}
		t.Durability = driver.DurableProcess
	}
	if f.GVisor {
		t.Isolation = driver.IsolationGVisor
		t.IsolatedBy.By = f.info.Name + " with gVisor: a kernel in user space, a read-only rootfs, no capabilities, a user of its own"
		t.Limits[driver.ResourcePIDs] = driver.Enforcement{Reason: "processes are gVisor's own, which the host does not count"}
	}
	return t
}

func cgroupEnforcement(yes bool, what string) driver.Enforcement {
	if yes {
		return driver.Enforcement{By: "control groups, by the engine"}
	}
	return driver.Enforcement{Reason: "the engine says that it can't limit " + what}
}
