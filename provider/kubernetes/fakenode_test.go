package kubernetes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/apimachinery/pkg/util/httpstream/spdy"
	"k8s.io/client-go/rest"

	"github.com/croft-run/croft/internal/host/guestbin"
	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
	"github.com/croft-run/croft/workspace/workspacetest"
)

// A fakeNode is an API server for the objects of this provider, and a node: pods are containers
// of runc, with the real guest. It has no scheduler, no Pod Security, no roles and no volumes but
// directories: "make test-cluster" runs the same suite on a real cluster. It is for hosts
// without one, where the suite takes a few minutes.
type fakeNode struct {
	t      testing.TB
	dir    string
	rootfs string
	server *httptest.Server

	mu      sync.Mutex
	changed *sync.Cond
	version int64
	objects map[string]metav1.Object // by resource/name
	pods    map[types.UID]*fakePod
	ends    sync.WaitGroup
}

// A fakePod is the container of a pod.
type fakePod struct {
	name   string
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout io.ReadCloser
	done   chan struct{}
}

const fakeUser = 65532

func newFakeNode(t testing.TB) *fakeNode {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("skipped: this process is not root")
	}
	for _, name := range []string{"runc", "dpkg-query"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip("skipped: " + name + " is not on PATH")
		}
	}
	dir, err := os.MkdirTemp("", "croft-fakenode-") //nolint:usetesting // containers that a failed test leaves must be ended before it is removed
	if err != nil {
		t.Fatal(err)
	}
	n := &fakeNode{t: t, dir: dir, rootfs: filepath.Join(dir, "rootfs"), objects: map[string]metav1.Object{}, pods: map[types.UID]*fakePod{}}
	n.changed = sync.NewCond(&n.mu)
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(n.rootfs, 0o755)); err != nil {
		t.Fatal(err)
	}
	unpack := exec.CommandContext(t.Context(), "tar", "-C", n.rootfs, "-xf", "-")
	in, err := unpack.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := unpack.Start(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(testenv.WriteRootfs(t.Context(), in), in.Close(), unpack.Wait()); err != nil {
		t.Fatal(err)
	}
	bin, err := guestbin.Find("")
	if err != nil {
		t.Skip("skipped: " + err.Error())
	}
	program, err := os.ReadFile(bin.Path)
	if err == nil {
		err = os.Mkdir(filepath.Join(dir, "program"), 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "program", "croft-guest"), program, 0o711) // as the init container makes it
	}
	if err != nil {
		t.Fatal(err)
	}
	n.server = httptest.NewServer(n)
	t.Cleanup(n.close)
	return n
}

func (n *fakeNode) close() {
	n.mu.Lock()
	pods := n.pods
	n.mu.Unlock()
	for _, p := range pods {
		n.runc("delete", "-f", p.name)
		p.cmd.Process.Kill()
	}
	n.ends.Wait()
	n.server.CloseClientConnections()
	n.server.Close()
	groups, _ := filepath.Glob("/sys/fs/cgroup/*/" + filepath.Base(n.dir)) // runc removes those below
	for _, dir := range append(groups, filepath.Join("/sys/fs/cgroup", filepath.Base(n.dir))) {
		os.Remove(dir)
	}
	os.RemoveAll(n.dir)
}

func (n *fakeNode) runc(args ...string) *exec.Cmd {
	cmd := exec.Command("runc", append([]string{"--root", filepath.Join(n.dir, "runc")}, args...)...)
	if args[0] == "delete" || args[0] == "kill" {
		cmd.Run() // it may be gone
	}
	return cmd
}

