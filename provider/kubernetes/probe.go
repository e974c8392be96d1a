package kubernetes

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/atomicfile"
	"github.com/croft-run/croft/workspace/driver"
)

// A proof is the result of testing pods with one RuntimeClass: a cluster's description does
// not tell it.
type proof struct {
	Proof        int              `json:"proof"` // version of the test
	RuntimeClass string           `json:"runtimeClass"`
	Level        driver.Isolation `json:"level"`
	Network      string           `json:"network,omitempty"` // why policies that allow hosts are refused; "" if the cluster denies the network of pods
	Tested       time.Time        `json:"tested"`
}

// networkLifetime is how long the result of testNetwork is used: a NetworkPolicy may be removed.
const networkLifetime = 10 * time.Minute

// proofVersion changes with what is tested.
const proofVersion = 3

// probeID is the label of a probe's pod instead of a workspace id.
const probeID = "probe"

// isolationScript tests the isolation from inside, and prints "isolated", "gvisor" or what
// failed.
const isolationScript = `
[ "$(id -u)" != 0 ] || { echo "the user is root"; exit; }
(echo x > /croft-probe) 2>/dev/null && { echo "the rootfs can be written"; exit; }
[ -e /var/run/secrets/kubernetes.io ] && { echo "there is a token of a service account"; exit; }
echo x > probe && [ "$(cat probe)" = x ] || { echo "the workspace can't be written"; exit; }
(echo x > ` + program + `) 2>/dev/null && { echo "the program of the guest can be written"; exit; }
[ ! -r ` + program + ` ] || { echo "the program of the guest can be read, and its processes traced; the image of the guest is of another release"; exit; }
grep -q '^CapEff:.*0000000000000000$' /proc/self/status || { echo "there are capabilities"; exit; }
(exec 3<>/dev/tcp/127.0.0.1/1) 2>&1 | grep -q refused && { echo "sockets of the internet can be made"; exit; }
grep -qi gvisor /proc/version && { echo gvisor; exit; }
grep -q '^Seccomp:.*2$' /proc/self/status || { echo "there is no seccomp filter"; exit; }
grep -q '^NoNewPrivs:.*1$' /proc/self/status || { echo "there may be new privileges"; exit; }
echo isolated
`

// Probe starts a pod and tests the isolation from inside. The result is cached.
func (p *Provider) Probe(ctx context.Context) (driver.Traits, error) {
	f, err := p.checkCluster(ctx, p.cfg.RuntimeClass, false)
	if err != nil {
		return driver.Traits{}, fmt.Errorf("kubernetes: probe: %w", err)
	}
	return f.traits(p.cfg.Volume), nil
}

// A clusterTest is a test that runs, or has ended.
type clusterTest struct {
	done  chan struct{} // closed when the fields below are set
	proof *proof
	err   error
}

// checkCluster returns the proof of a RuntimeClass: from memory, from the cache, or by a test.
// With network it is not older than networkLifetime. A test goes on if ctx ends, for the next
// caller: the start of a pod may take longer than any one of them waits.
func (p *Provider) checkCluster(ctx context.Context, class string, network bool) (*proof, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("kubernetes: %w", err)
	}
	old := func(f *proof) bool { return f == nil || network && time.Since(f.Tested) > networkLifetime }
	p.mu.Lock()
	if f := p.proofs[class]; !old(f) {
		p.mu.Unlock()
		return f, nil
	}
	t := p.tests[class]
	if t == nil {
		t = &clusterTest{done: make(chan struct{})}
		p.tests[class] = t
		p.background.Go(func() {
			defer close(t.done)
			if t.proof = p.cachedProof(class); old(t.proof) {
				if t.proof, t.err = p.testCluster(p.ctx, class); t.err == nil {
					p.cacheProof(t.proof)
				}
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			delete(p.tests, class)
			if t.err == nil {
				p.proofs[class] = t.proof
			}
		})
	}
	p.mu.Unlock()
	select {
	case <-t.done:
		return t.proof, t.err
	case <-ctx.Done():
		return nil, fmt.Errorf("kubernetes: test the cluster: %w", ctx.Err())
	}
}

// proofPath returns the path of a cached proof, named by a digest of all that it depends on.
func (p *Provider) proofPath(class string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", []string{
		p.cfg.REST.Host, p.cfg.Namespace, class, p.guestVersion(), p.cfg.Image, fmt.Sprint(p.cfg.UID, p.cfg.UserNamespaces, p.cfg.NodeSelector),
	}))
	return filepath.Join(p.cfg.Cache, "proof-"+hex.EncodeToString(sum[:8]))
}

func (p *Provider) cachedProof(class string) *proof {
	if p.cfg.Cache == "" {
		return nil
	}
	data, err := os.ReadFile(p.proofPath(class))
	f := new(proof)
	if err != nil || driver.DecodeStrict(data, f) != nil || f.Proof != proofVersion || f.RuntimeClass != class {
		return nil
	}
	return f
}

