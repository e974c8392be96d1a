package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/guest"
	"github.com/croft-run/croft/internal/host/guest/supervise"
	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/workspace/driver"
)

// Paths and names in a pod.
const (
	containerName = "workspace"
	initName      = "guest"
	rootInside    = "/workspace"
	boxInside     = "/.croft"       // the guest's own files; the workload can't list it
	boxVolume     = "/.croft-box"   // the volume of it, in the init container
	boxPath       = "box"           // its directory in the volume
	programDir    = "/.croft-guest" // of the guest's program
	program       = programDir + "/croft-guest"

	// filesPath is the directory of the volume with the files: a volume may have others at
	// its root, such as lost+found.
	filesPath = "files"

	// guestThreads is the number of threads of the guest, which a limit of the node's pods
	// counts, too.
	guestThreads = 24
)

// guestVersion is what host and guest must agree on.
func (p *Provider) guestVersion() string {
	return fmt.Sprintf("%d %s", guestproto.Protocol, p.cfg.GuestImage)
}

// A launch is a pod to start, with a guest in it.
type launch struct {
	id     string // of the workspace
	name   string // of the pod
	policy driver.Policy
	opts   options
	token  string
	level  driver.Isolation
	owner  []metav1.OwnerReference
	claim  string    // "" is a temporary volume
	pod    types.UID // whose emptyDir has the files; "" if another pod may be started
	key    string    // digest of the pod's settings
}

// newLaunch returns the pod of a workspace.
func (p *Provider) newLaunch(st *state, level driver.Isolation) (*launch, error) {
	key, err := p.podKey(st, level)
	if err != nil {
		return nil, err
	}
	l := &launch{
		id: st.ID, name: objectName(st.ID), policy: st.Policy, opts: st.Options, token: st.Token, level: level, owner: st.owner(), pod: st.Pod, key: key,
	}
	if st.Options.Volume != VolumeEmptyDir {
		l.claim = l.name
	}
	return l, nil
}

// podKey returns the digest of a pod's settings.
func (p *Provider) podKey(st *state, level driver.Isolation) (string, error) {
	key, err := supervise.Key(p.guestVersion(), st.Options, st.Policy.Env, st.Policy.ReadOnly, st.Policy.Limits, st.Policy.Durable, p.cfg.UID, level, st.Policy.Network.None())
	if err != nil {
		return "", fmt.Errorf("kubernetes: %w", err)
	}
	return key, nil
}

// emptyDirLease is that of a guest whose files end with it: longer than a workspace lives.
const emptyDirLease = 10 * 365 * 24 * time.Hour

// guestConfig returns the configuration of the guest.
func (p *Provider) guestConfig(l *launch) guestproto.Config {
	cfg := guestproto.Config{
		Version: p.guestVersion(), Workspace: l.id, Level: l.level, Root: rootInside, UID: -1, Token: l.token,
		Confine: guestproto.Confine{NoNewPrivs: true, DropCaps: true, Seccomp: true, NoNetwork: l.policy.Network.None()},
		Limits:  l.policy.Limits.WithoutBestEffort(), Lease: p.cfg.Lease, WatchDisk: true, Threads: guestThreads,
		Env: guest.ContainerEnv(nil, l.policy.Env), Files: true, ReadOnly: l.policy.ReadOnly, Sync: l.policy.Durable,
	}
	if !l.policy.Network.None() {
		configureProxy(&cfg, l.policy.Network)
	}
	if l.opts.Volume == VolumeEmptyDir {
		cfg.Lease = emptyDirLease
	}
	return cfg
}