func (n *fakeNode) provider(t testing.TB, address, dir string, mods ...func(*Config)) *Provider {
	t.Helper()
	cfg := &Config{
		REST: &rest.Config{Host: address, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, Namespace: "fake", Instance: instance(dir), Image: testImage, GuestImage: guestImage, Size: "64Mi",
		Cache: os.Getenv(cacheVar), Lease: 2 * time.Minute, StartTimeout: time.Minute,
		Snapshots: snapshot.Open(snapshot.Dir(filepath.Join(dir, "store")), &snapshot.Options{CacheDir: filepath.Join(dir, "cache")}),
	}
	for _, mod := range mods {
		mod(cfg)
	}
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// leftovers lists the objects of the instance of dir.
func (n *fakeNode) leftovers(dir string) (names []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for key, o := range n.objects {
		if o.GetLabels()[LabelInstance] == instance(dir) {
			names = append(names, key)
		}
	}
	return names
}

// fakeVar is the address of the fake node, for processes that the suite starts.
const fakeVar = "CROFT_TEST_FAKE_NODE"

// TestConformanceOnFakeNode runs the suite without a cluster.
//
//croft:slow
func TestConformanceOnFakeNode(t *testing.T) {
	if os.Getenv(clusterVar) != "" {
		t.Skip("skipped: TestConformance runs on a real cluster")
	}
	n := useFakeNode(t)
	workspacetest.Run(t, workspacetest.Harness{
		Provider:  func(t testing.TB, dir string) driver.Provider { return n.provider(t, os.Getenv(fakeVar), dir) },
		Leftovers: func(_ testing.TB, dir string) []string { return n.leftovers(dir) },
	})
}

// useFakeNode starts a fake node; nil in a process that the suite started.
func useFakeNode(t *testing.T) *fakeNode {
	t.Helper()
	if os.Getenv(fakeVar) != "" {
		return nil
	}
	n := newFakeNode(t)
	t.Setenv(fakeVar, n.server.URL)
	t.Setenv(cacheVar, filepath.Join(n.dir, "cache"))
	return n
}

// ServeHTTP serves /api/v1/namespaces/NAMESPACE/RESOURCE[/NAME[/VERB]].
func (n *fakeNode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/api/v1/namespaces/"), "/")
	resource, name := parts[1], ""
	if len(parts) > 2 {
		name = parts[2]
	}
	if len(parts) > 3 {
		n.serveStream(w, r, name, parts[3])
		return
	}
	if r.URL.Query().Get("watch") != "" {
		n.serveWatch(w, r)
		return
	}
	answer, err := n.serveObject(r, resource, name)
	status := http.StatusOK
	if err != nil {
		var told *apierrors.StatusError
		if !errors.As(err, &told) {
			told = apierrors.NewInternalError(err)
		}
		s := told.Status()
		s.Kind, s.APIVersion = "Status", "v1"
		answer, status = s, int(s.Code)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(answer)
}

func (n *fakeNode) serveObject(r *http.Request, resource, name string) (any, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	group, key := schema.GroupResource{Resource: resource}, resource+"/"+name
	old := n.objects[key]
	if name != "" && old == nil {
		return nil, apierrors.NewNotFound(group, name)
	}
	switch r.Method {
	case http.MethodGet:
		if name != "" {
			return old, nil
		}
		selector, err := labels.Parse(r.URL.Query().Get("labelSelector"))
		if err != nil {
			return nil, err
		}
		items := []metav1.Object{}
		for k, o := range n.objects {
			if strings.HasPrefix(k, resource+"/") && selector.Matches(labels.Set(o.GetLabels())) {
				items = append(items, o)
			}
		}
		return map[string]any{"apiVersion": "v1", "items": items}, nil
	case http.MethodPost, http.MethodPut:
		o := map[string]func() metav1.Object{
			"secrets": func() metav1.Object { return new(corev1.Secret) }, "persistentvolumeclaims": func() metav1.Object { return new(corev1.PersistentVolumeClaim) },
			"pods": func() metav1.Object { return new(corev1.Pod) },
		}[resource]()
		if err := json.NewDecoder(r.Body).Decode(o); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		key = resource + "/" + o.GetName()
		old = n.objects[key]
		switch {
		case r.Method == http.MethodPost && old != nil:
			return nil, apierrors.NewAlreadyExists(group, o.GetName())
		case r.Method == http.MethodPut && o.GetResourceVersion() != old.GetResourceVersion():
			return nil, apierrors.NewConflict(group, o.GetName(), errors.New("it was changed"))
		case r.Method == http.MethodPost:
			o.SetUID(types.UID(driver.NewID()))
			o.SetCreationTimestamp(metav1.Now())
		}
		n.put(key, o)
		if pod, ok := o.(*corev1.Pod); ok {
			n.ends.Go(func() { n.runPod(pod.DeepCopy()) })
		}
		return o, nil
	}
	return n.remove(r, resource, old)
}

// put stores an object with a new version. n.mu is held.
func (n *fakeNode) put(key string, o metav1.Object) {
	n.version++
	o.SetResourceVersion(strconv.FormatInt(n.version, 10))
	n.objects[key] = o
	n.changed.Broadcast()
}

// remove serves a deletion. n.mu is held.
func (n *fakeNode) remove(r *http.Request, resource string, o metav1.Object) (any, error) {
	var opts metav1.DeleteOptions
	if data, err := io.ReadAll(r.Body); err != nil || len(data) > 0 && json.Unmarshal(data, &opts) != nil {
		return nil, apierrors.NewBadRequest("delete options")
	}
	if c := opts.Preconditions; c != nil && c.UID != nil && *c.UID != o.GetUID() {
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: resource}, o.GetName(), errors.New("the UID differs"))
	}
	if o.GetDeletionTimestamp() != nil {
		return o, nil
	}
	now := metav1.Now()
	switch was := o.(type) {
	case *corev1.Pod:
		pod := was.DeepCopy()
		pod.DeletionTimestamp = &now
		n.put("pods/"+pod.Name, pod)
		n.ends.Go(func() { n.endPod(pod) })
	case *corev1.PersistentVolumeClaim:
		claim := was.DeepCopy()
		claim.DeletionTimestamp = &now
		n.put("persistentvolumeclaims/"+claim.Name, claim)
		n.ends.Go(func() { n.endClaim(claim.Name) })
	default:
		delete(n.objects, resource+"/"+o.GetName())
	}
	return map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Success"}, nil
}

// endPod ends the container of a pod, and removes the pod.
func (n *fakeNode) endPod(pod *corev1.Pod) {
	n.mu.Lock()
	c := n.pods[pod.UID]
	n.mu.Unlock()
	for ended := c == nil; !ended; { // again: runc may not have created it yet
		n.runc("kill", c.name, "KILL")
		select {
		case <-c.done:
			ended = true
		case <-time.After(watchPause):
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if now := n.objects["pods/"+pod.Name]; now != nil && now.GetUID() == pod.UID {
		delete(n.objects, "pods/"+pod.Name)
	}
	n.version++
	n.changed.Broadcast()
}

// endClaim removes a claim once no pod uses it.
func (n *fakeNode) endClaim(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for n.objects["pods/"+name] != nil {
		n.changed.Wait()
	}
	delete(n.objects, "persistentvolumeclaims/"+name)
	os.RemoveAll(filepath.Join(n.dir, "claims", name))
}

// serveWatch serves the events of one pod.
func (n *fakeNode) serveWatch(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=")
	since := r.URL.Query().Get("resourceVersion")
	w.Header().Set("Content-Type", "application/json")
	w.(http.Flusher).Flush()
	defer context.AfterFunc(r.Context(), n.changed.Broadcast)()
	n.mu.Lock()
	defer n.mu.Unlock()
	for r.Context().Err() == nil {
		o := n.objects["pods/"+name]
		if o != nil && o.GetResourceVersion() == since {
			n.changed.Wait()
			continue
		}
		event := map[string]any{"type": "MODIFIED", "object": o}
		if o == nil {
			event = map[string]any{"type": "DELETED", "object": &corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}}}
		} else {
			since = o.GetResourceVersion()
		}
		data, _ := json.Marshal(event)
		n.mu.Unlock()
		_, err := w.Write(append(data, '\n'))
		w.(http.Flusher).Flush()
		n.mu.Lock()
		if err != nil || o == nil {
			return
		}
	}
}

// runPod runs the container of a pod.
func (n *fakeNode) runPod(pod *corev1.Pod) {
	c, err := n.startContainer(pod)
	state := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	if err != nil {
		state = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 128, Message: err.Error()}}
	}
	n.setStatus(pod, state)
	if err != nil {
		return
	}
	err = c.cmd.Wait()
	close(c.done)
	ended := &corev1.ContainerStateTerminated{ExitCode: int32(c.cmd.ProcessState.ExitCode()), Reason: "Completed"}
	if err != nil {
		ended.Reason = "Error"
	}
	n.runc("delete", "-f", c.name)
	n.setStatus(pod, corev1.ContainerState{Terminated: ended})
}