// cacheProof writes a proof to the cache. Without it the next process tests again.
func (p *Provider) cacheProof(f *proof) {
	if p.cfg.Cache == "" {
		return
	}
	data, err := json.Marshal(f)
	if err == nil {
		err = os.MkdirAll(p.cfg.Cache, 0o700)
	}
	if err == nil {
		err = atomicfile.Write(p.proofPath(f.RuntimeClass), data, atomicfile.Options{})
	}
	if err != nil {
		p.cfg.Log.Warn("kubernetes: the result of a probe is not cached", "error", err)
	}
}

// testCluster starts a pod with a temporary volume, and runs isolationScript in it.
func (p *Provider) testCluster(ctx context.Context, class string) (*proof, error) {
	l := &launch{
		id: probeID, name: namePrefix + probeID + "-" + driver.NewID(), level: driver.IsolationContainer, key: probeID, token: rand.Text(),
		opts: options{Image: p.cfg.Image, RuntimeClass: class},
	}
	c, err := p.startPod(ctx, l)
	if err != nil {
		return nil, fmt.Errorf("test the cluster: %w", err)
	}
	defer func() {
		c.Close() //nolint:errcheck // nothing is lost with it
		if err := p.removePod(context.WithoutCancel(ctx), l.name, ""); err != nil {
			p.cfg.Log.Warn("kubernetes: the pod of a probe stays until a sweep", "pod", l.name, "error", err)
		}
	}()
	res, err := c.Shell().Run(ctx, driver.Command{Argv: []string{"bash", "-c", isolationScript}, Timeout: p.cfg.AnswerTimeout})
	if err != nil {
		return nil, fmt.Errorf("test the cluster: %w", err)
	}
	f := &proof{Proof: proofVersion, RuntimeClass: class, Level: driver.IsolationContainer}
	switch out := strings.TrimSpace(string(res.Stdout)); out {
	case "isolated":
	case "gvisor":
		f.Level = driver.IsolationGVisor
	default:
		return nil, fmt.Errorf("test the cluster: the isolation test failed: %q (exit %d, %q): %w", out, res.ExitCode, res.Stderr, fault.Failed)
	}
	if f.Network, err = p.testNetwork(ctx, l.name); err != nil {
		return nil, fmt.Errorf("test the cluster: %w", err)
	}
	f.Tested = time.Now()
	return f, nil
}

// traits returns the traits of workspaces in pods with a kind of volume.
func (f *proof) traits(volume string) driver.Traits {
	by := "a pod of the restricted Pod Security Standard: namespaces, a read-only rootfs, seccomp, no new privileges, no capabilities, not root"
	if f.Level == driver.IsolationGVisor {
		by = "gVisor: a kernel in user space; and " + by
	}
	t := driver.Traits{
		Isolation:   f.Level,
		IsolatedBy:  driver.Enforcement{By: by},
		Network:     driver.NetworkNone,
		NetworkBy:   driver.Enforcement{By: "the guest's seccomp filter, which refuses all sockets but those of Unix"},
		Limits:      driver.NoLimits("pods do not limit this"),
		ReadOnly:    driver.Enforcement{By: "a read-only mount, and checks before each change"},
		Durability:  driver.DurableProcess, // what else the volume survives depends on its storage class
		Streaming:   true,
		CopyOnWrite: "copy",
		Root:        rootInside,
	}
	if f.Network == "" {
		t.Network = driver.NetworkPolicy
		t.NetworkBy.By += "; where the policy allows hosts, the cluster's NetworkPolicy, which a test has tried, and a proxy for what is allowed"
	}
	t.Limits[driver.ResourceCPU] = driver.Enforcement{By: "the pod's limit, by control groups"}
	t.Limits[driver.ResourceMemory] = driver.Enforcement{By: "the pod's limit, by control groups"}
	t.Limits[driver.ResourcePIDs] = driver.Enforcement{Reason: "a pod has no limit of processes of its own; the kubelet's podPidsLimit holds for all"}
	t.Limits[driver.ResourceDisk] = driver.Enforcement{Reason: "whether a volume has a quota depends on its storage class"}
	t.Limits[driver.ResourceWall] = driver.Enforcement{By: "the guest, which kills the whole process tree"}
	t.Limits[driver.ResourceOpenFiles] = driver.Enforcement{By: "a hard resource limit of each process"}
	if volume == VolumeEmptyDir {
		t.Durability = driver.DurableNone // the files end with the pod, and the pod with the guest
		t.ReadOnly = driver.Enforcement{Reason: "an emptyDir that can't be written stays empty"}
		t.Limits[driver.ResourceDisk] = driver.Enforcement{Reason: "a pod beyond the size of its emptyDir is evicted, and its files with it"}
	}
	return t
}