// podSpec returns the pod.
func (p *Provider) podSpec(l *launch) *corev1.Pod {
	yes, no, uid, other := true, false, p.cfg.UID, p.cfg.UID+1
	restricted := &corev1.SecurityContext{
		AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, RunAsNonRoot: &yes,
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	asOther := restricted.DeepCopy() // what it creates, the workload can't change
	asOther.RunAsUser = &other
	temporary := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	files := temporary
	switch {
	case l.opts.Volume == VolumeEmptyDir:
		size := resource.MustParse(l.opts.Size) // checked by checkSize
		files = corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &size}}
	case l.claim != "":
		files = corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: l.claim}}
	}
	memory := l.policy.Limits[driver.ResourceMemory].Max
	volumes := []corev1.Volume{{Name: "files", VolumeSource: files}, {Name: "box", VolumeSource: temporary}, {Name: "program", VolumeSource: temporary}}
	mounts := []corev1.VolumeMount{
		{Name: "files", MountPath: rootInside, SubPath: filesPath, ReadOnly: l.policy.ReadOnly},
		{Name: "box", MountPath: boxInside, SubPath: boxPath},
		{Name: "program", MountPath: programDir, ReadOnly: true},
	}
	for _, tmp := range []struct {
		name, at string
		part     int64
	}{{"tmp", "/tmp", 2}, {"var-tmp", "/var/tmp", 16}, {"run", "/run", 32}, {"home", guest.ContainerHome, 8}} {
		volumes = append(volumes, memoryVolume(tmp.name, memory, tmp.part))
		mounts = append(mounts, corev1.VolumeMount{Name: tmp.name, MountPath: tmp.at})
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: l.name, Labels: p.ownLabels(l.id), OwnerReferences: l.owner, Annotations: map[string]string{annotationKey: l.key}},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: &no, EnableServiceLinks: &no, Hostname: "croft",
			NodeSelector: p.cfg.NodeSelector, Tolerations: p.cfg.Tolerations, Volumes: volumes,
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: &yes, RunAsUser: &uid, RunAsGroup: &uid, FSGroup: &uid, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			InitContainers: []corev1.Container{{
				Name: initName, Image: p.cfg.GuestImage, ImagePullPolicy: p.cfg.PullPolicy,
				Command:         []string{"/croft-guest", guestproto.InstallVerb, program, boxVolume + "/" + boxPath},
				SecurityContext: asOther, VolumeMounts: []corev1.VolumeMount{{Name: "program", MountPath: programDir}, {Name: "box", MountPath: boxVolume}},
			}},
			Containers: []corev1.Container{{
				Name: containerName, Image: l.opts.Image, ImagePullPolicy: p.cfg.PullPolicy, Command: []string{program, guestproto.StdioVerb, boxInside},
				WorkingDir: rootInside, Stdin: true, StdinOnce: true, SecurityContext: restricted, VolumeMounts: mounts, Resources: p.resources(l.policy.Limits),
			}},
		},
	}
	grace := endGrace
	pod.Spec.TerminationGracePeriodSeconds = &grace
	if l.opts.RuntimeClass != "" {
		pod.Spec.RuntimeClassName = &l.opts.RuntimeClass
	}
	if p.cfg.UserNamespaces {
		pod.Spec.HostUsers = &no
	}
	for _, name := range p.cfg.PullSecrets {
		pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
	}
	return pod
}

// memoryVolume returns a temporary volume in memory, of at most 1/part of a memory limit: the
// OOM killer can't free its files.
func memoryVolume(name string, limit, part int64) corev1.Volume {
	v := &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}
	if limit > 0 {
		v.SizeLimit = resource.NewQuantity(max(limit/part, 64<<10), resource.BinarySI)
	}
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: v}}
}

// resources returns the requests and limits of the workspace's container.
func (p *Provider) resources(limits driver.Limits) corev1.ResourceRequirements {
	r := corev1.ResourceRequirements{Requests: corev1.ResourceList{}, Limits: corev1.ResourceList{}}
	if most := limits[driver.ResourceCPU].Max; most > 0 {
		r.Limits[corev1.ResourceCPU] = *resource.NewMilliQuantity(most, resource.DecimalSI)
	}
	if most := limits[driver.ResourceMemory].Max; most > 0 {
		r.Limits[corev1.ResourceMemory] = *resource.NewQuantity(most, resource.BinarySI)
	}
	for name, want := range p.cfg.Requests {
		if most, ok := r.Limits[name]; ok && most.Cmp(want) < 0 {
			want = most
		}
		r.Requests[name] = want
	}
	// Without a request of its own, a limit would be one: pods with limits would fill nodes
	// that do nothing.
	for name := range r.Limits {
		if _, ok := r.Requests[name]; !ok {
			r.Requests[name] = resource.MustParse("0")
		}
	}
	return r
}

// connectTries bounds the attempts to connect to a guest that another process may be
// configuring.
const (
	connectTries = 10
	connectPause = 200 * time.Millisecond
)

