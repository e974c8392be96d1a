// Command croft-k8s is croft with one more provider, kubernetes: workspaces are pods of a
// cluster. Variables of the environment configure it:
//
//	CROFT_K8S_GUEST_IMAGE    image with croft-guest of this release; required
//	CROFT_K8S_INSTANCE       name of the installation, the same for all of its processes; required
//	CROFT_K8S_NAMESPACE      namespace of the workspaces; default: that of the connection
//	CROFT_K8S_IMAGE          image of workspaces that name none
//	CROFT_K8S_STORAGE_CLASS  storage class of their claims; default: the cluster's
//	CROFT_K8S_SIZE           size of their claims
//	CROFT_K8S_RUNTIME_CLASS  RuntimeClass of their pods, such as gvisor
//	CROFT_K8S_VOLUME         claim, or emptyDir: the files are gone with the pod; default claim
//	CROFT_K8S_PULL_POLICY    Always, IfNotPresent or Never
//	CROFT_K8S_PULL_SECRETS   names of Secrets for the registries, as YAML: [registry]
//	CROFT_K8S_NODE_SELECTOR  labels of nodes on which pods run, as YAML: {pool: workspaces}
//	CROFT_K8S_TOLERATIONS    tolerations of pods, as YAML: [{key: workspaces, operator: Exists}]
//	CROFT_K8S_REQUESTS       what each pod requests of its node, as YAML: {cpu: 100m, memory: 256Mi}
//
// The cluster is that of KUBECONFIG or ~/.kube/config; in a pod it is the pod's own.
package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/croft-run/croft/daemon"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/datadir"
	"github.com/croft-run/croft/provider/kubernetes"
)

func main() {
	p, err := provider()
	if err != nil && isQuestion(os.Args[1:]) {
		os.Exit(daemon.Main())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "croft-k8s:", err)
		os.Exit(2)
	}
	os.Exit(daemon.Main(p))
}

// isQuestion reports whether the arguments ask for the version or for help, which need no cluster.
func isQuestion(args []string) bool {
	if len(args) == 0 || slices.Contains([]string{"version", "help", "completion"}, args[0]) {
		return true
	}
	return slices.Contains([]string{"--help", "-h"}, args[len(args)-1]) && !slices.Contains(args, "--")
}

func provider() (*kubernetes.Provider, error) {
	cfg, err := readConfig()
	if err != nil {
		return nil, err
	}
	return kubernetes.New(cfg)
}

func readConfig() (*kubernetes.Config, error) {
	for _, name := range []string{"CROFT_K8S_INSTANCE", "CROFT_K8S_GUEST_IMAGE"} {
		if os.Getenv(name) == "" {
			return nil, fmt.Errorf("%w: the variable %s is required; docs/kubernetes.md has all", fault.InvalidArgument, name)
		}
	}
	data, err := datadir.Default()
	if err != nil {
		return nil, err
	}
	cfg := &kubernetes.Config{
		Namespace: os.Getenv("CROFT_K8S_NAMESPACE"), Instance: os.Getenv("CROFT_K8S_INSTANCE"),
		Image: os.Getenv("CROFT_K8S_IMAGE"), GuestImage: os.Getenv("CROFT_K8S_GUEST_IMAGE"), PullPolicy: corev1.PullPolicy(os.Getenv("CROFT_K8S_PULL_POLICY")),
		StorageClass: os.Getenv("CROFT_K8S_STORAGE_CLASS"), Size: os.Getenv("CROFT_K8S_SIZE"), Volume: os.Getenv("CROFT_K8S_VOLUME"), RuntimeClass: os.Getenv("CROFT_K8S_RUNTIME_CLASS"),
		Cache: filepath.Join(data, "kubernetes"),
		Log:   slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	return cfg, readPodSettings(cfg)
}

// readPodSettings reads the variables that are YAML.
func readPodSettings(cfg *kubernetes.Config) error {
	for _, v := range []struct {
		name, example string
		field         any
	}{
		{"CROFT_K8S_PULL_SECRETS", "[registry]", &cfg.PullSecrets},
		{"CROFT_K8S_NODE_SELECTOR", "{pool: workspaces}", &cfg.NodeSelector},
		{"CROFT_K8S_TOLERATIONS", "[{key: workspaces, operator: Exists}]", &cfg.Tolerations},
		{"CROFT_K8S_REQUESTS", "{cpu: 100m, memory: 256Mi}", &cfg.Requests},
	} {
		if err := yaml.UnmarshalStrict([]byte(os.Getenv(v.name)), v.field); err != nil {
			return fmt.Errorf("%w: the variable %s must be YAML such as %s: %w", fault.InvalidArgument, v.name, v.example, err)
		}
	}
	return nil
}
