package kubernetes

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

// Kind is the kind of this provider.
const Kind = "kubernetes"

// Config says in which cluster and namespace a provider keeps its workspaces, and what their
// pods are like.
type Config struct {
	// REST is the connection to the API server; nil means that of the pod this process runs
	// in, or else that of KUBECONFIG or ~/.kube/config.
	REST *rest.Config

	// Namespace is where the objects are; "" means that of the connection. It should have
	// nothing but workspaces.
	Namespace string

	// Instance names the installation: providers with the same namespace and instance share
	// their workspaces, and Sweep removes those of no other instance. It is a valid label.
	// Required.
	Instance string

	// Image is the image of workspaces that name none; "" means DefaultImage. GuestImage has
	// croft-guest of the same release as this program at /croft-guest. Required.
	Image      string
	GuestImage string

	// PullPolicy is of both images; "" is the cluster's default.
	PullPolicy  corev1.PullPolicy
	PullSecrets []string // names of Secrets in the namespace

	// StorageClass and Size are of the claims of workspaces that name none; "" means the
	// cluster's default class, and DefaultSize.
	StorageClass string
	Size         string

	// Volume says where the files of workspaces are that do not say it themselves: in a
	// VolumeClaim, or in a VolumeEmptyDir; "" means VolumeClaim.
	Volume string

	// RuntimeClass is that of workspaces that name none; "" means the cluster's default.
	RuntimeClass string

	// Where pods run.
	NodeSelector map[string]string
	Tolerations  []corev1.Toleration

	// Requests are what pods request of a node; a limit of the policy that is less wins.
	Requests corev1.ResourceList

	// UID is the user and group of guest and workload; 0 means DefaultUID. With
	// UserNamespaces they are mapped to others on the node, if the cluster can do that.
	UID            int64
	UserNamespaces bool

	// Lease is how long a guest lives while no process has its workspace open; 0 means
	// DefaultLease. StartTimeout bounds the start of a pod, with the pull of its images;
	// 0 means DefaultStartTimeout. AnswerTimeout bounds one call of the API server, and the
	// end of a pod; 0 means DefaultAnswerTimeout.
	Lease         time.Duration
	StartTimeout  time.Duration
	AnswerTimeout time.Duration

	// Cache is a directory for the results of Probe and for egress proxies. "" keeps the
	// results in memory, and refuses policies that allow hosts.
	Cache string

	// Snapshots is the store of snapshots; nil means no snapshots.
	Snapshots *snapshot.Store

	Log *slog.Logger // nil is silent
}

// Defaults of Config.
const (
	DefaultImage         = "debian:stable-slim"
	DefaultSize          = "10Gi"
	DefaultUID           = 65532
	DefaultLease         = 15 * time.Minute
	DefaultStartTimeout  = 5 * time.Minute
	DefaultAnswerTimeout = time.Minute
)

// Kinds of volumes.
const (
	// VolumeClaim is a PersistentVolumeClaim: the files outlive the pod.
	VolumeClaim = "claim"

	// VolumeEmptyDir is an emptyDir of at most Config.Size: the files are gone with the pod. So
	// the pod is created by Open and lives until Destroy, a policy that would need another pod
	// is refused, and the traits claim no durability.
	VolumeEmptyDir = "emptyDir"
)

// options is Spec.Config of this provider.
type options struct {
	// Image is the image of the pod.
	Image string `json:"image,omitempty"`

	// RuntimeClass is the RuntimeClass of the pod.
	RuntimeClass string `json:"runtimeClass,omitempty"`

	// Volume is VolumeClaim or VolumeEmptyDir. In a state VolumeClaim is "".
	Volume string `json:"volume,omitempty"`

	// StorageClass and Size are of the volume, as in "10Gi".
	StorageClass string `json:"storageClass,omitempty"`
	Size         string `json:"size,omitempty"`

	// From is the snapshot that the workspace started from. The provider sets it: it
	// can't be configured.
	From string `json:"from,omitempty"`
}

// Labels of all objects that this provider creates.
const (
	LabelManager   = "app.kubernetes.io/managed-by" // always "croft"
	LabelInstance  = "run.croft/instance"           // Config.Instance
	LabelWorkspace = "run.croft/workspace"          // id; "probe" of a probe's pod
)

// annotationKey is an annotation of pods: the digest of what the pod was made from.
const annotationKey = "run.croft/key"

// setDefaults fills in the defaults and checks the fields.
func (c *Config) setDefaults() error {
	if c.REST == nil || c.Namespace == "" {
		loading := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil)
		if c.REST == nil {
			var err error
			if c.REST, err = loading.ClientConfig(); err != nil { // in a pod it is the pod's own
				return fmt.Errorf("kubernetes: config: %w: there is no cluster; KUBECONFIG or ~/.kube/config names one: %w", fault.InvalidArgument, err)
			}
		}
		if c.Namespace == "" {
			var err error
			if c.Namespace, _, err = loading.Namespace(); err != nil {
				return fmt.Errorf("kubernetes: config: namespace: %w: %w", fault.InvalidArgument, err)
			}
		}
	}
	var errs []error
	invalid := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("kubernetes: config: %w: "+format, append([]any{fault.InvalidArgument}, args...)...))
	}
	if c.Instance == "" || len(validation.IsValidLabelValue(c.Instance)) > 0 {
		invalid("Instance %q must be a label: at most 63 letters, digits, \"-\", \"_\" and \".\"", c.Instance)
	}
	if c.GuestImage == "" {
		invalid("GuestImage is missing: the image with croft-guest")
	}
	if c.Image == "" {
		c.Image = DefaultImage
	}
	if c.Size == "" {
		c.Size = DefaultSize
	}
	if err := checkSize(c.Size); err != nil {
		errs = append(errs, fmt.Errorf("kubernetes: config: %w", err))
	}
	if err := checkVolume(c.Volume); err != nil {
		errs = append(errs, fmt.Errorf("kubernetes: config: %w", err))
	}
	if c.UID == 0 {
		c.UID = DefaultUID
	}
	if c.UID < 0 {
		invalid("UID %d is negative", c.UID)
	}
	for field, otherwise := range map[*time.Duration]time.Duration{
		&c.Lease: DefaultLease, &c.StartTimeout: DefaultStartTimeout, &c.AnswerTimeout: DefaultAnswerTimeout,
	} {
		if *field == 0 {
			*field = otherwise
		}
		if *field < 0 {
			invalid("times must not be negative")
		}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return errors.Join(errs...)
}

// capabilities are what a workspace has, without snapshots.
var capabilities = driver.NewCapabilities(driver.CapFS, driver.CapShell)

// checkVolume checks the kind of a volume.
func checkVolume(volume string) error {
	switch volume {
	case "", VolumeClaim, VolumeEmptyDir:
		return nil
	}
	return fmt.Errorf("volume %.80q: %w: it is %q or %q", volume, fault.InvalidArgument, VolumeClaim, VolumeEmptyDir)
}

// checkSize checks the size of a volume.
func checkSize(size string) error {
	q, err := resource.ParseQuantity(size)
	if err != nil || q.Sign() <= 0 {
		return fmt.Errorf("size %.80q: %w: it is a positive number of bytes, such as 10Gi", size, fault.InvalidArgument)
	}
	return nil
}