// connectGuest connects to the guest of a pod, and starts the pod if there is none like it and
// another one has the same files.
func (p *Provider) connectGuest(ctx context.Context, l *launch) (*guest.Client, error) {
	if l.pod != "" {
		return p.connectEmptyDir(ctx, l)
	}
	for tries := 0; ; tries++ {
		pod, err := p.getPod(ctx, l.name)
		if fault.Of(err) == fault.NotFound {
			c, err := p.startPod(ctx, l)
			if fault.Of(err) == fault.AlreadyExists { // by another process
				continue
			}
			return c, err
		}
		if err != nil {
			return nil, err
		}
		if l.matches(pod) {
			c, err := p.adoptGuest(ctx, l)
			if err == nil || ctx.Err() != nil {
				return c, err
			}
			replace := fault.Of(err) == fault.Evicted // the guest is of another version
			if tries < connectTries && !replace {
				if err := sleepContext(ctx, connectPause); err != nil {
					return nil, err
				}
				continue
			}
			if !replace && !errors.Is(err, errNoGuest) {
				return nil, err // of the API server; the guest may be well
			}
		}
		p.cfg.Log.Info("kubernetes: a pod is replaced", "workspace", l.id, "phase", pod.Status.Phase, "reason", pod.Status.Reason)
		if err := p.removePod(ctx, l.name, pod.UID); err != nil {
			return nil, err
		}
		tries = 0
	}
}

// connectEmptyDir connects to the guest of the pod whose emptyDir has the files.
func (p *Provider) connectEmptyDir(ctx context.Context, l *launch) (*guest.Client, error) {
	for tries := 0; ; tries++ {
		if _, err := p.getEmptyDirPod(ctx, l.name, l.pod); err != nil {
			return nil, err
		}
		c, err := p.adoptGuest(ctx, l)
		switch {
		case fault.Of(err) == fault.Evicted:
			return nil, fmt.Errorf("kubernetes: connect to the guest: %w: it is of another version, and the files are in an emptyDir of its pod", fault.Unavailable)
		case err == nil || ctx.Err() != nil || tries == connectTries:
			return c, err
		}
		if err := sleepContext(ctx, connectPause); err != nil {
			return nil, err
		}
	}
}

// matches reports whether a pod is what the launch would create, and has not ended.
func (l *launch) matches(pod *corev1.Pod) bool {
	return pod.Annotations[annotationKey] == l.key && !hasEnded(pod)
}