func (n *fakeNode) setStatus(pod *corev1.Pod, state corev1.ContainerState) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now, ok := n.objects["pods/"+pod.Name].(*corev1.Pod)
	if !ok || now.UID != pod.UID {
		return
	}
	now = now.DeepCopy()
	now.Kind, now.APIVersion = "Pod", "v1"
	now.Status.Phase = corev1.PodRunning
	if state.Terminated != nil {
		now.Status.Phase = corev1.PodFailed
	}
	now.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: containerName, State: state}}
	n.put("pods/"+pod.Name, now)
}

// startContainer starts the container of a pod as its spec says, without its init container.
func (n *fakeNode) startContainer(pod *corev1.Pod) (*fakePod, error) {
	spec := pod.Spec.Containers[0]
	bundle := filepath.Join(n.dir, "pods", string(pod.UID))
	mount := func(at, kind, source string, options ...string) map[string]any {
		return map[string]any{"destination": at, "type": kind, "source": source, "options": options}
	}
	mounts := []map[string]any{
		mount("/proc", "proc", "proc"), mount("/dev", "tmpfs", "tmpfs", "nosuid", "mode=755"), mount("/dev/pts", "devpts", "devpts", "newinstance", "ptmxmode=0666", "mode=0620"),
		mount("/dev/shm", "tmpfs", "shm", "nosuid", "mode=1777"), mount("/sys", "sysfs", "sysfs", "ro"), mount("/sys/fs/cgroup", "cgroup", "cgroup", "ro"),
	}
	for _, m := range spec.VolumeMounts {
		i := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
		source := filepath.Join(bundle, m.Name)
		switch claim := pod.Spec.Volumes[i].PersistentVolumeClaim; {
		case m.Name == "program":
			source = filepath.Join(n.dir, "program")
		case claim != nil:
			source = filepath.Join(n.dir, "claims", claim.ClaimName, m.SubPath)
		}
		if err := os.MkdirAll(source, 0o755); err != nil {
			return nil, err
		}
		options := []string{"rbind"}
		if m.ReadOnly {
			options = append(options, "ro")
		}
		switch m.Name {
		case "program":
		case "box": // as the init container makes it
			if err := errors.Join(os.Chmod(source, 0o733|os.ModeSticky), os.Chown(source, fakeUser+1, fakeUser)); err != nil {
				return nil, err
			}
		default:
			if err := os.Chmod(source, 0o777); err != nil {
				return nil, err
			}
		}
		mounts = append(mounts, mount(m.MountPath, "bind", source, options...))
	}
	resources := map[string]any{}
	if memory, ok := spec.Resources.Limits[corev1.ResourceMemory]; ok {
		resources["memory"] = map[string]any{"limit": memory.Value()}
	}
	if cpu, ok := spec.Resources.Limits[corev1.ResourceCPU]; ok {
		resources["cpu"] = map[string]any{"quota": cpu.MilliValue() * 100, "period": 100000}
	}
	name := pod.Name + "-" + string(pod.UID)
	config, err := json.Marshal(map[string]any{
		"ociVersion": "1.0.2", "hostname": pod.Spec.Hostname, "root": map[string]any{"path": n.rootfs, "readonly": true}, "mounts": mounts,
		"process": map[string]any{
			"args": spec.Command, "cwd": spec.WorkingDir, "env": []string{"PATH=/usr/bin:/bin"}, "noNewPrivileges": true,
			"user": map[string]any{"uid": fakeUser, "gid": fakeUser},
		},
		"linux": map[string]any{
			"namespaces": []map[string]string{{"type": "pid"}, {"type": "network"}, {"type": "ipc"}, {"type": "uts"}, {"type": "mount"}},
			"resources":  resources, "cgroupsPath": "/" + filepath.Base(n.dir) + "/" + name,
		},
	})
	if err == nil {
		err = os.WriteFile(filepath.Join(bundle, "config.json"), config, 0o600)
	}
	if err != nil {
		return nil, err
	}
	c := &fakePod{name: name, done: make(chan struct{})}
	c.cmd = n.runc("run", "--bundle", bundle, name)
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	c.stdout, c.cmd.Stdout, c.cmd.Stderr = outR, outW, os.Stderr
	err = c.cmd.Start()
	outW.Close()
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	n.pods[pod.UID] = c
	n.mu.Unlock()
	return c, nil
}

