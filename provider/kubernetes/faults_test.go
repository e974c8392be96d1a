package kubernetes

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// idOf returns the id of a workspace.
func idOf(t testing.TB, ws *driver.Workspace) string {
	t.Helper()
	var pl driver.RefID
	if err := driver.DecodeStrict(ws.Ref.Payload, &pl); err != nil {
		t.Fatal(err)
	}
	return pl.ID
}

// podOf returns the pod of a workspace.
func podOf(t testing.TB, ws *driver.Workspace) *corev1.Pod {
	t.Helper()
	pod, err := admin(t).CoreV1().Pods(os.Getenv(namespaceVar)).Get(t.Context(), objectName(idOf(t, ws)), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

// wantEvictedThenSame checks that a fault costs one Evicted call, after which the workspace has
// the files that were acknowledged, also by a handle that is resolved from the ref.
func wantEvictedThenSame(t *testing.T, p *Provider, ws *driver.Workspace, want string) {
	t.Helper()
	_, err := ws.Shell.Run(t.Context(), driver.Command{Script: "cat kept"})
	if fault.Of(err) != fault.Evicted {
		t.Errorf("the call after the fault: got %v, want Evicted", err)
	}
	if got := string(run(t, ws, "cat kept").Stdout); got != want {
		t.Errorf("after the fault the file has %q, want %q", got, want)
	}
	again, err := p.Resolve(t.Context(), ws.Ref)
	if err != nil {
		t.Fatalf("resolve: %v", err)
	}
	defer again.Life.Close(t.Context())
	if got := string(run(t, again, "cat kept").Stdout); got != want {
		t.Errorf("after the fault a new handle reads %q, want %q", got, want)
	}
}

// waitGone waits until the handle has seen the end of its connection.
func waitGone(t *testing.T, p *Provider, ws *driver.Workspace, fail func()) {
	t.Helper()
	session, err := ws.Shell.Start(t.Context(), driver.Command{Script: "sleep 1000"})
	if err != nil {
		t.Fatal(err)
	}
	fail()
	res, err := session.Wait(t.Context()) // ends with the connection
	if err == nil && res.Cause != driver.CauseLost {
		t.Errorf("a session that was lost gives %+v, want the cause %q", res, driver.CauseLost)
	}
}

// TestPodDeleted deletes the pod behind the provider's back.
func TestPodDeleted(t *testing.T) {
	p := newProvider(t, t.TempDir())
	ws := open(t, p)
	write(t, ws, "kept", "before")
	pod := podOf(t, ws)
	waitGone(t, p, ws, func() {
		if err := admin(t).CoreV1().Pods(pod.Namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	})
	wantEvictedThenSame(t, p, ws, "before")
	if now := podOf(t, ws); now.UID == pod.UID {
		t.Error("the pod is still the one that was deleted")
	}
}

// TestPodEvicted evicts the pod, as a drain of its node does.
func TestPodEvicted(t *testing.T) {
	p := newProvider(t, t.TempDir())
	ws := open(t, p)
	write(t, ws, "kept", "before")
	pod := podOf(t, ws)
	waitGone(t, p, ws, func() {
		err := admin(t).CoreV1().Pods(pod.Namespace).EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace}})
		if err != nil {
			t.Fatal(err)
		}
	})
	wantEvictedThenSame(t, p, ws, "before")
}

// TestGuestKilled kills the guest, by its process on the node.
func TestGuestKilled(t *testing.T) {
	p := newProvider(t, t.TempDir())
	ws := open(t, p)
	write(t, ws, "kept", "before")
	pod := podOf(t, ws)
	waitGone(t, p, ws, func() {
		killGuest(t, pod)
	})
	wantEvictedThenSame(t, p, ws, "before")
}

// killGuest kills the guest of a pod.
func killGuest(t testing.TB, pod *corev1.Pod) {
	t.Helper()
	for _, pid := range podProcesses(t, pod) {
		argv, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil || !strings.HasPrefix(string(argv), program+"\x00stdio\x00") {
			continue
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("there is no guest of the pod %s", pod.Name)
}

// podProcesses returns the processes of a pod, as this host numbers them: the node of the tests
// is on this host.
func podProcesses(t testing.TB, pod *corev1.Pod) (pids []int) {
	t.Helper()
	found, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range found {
		groups, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(groups, []byte(pod.UID)) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// cluster runs scripts/cluster.
func cluster(t testing.TB, args ...string) {
	t.Helper()
	runProgram(t, "../../scripts/cluster", args...)
}

func runProgram(t testing.TB, name string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 3*time.Minute) // also in a cleanup
	defer cancel()
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}

// TestAPIServerRestarts: connections end, the guest and its sessions live on.
func TestAPIServerRestarts(t *testing.T) {
	p := newProvider(t, t.TempDir())
	ws := open(t, p)
	write(t, ws, "kept", "before")
	session, err := ws.Shell.Start(t.Context(), driver.Command{Script: "while :; do echo x >> beats; sleep 0.1; done", Detached: true})
	if err != nil {
		t.Fatal(err)
	}
	pod := podOf(t, ws)
	cluster(t, "stop", "kube-apiserver")
	cluster(t, "start", "kube-apiserver")
	wantEvictedThenSame(t, p, ws, "before")
	if now := podOf(t, ws); now.UID != pod.UID {
		t.Error("the pod was replaced")
	}
	again, err := ws.Shell.Attach(t.Context(), session.ID())
	if err != nil {
		t.Fatalf("attach to the session: %v", err)
	}
	if info, err := again.State(t.Context()); err != nil || !info.Running {
		t.Errorf("the session is %+v, %v; want it running", info, err)
	}
}

// TestOwnerTakesAllWithIt deletes the Secret alone: the cluster collects the claim and the pod.
func TestOwnerTakesAllWithIt(t *testing.T) {
	dir := t.TempDir()
	p := newProvider(t, dir)
	ws := open(t, p)
	run(t, ws, "true")
	if err := admin(t).CoreV1().Secrets(os.Getenv(namespaceVar)).Delete(t.Context(), objectName(idOf(t, ws)), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for left := leftovers(t, dir); len(left) > 0; left = leftovers(t, dir) {
		if err := sleepContext(t.Context(), watchPause); err != nil {
			t.Fatalf("left: %v: %v", left, err)
		}
	}
}

// TestImageThatCannotRun: the error names the image and the reason, and nothing is left but the
// workspace.
func TestImageThatCannotRun(t *testing.T) {
	dir := t.TempDir()
	p := newProvider(t, dir)
	ws := open(t, p, func(s *driver.Spec) { s.Config = []byte(`{"image": "croft.test/missing:1"}`) })
	_, err := ws.Shell.Run(t.Context(), driver.Command{Script: "true"})
	if fault.Of(err) != fault.Failed || !strings.Contains(fmt.Sprint(err), "croft.test/missing:1") {
		t.Errorf("got %v, want Failed with the name of the image", err)
	}
	if err := ws.Life.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := leftovers(t, dir); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
