package kubernetes

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/workspace/driver"
)

// A writer writes files of a workspace, one after another, and repeats a write that fails, as
// callers do.
type writer struct {
	stop context.CancelFunc
	done chan struct{}

	mu     sync.Mutex
	acked  int // files w0 to w(acked-1) were acknowledged
	failed int
	last   error
}

// writeTimeout is how long a caller waits for a write.
const writeTimeout = 20 * time.Second

func startWriter(t *testing.T, ws *driver.Workspace) *writer {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	w := &writer{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		for ctx.Err() == nil {
			w.mu.Lock()
			n := w.acked
			w.mu.Unlock()
			soon, cancel := context.WithTimeout(ctx, writeTimeout)
			_, err := ws.FS.Write(soon, fmt.Sprintf("w%d", n), strings.NewReader(fmt.Sprintln(n)), &driver.WriteOptions{})
			cancel()
			w.mu.Lock()
			if err == nil {
				w.acked++
			} else if ctx.Err() == nil {
				w.failed++
				w.last = err
			}
			w.mu.Unlock()
			if err != nil {
				sleepContext(ctx, watchPause)
			}
		}
	}()
	t.Cleanup(func() { stop(); <-w.done })
	return w
}

func (w *writer) counts() (acked, failed int, last error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.acked, w.failed, w.last
}

// await waits until so many writes were acknowledged.
func (w *writer) await(t *testing.T, n int) {
	t.Helper()
	waitUntil(t, func() (bool, string) {
		acked, failed, last := w.counts()
		return acked >= n, fmt.Sprintf("%d writes were acknowledged, want %d; %d failed, the last with %v", acked, n, failed, last)
	})
}

// awaitFailure waits until a write has failed.
func (w *writer) awaitFailure(t *testing.T) {
	t.Helper()
	waitUntil(t, func() (bool, string) {
		_, failed, _ := w.counts()
		return failed > 0, "no write has failed"
	})
}

// waitUntil waits until check reports true. Its text says what is missing.
func waitUntil(t testing.TB, check func() (bool, string)) {
	t.Helper()
	for till := time.Now().Add(2 * time.Minute); ; {
		ok, missing := check()
		if ok {
			return
		}
		if time.Now().After(till) {
			t.Fatal(missing)
		}
		if err := sleepContext(t.Context(), watchPause); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFaultsUnderLoad has a caller write while something fails. No acknowledged write is lost,
// the caller goes on without a new handle, and nothing is left in the end.
func TestFaultsUnderLoad(t *testing.T) {
	needCluster(t)
	const same, other = true, false
	for _, one := range []struct {
		name    string
		samePod bool // the pod, with its processes, is there afterwards
		fail    func(t *testing.T, pod *corev1.Pod, w *writer)
	}{
		{"pod deleted", other, func(t *testing.T, pod *corev1.Pod, w *writer) {
			if err := admin(t).CoreV1().Pods(pod.Namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			w.awaitFailure(t)
		}},
		{"guest killed", other, func(t *testing.T, pod *corev1.Pod, w *writer) {
			killGuest(t, pod)
			w.awaitFailure(t)
		}},
		{"node drained and uncordoned", other, drainNode},
		{"API server restarted", same, func(t *testing.T, _ *corev1.Pod, w *writer) {
			cluster(t, "stop", "kube-apiserver")
			w.awaitFailure(t)
			cluster(t, "start", "kube-apiserver")
		}},
		{"kubelet stopped for a minute", same, func(t *testing.T, _ *corev1.Pod, w *writer) {
			cluster(t, "stop", "kubelet")
			defer cluster(t, "start", "kubelet")
			w.awaitFailure(t)
			pause(t, time.Minute)
		}},
		{"network cut for 30 s", same, cutNetwork},
	} {
		t.Run(one.name, func(t *testing.T) {
			dir := t.TempDir()
			ws := open(t, newProvider(t, dir))
			w := startWriter(t, ws)
			w.await(t, 20)
			pod := podOf(t, ws)
			one.fail(t, pod, w)
			before, _, _ := w.counts()
			w.await(t, before+20)
			w.stop()
			<-w.done
			acked, failed, last := w.counts()
			t.Logf("%d writes were acknowledged, %d failed, the last with: %v", acked, failed, last)
			if now := podOf(t, ws); (now.UID == pod.UID) != one.samePod {
				t.Errorf("that the pod is the same is %v, want %v", now.UID == pod.UID, one.samePod)
			}
			again, err := newProvider(t, dir).Resolve(t.Context(), ws.Ref) // as another process
			if err != nil {
				t.Fatal(err)
			}
			res := run(t, again, fmt.Sprintf(`for i in $(seq 0 %d); do read -r got <w$i && [ "$got" = $i ] || echo lost w$i; done`, acked-1))
			if len(res.Stdout) > 0 || res.ExitCode != 0 {
				t.Errorf("acknowledged writes are not there: %s %s", res.Stdout, res.Stderr)
			}
			if err := again.Life.Destroy(t.Context()); err != nil {
				t.Fatal(err)
			}
			if left := leftovers(t, dir); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
			waitUntil(t, func() (bool, string) {
				left := podProcesses(t, pod)
				return len(left) == 0, fmt.Sprintf("processes of the first pod are left: %v", left)
			})
		})
	}
}

// drainNode drains the node, waits until the workspace has no pod that could run, and uncordons
// the node.
func drainNode(t *testing.T, pod *corev1.Pod, w *writer) {
	kubectl := func(args ...string) {
		runProgram(t, "kubectl", append([]string{"--kubeconfig", os.Getenv(clusterVar)}, args...)...)
	}
	defer kubectl("uncordon", pod.Spec.NodeName)
	kubectl("drain", pod.Spec.NodeName, "--force", "--delete-emptydir-data", "--timeout=120s")
	w.awaitFailure(t)
}

// cutNetwork drops every packet between the API server and the kubelet, through which all bytes
// to the guest go.
func cutNetwork(t *testing.T, _ *corev1.Pod, w *writer) {
	testenv.NeedsProgram(t, "iptables")
	rules := [][]string{{"INPUT", "-p", "tcp", "--dport", "10250", "-j", "DROP"}, {"INPUT", "-p", "tcp", "--sport", "10250", "-j", "DROP"}}
	for _, rule := range rules {
		runProgram(t, "iptables", append([]string{"-I"}, rule...)...)
		defer runProgram(t, "iptables", append([]string{"-D"}, rule...)...)
	}
	pause(t, time.Second) // until what was under way has arrived
	before, _, _ := w.counts()
	pause(t, 30*time.Second)
	if now, _, _ := w.counts(); now != before {
		t.Errorf("%d writes were acknowledged while the network was cut", now-before)
	}
}

// pause is the length of an outage.
func pause(t *testing.T, d time.Duration) {
	t.Helper()
	if err := sleepContext(t.Context(), d); err != nil {
		t.Fatal(err)
	}
}
