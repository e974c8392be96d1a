package kubernetes

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/croft-run/croft/internal/wrap/pool"
	"github.com/croft-run/croft/workspace/driver"
)

// newPool returns a pool of pods that is full.
func newPool(t testing.TB, dir string, size int) (*pool.Provider, driver.Spec) {
	t.Helper()
	p, err := pool.Wrap(t.Context(), newProvider(t, dir), pool.Options{Dir: filepath.Join(dir, "pool"), Size: size})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	shape := driver.Spec{Kind: Kind}
	if err := p.Keep(shape); err != nil {
		t.Fatal(err)
	}
	awaitFull(t, p, shape, size)
	return p, shape
}

func awaitFull(t testing.TB, p *pool.Provider, shape driver.Spec, size int) {
	t.Helper()
	waitUntil(t, func() (bool, string) {
		warm := p.Warm(shape)
		return warm == size, fmt.Sprintf("the pool has %d workspaces, want %d", warm, size)
	})
}

// claim opens a workspace of the pool.
func claim(t testing.TB, p *pool.Provider, spec driver.Spec) *driver.Workspace {
	t.Helper()
	if spec.ID = p.Reserve(spec); spec.ID == "" {
		t.Fatal("the pool is empty")
	}
	ws, err := p.Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return ws
}

// TestPoolOfPods claims a workspace whose pod runs already. The pool is filled again, a sweep
// spares it, and Close leaves nothing of it.
func TestPoolOfPods(t *testing.T) {
	dir := t.TempDir()
	p, shape := newPool(t, dir, 2)
	var warm []types.UID
	pods, err := admin(t).CoreV1().Pods(os.Getenv(namespaceVar)).List(t.Context(), metav1.ListOptions{LabelSelector: LabelInstance + "=" + instance(dir)})
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods.Items {
		warm = append(warm, pod.UID)
	}
	ws := claim(t, p, shape)
	write(t, ws, "kept", "of the claimed one")
	if pod := podOf(t, ws); !slices.Contains(warm, pod.UID) {
		t.Errorf("the pod %s was not there before; there were %v", pod.UID, warm)
	}
	awaitFull(t, p, shape, 2)
	other := claim(t, p, shape)
	if got := string(run(t, other, "ls").Stdout); got != "" {
		t.Errorf("another workspace of the pool has files: %q", got)
	}
	if err := other.Life.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
	awaitFull(t, p, shape, 2)
	if err := p.Sweep(t.Context(), []string{idOf(t, ws)}); err != nil {
		t.Fatal(err)
	}
	run(t, claim(t, p, shape), "true") // of those that the sweep spared
	if got := string(run(t, ws, "cat kept").Stdout); got != "of the claimed one" {
		t.Errorf("the file has %q", got)
	}
	p.Drain() // what was claimed stays
	if err := p.Sweep(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if left := leftovers(t, dir); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// compareTurns runs ours and a reference in turns, and reports their medians and the ratio.
func compareTurns(b *testing.B, bound float64, most time.Duration, ours, reference, between func()) {
	b.Helper()
	var a, r []time.Duration
	measure := func(f func()) time.Duration {
		start := time.Now()
		f()
		return time.Since(start)
	}
	ours()
	between()
	for b.Loop() {
		a = append(a, measure(ours))
		r = append(r, measure(reference))
		b.StopTimer()
		between()
		b.StartTimer()
	}
	slices.Sort(a)
	slices.Sort(r)
	p50, ref := a[len(a)/2], r[len(r)/2]
	b.ReportMetric(0, "ns/op") // of both: it says nothing
	b.ReportMetric(float64(p50.Microseconds())/1000, "ours-p50-ms")
	b.ReportMetric(float64(ref.Microseconds())/1000, "ref-p50-ms")
	b.ReportMetric(float64(p50)/float64(ref), "ratio")
	if ratio := float64(p50) / float64(ref); bound > 0 && ratio > bound || most > 0 && p50 > most {
		b.Logf("MISSED: the ratio is %.3f, at most %.3f; ours takes %v, at most %v; 0 is no bound", ratio, bound, p50, most)
	}
}

// BenchmarkTrue runs true in a pod, through the guest and by kubectl exec.
func BenchmarkTrue(b *testing.B) {
	ws := open(b, newProvider(b, b.TempDir()))
	compareTurns(b, 1.0/20, 0, func() {
		if _, err := ws.Shell.Run(b.Context(), driver.Command{Argv: []string{"true"}}); err != nil {
			b.Fatal(err)
		}
	}, func() {
		cmd := exec.CommandContext(b.Context(), "kubectl", "--kubeconfig", os.Getenv(clusterVar), "-n", os.Getenv(namespaceVar), "exec", objectName(idOf(b, ws)), "--", "true")
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
	}, func() {})
}

// BenchmarkClaim takes a workspace from a pool and runs true in it, beside a pod that is created
// until it runs.
func BenchmarkClaim(b *testing.B) {
	const size = 2
	p, shape := newPool(b, b.TempDir(), size)
	pods := admin(b).CoreV1().Pods(os.Getenv(namespaceVar))
	yes, no, uid, grace := true, false, int64(DefaultUID), int64(0)
	inner := newProvider(b, b.TempDir())
	var claimed *driver.Workspace
	var plain []string
	compareTurns(b, 0, 300*time.Millisecond, func() {
		claimed = claim(b, p, shape)
		if _, err := claimed.Shell.Run(b.Context(), driver.Command{Argv: []string{"true"}}); err != nil {
			b.Fatal(err)
		}
	}, func() {
		pod, err := pods.Create(b.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "plain-"}, Spec: corev1.PodSpec{
			AutomountServiceAccountToken: &no, TerminationGracePeriodSeconds: &grace,
			SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes, RunAsUser: &uid, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Containers: []corev1.Container{{
				Name: containerName, Image: testImage, ImagePullPolicy: corev1.PullNever, Command: []string{"sleep", "1000"},
				SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
			}},
		}}, metav1.CreateOptions{})
		if err != nil {
			b.Fatal(err)
		}
		plain = append(plain, pod.Name)
		if err := inner.awaitRunning(b.Context(), pod.Name); err != nil {
			b.Fatal(err)
		}
	}, func() {
		if err := claimed.Life.Destroy(b.Context()); err != nil {
			b.Fatal(err)
		}
		for _, name := range plain {
			if err := inner.removePod(b.Context(), name, ""); err != nil {
				b.Fatal(err)
			}
		}
		plain = nil
		awaitFull(b, p, shape, size)
	})
}
