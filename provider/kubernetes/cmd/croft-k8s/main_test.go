package main

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/provider/kubernetes"
)

func TestReadConfig(t *testing.T) {
	for name, value := range map[string]string{
		"HOME": t.TempDir(), "CROFT_K8S_INSTANCE": "team-a", "CROFT_K8S_GUEST_IMAGE": "guest:1", "CROFT_K8S_VOLUME": "emptyDir",
		"CROFT_K8S_PULL_SECRETS": "[one, two]", "CROFT_K8S_NODE_SELECTOR": `{"pool": "boxes"}`,
		"CROFT_K8S_TOLERATIONS": "[{key: boxes, operator: Exists}]", "CROFT_K8S_REQUESTS": "{cpu: 100m}",
	} {
		t.Setenv(name, value)
	}
	cfg, err := readConfig()
	if err != nil {
		t.Fatal(err)
	}
	cpu := cfg.Requests[corev1.ResourceCPU]
	if cfg.Volume != kubernetes.VolumeEmptyDir || len(cfg.PullSecrets) != 2 || cfg.NodeSelector["pool"] != "boxes" ||
		len(cfg.Tolerations) != 1 || cfg.Tolerations[0].Operator != corev1.TolerationOpExists || cpu.MilliValue() != 100 {
		t.Errorf("the configuration is %+v", cfg)
	}
	for name, bad := range map[string]string{
		"CROFT_K8S_PULL_SECRETS": "registry", "CROFT_K8S_NODE_SELECTOR": "pool", "CROFT_K8S_TOLERATIONS": "[{kye: boxes}]", "CROFT_K8S_REQUESTS": "{cpu: many}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, bad)
			if _, err := readConfig(); fault.Of(err) != fault.InvalidArgument || !strings.Contains(err.Error(), name) {
				t.Errorf("got %v, want InvalidArgument with the name of the variable", err)
			}
		})
	}
}