// hasEnded reports whether a pod has ended, or will.
func hasEnded(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// adoptGuest connects to the guest of a pod that exists.
func (p *Provider) adoptGuest(ctx context.Context, l *launch) (*guest.Client, error) {
	if err := p.awaitRunning(ctx, l.name); err != nil {
		return nil, err
	}
	return p.dialGuest(ctx, l)
}

// startPod creates a pod, configures its guest and connects to it. After an error the pod is
// removed, unless it is another process's: then the error is AlreadyExists.
func (p *Provider) startPod(ctx context.Context, l *launch) (*guest.Client, error) {
	pod, err := p.createPod(ctx, p.podSpec(l))
	if err != nil {
		return nil, err
	}
	driver.Step(ctx, "pod created")
	c, err := p.startGuest(ctx, l)
	if err != nil {
		clean := context.WithoutCancel(ctx)
		return nil, errors.Join(err, p.removePod(clean, l.name, pod.UID))
	}
	return c, nil
}

func (p *Provider) startGuest(ctx context.Context, l *launch) (*guest.Client, error) {
	if err := p.awaitRunning(ctx, l.name); err != nil {
		return nil, err
	}
	soon, cancel := context.WithTimeout(ctx, p.cfg.AnswerTimeout)
	defer cancel()
	stream, err := p.attachPod(soon, l.name)
	if err != nil {
		return nil, err
	}
	if err := guest.Configure(soon, stream, p.guestConfig(l)); err != nil {
		return nil, p.startError(ctx, l, stream.whyEnded("configure the guest", err))
	}
	stream.Close() //nolint:errcheck // it returns nil
	driver.Step(ctx, "guest configured")
	return p.dialGuest(ctx, l)
}

// startError adds to an error why the container of a pod has ended, if it has.
func (p *Provider) startError(ctx context.Context, l *launch, err error) error {
	pod, perr := p.getPod(ctx, l.name)
	if perr != nil {
		return err
	}
	if ended := endedState(pod); ended != nil {
		if ended.Reason == reasonOOM {
			return fmt.Errorf("kubernetes: start the guest: %w: the memory limit is too low for it", fault.ResourceExhausted)
		}
		return fmt.Errorf("kubernetes: start the guest: %w: the container ended with status %d, %s %s", fault.Failed, ended.ExitCode, ended.Reason, ended.Message)
	}
	return err
}

// reasonOOM is the kubelet's reason for a container that the kernel killed for memory.
const reasonOOM = "OOMKilled"

// endedState returns how the workspace's container ended; nil if it has not.
func endedState(pod *corev1.Pod) *corev1.ContainerStateTerminated {
	for i := range pod.Status.ContainerStatuses {
		if s := &pod.Status.ContainerStatuses[i]; s.Name == containerName {
			return s.State.Terminated
		}
	}
	return nil
}

// dialGuest connects to a guest that was configured.
func (p *Provider) dialGuest(ctx context.Context, l *launch) (*guest.Client, error) {
	soon, cancel := context.WithTimeout(ctx, p.cfg.AnswerTimeout)
	defer cancel()
	stream, err := p.execInPod(soon, l.name, program, guestproto.ConnectVerb)
	if err != nil {
		return nil, err
	}
	c, err := guest.DialStdio(soon, stream, l.token, p.guestVersion(), l.id)
	if err != nil {
		return nil, stream.whyEnded("connect to the guest", err)
	}
	c.WhyLost = p.whyLost(l)
	return c, nil
}

// whyLost returns a function that attributes the loss of a guest to the OOM killer.
func (p *Provider) whyLost(l *launch) func() driver.Cause {
	if l.policy.Limits[driver.ResourceMemory].Max == 0 {
		return nil
	}
	return func() driver.Cause {
		const timeout = 5 * time.Second // the kubelet reports it some time later
		ctx, cancel := context.WithTimeout(p.ctx, timeout)
		defer cancel()
		var cause driver.Cause
		p.awaitPod(ctx, l.name, func(pod *corev1.Pod) (bool, error) { //nolint:errcheck // then the cause is not known
			if pod == nil {
				return true, nil
			}
			ended := endedState(pod)
			if ended != nil && ended.Reason == reasonOOM {
				cause = driver.CauseOOM
			}
			return ended != nil, nil
		})
		return cause
	}
}

// permanentReasons are reasons of a container that waits which time does not change.
var permanentReasons = []string{"ErrImageNeverPull", "InvalidImageName", "CreateContainerConfigError"}

// awaitRunning waits until the workspace's container runs.
func (p *Provider) awaitRunning(ctx context.Context, name string) error {
	soon, cancel := context.WithTimeout(ctx, p.cfg.StartTimeout)
	defer cancel()
	last := ""
	err := p.awaitPod(soon, name, func(pod *corev1.Pod) (bool, error) {
		if pod == nil || pod.DeletionTimestamp != nil {
			return false, fmt.Errorf("kubernetes: start the pod: %w: it was deleted", fault.Unavailable)
		}
		var permanent bool
		last, permanent = waitReason(pod)
		switch {
		case pod.Status.Phase == corev1.PodFailed, pod.Status.Phase == corev1.PodSucceeded:
			if ended := endedState(pod); ended != nil && ended.Reason == reasonOOM {
				return false, fmt.Errorf("kubernetes: start the pod: %w: the memory limit is too low for the guest", fault.ResourceExhausted)
			}
			return false, fmt.Errorf("kubernetes: start the pod: %w: it ended: %s %s %s", fault.Failed, pod.Status.Reason, pod.Status.Message, last)
		case permanent:
			return false, fmt.Errorf("kubernetes: start the pod: %w: %s", fault.Failed, last)
		}
		return isRunning(pod), nil
	})
	if soon.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("kubernetes: start the pod: %w: it does not run after %v: %s", fault.Unavailable, p.cfg.StartTimeout, last)
	}
	return err
}

func isRunning(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == containerName && s.State.Running != nil })
}

// waitReason says why a pod does not run yet, and whether that will stay so.
func waitReason(pod *corev1.Pod) (text string, permanent bool) {
	var reasons []string
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		switch {
		case s.State.Waiting != nil:
			reasons = append(reasons, fmt.Sprintf("image %s: %s %s", s.Image, s.State.Waiting.Reason, s.State.Waiting.Message))
			permanent = permanent || slices.Contains(permanentReasons, s.State.Waiting.Reason)
		case s.State.Terminated != nil && s.State.Terminated.ExitCode != 0:
			reasons = append(reasons, fmt.Sprintf("container %s ended with status %d, %s %s", s.Name, s.State.Terminated.ExitCode, s.State.Terminated.Reason, s.State.Terminated.Message))
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status != corev1.ConditionTrue {
			reasons = append(reasons, c.Reason+": "+c.Message)
		}
	}
	return strings.Join(reasons, "; "), permanent
}