// serveStream serves attach and exec over SPDY, version 4 of the protocol.
func (n *fakeNode) serveStream(w http.ResponseWriter, r *http.Request, name, verb string) {
	n.mu.Lock()
	var c *fakePod
	if o := n.objects["pods/"+name]; o != nil {
		c = n.pods[o.GetUID()]
	}
	n.mu.Unlock()
	if c == nil {
		http.Error(w, "no container", http.StatusNotFound)
		return
	}
	if _, err := httpstream.Handshake(r, w, []string{"v4.channel.k8s.io"}); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	want := 3
	if r.URL.Query().Get("stderr") != "" {
		want++
	}
	arrived := make(chan httpstream.Stream, want)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, replied <-chan struct{}) error {
		arrived <- s
		return nil
	})
	if conn == nil {
		return
	}
	defer conn.Close()
	streams := map[string]httpstream.Stream{}
	for len(streams) < want {
		select {
		case s := <-arrived:
			streams[s.Headers().Get(corev1.StreamType)] = s
		case <-conn.CloseChan():
			return
		}
	}
	status := metav1.Status{Status: metav1.StatusSuccess}
	if verb == "exec" {
		status = n.exec(conn, c, r.URL.Query()["command"], streams)
	} else {
		go func() {
			io.Copy(c.stdin, streams["stdin"])
			c.stdin.Close() // stdinOnce
		}()
		out := make(chan struct{})
		go func() {
			io.Copy(streams["stdout"], c.stdout)
			close(out)
		}()
		select {
		case <-conn.CloseChan():
		case <-out:
		}
	}
	json.NewEncoder(streams["error"]).Encode(status)
}

func (n *fakeNode) exec(conn httpstream.Connection, c *fakePod, argv []string, streams map[string]httpstream.Stream) metav1.Status {
	cmd := n.runc(append([]string{"exec", c.name}, argv...)...)
	var stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = streams["stdout"], io.MultiWriter(&stderr, streams["stderr"])
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return apierrors.NewInternalError(err).Status()
	}
	go func() {
		io.Copy(in, streams["stdin"])
		in.Close()
	}()
	stop := make(chan struct{})
	go func() {
		select {
		case <-conn.CloseChan():
			in.Close()
		case <-stop:
		}
	}()
	err = cmd.Wait()
	close(stop)
	if err == nil {
		return metav1.Status{Status: metav1.StatusSuccess}
	}
	return metav1.Status{
		Status: metav1.StatusFailure, Reason: "NonZeroExitCode", Message: fmt.Sprint(err, ": ", stderr.String()),
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: "ExitCode", Message: strconv.Itoa(cmd.ProcessState.ExitCode())}}},
	}
}
