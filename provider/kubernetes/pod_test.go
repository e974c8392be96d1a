package kubernetes

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// TestPodSettings checks that what the configuration says reaches the pod.
func TestPodSettings(t *testing.T) {
	p, err := New(&Config{
		REST: &rest.Config{Host: "http://127.0.0.1:1"}, Namespace: "n", Instance: "i", GuestImage: guestImage, PullPolicy: corev1.PullAlways, PullSecrets: []string{"registry"},
		NodeSelector: map[string]string{"pool": "boxes"}, Tolerations: []corev1.Toleration{{Key: "boxes", Operator: corev1.TolerationOpExists}},
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("64Mi")}, UserNamespaces: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	limits := driver.Limits{driver.ResourceCPU: {Max: 500}, driver.ResourceMemory: {Max: 1 << 30}}
	pod := p.podSpec(&launch{id: "a", name: "croft-a", claim: "croft-a", policy: driver.Policy{Limits: limits}, opts: options{Image: testImage, RuntimeClass: "gvisor"},
		owner: []metav1.OwnerReference{{Kind: "Secret", Name: "croft-a"}}})
	spec, c := pod.Spec, pod.Spec.Containers[0]
	if *spec.RuntimeClassName != "gvisor" || spec.NodeSelector["pool"] != "boxes" || len(spec.Tolerations) != 1 || spec.ImagePullSecrets[0].Name != "registry" || *spec.HostUsers ||
		*spec.AutomountServiceAccountToken || len(pod.OwnerReferences) != 1 || c.ImagePullPolicy != corev1.PullAlways || spec.InitContainers[0].ImagePullPolicy != corev1.PullAlways {
		t.Errorf("the pod is not as configured: %+v", spec)
	}
	if got := spec.Volumes[0].PersistentVolumeClaim; got == nil || got.ClaimName != "croft-a" {
		t.Errorf("the files are in %+v", spec.Volumes[0])
	}
	for name, want := range map[corev1.ResourceName][2]string{corev1.ResourceCPU: {"500m", "500m"}, corev1.ResourceMemory: {"64Mi", "1Gi"}} {
		request, limit := c.Resources.Requests[name], c.Resources.Limits[name]
		if got := [2]string{request.String(), limit.String()}; got != want {
			t.Errorf("%s: request and limit are %v, want %v", name, got, want)
		}
	}
	pod = p.podSpec(&launch{id: "a", name: "croft-a", opts: options{Image: testImage, Volume: VolumeEmptyDir, Size: "1Gi"}})
	if got := pod.Spec.Volumes[0].EmptyDir; got == nil || got.SizeLimit.String() != "1Gi" {
		t.Errorf("the files are in %+v, want an emptyDir of 1Gi", pod.Spec.Volumes[0])
	}
}

// TestNoNodeHasRoom: the error has the scheduler's reason, and nothing is left.
func TestNoNodeHasRoom(t *testing.T) {
	dir := t.TempDir()
	p := newProvider(t, dir, func(c *Config) {
		c.NodeSelector, c.StartTimeout, c.Cache = map[string]string{"no-such": "node"}, 5*time.Second, ""
	})
	t.Cleanup(func() { p.Close() })
	_, err := p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: Kind})
	if !fault.IsTransient(err) || !strings.Contains(err.Error(), "nodes are available") {
		t.Errorf("got %v, want a transient failure with the scheduler's reason", err)
	}
	if left := leftovers(t, dir); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
