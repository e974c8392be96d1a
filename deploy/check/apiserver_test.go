package check

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// clusterVar is the kubeconfig of an administrator of the tests' cluster, which "scripts/cluster
// run" sets.
const clusterVar = "CROFT_TEST_CLUSTER"

// TestAPIServerAccepts has a real API server check what kustomize builds and what Helm renders,
// without storing it: kubectl apply --dry-run=server. ServiceMonitor is a kind that the cluster
// of the tests does not have; TestManifests checks it by its Go type. That a network plugin
// enforces the NetworkPolicies is not tested.
func TestAPIServerAccepts(t *testing.T) {
	if os.Getenv(clusterVar) == "" {
		t.Skip("skipped: there is no cluster of the tests: \"make cluster\" builds and starts one, \"make test-cluster\" runs the tests in it")
	}
	t.Cleanup(func() { // the namespaces, which a dry run of objects in them needs
		kubectl(t, nil, "delete", "namespace", namespace, workspaces, "--ignore-not-found", "--wait=false")
	})
	t.Run("workspaces alone", func(t *testing.T) {
		dryRun(t, kustomize(t, "../kubernetes"), "networkpolicy.networking", "role.rbac", "rolebinding.rbac", "serviceaccount")
	})
	for _, v := range variants {
		want := []string{
			"configmap", "networkpolicy.networking", "poddisruptionbudget.policy", "role.rbac", "rolebinding.rbac", "service", "serviceaccount", "statefulset.apps",
		}
		t.Run(v.name+" by kustomize", func(t *testing.T) { dryRun(t, kustomize(t, v.kustomize), want...) })
		t.Run(v.name+" by Helm", func(t *testing.T) { dryRun(t, helm(t, readValues(t, v.values)), want...) })
	}
}

// dryRun applies documents without storing any but the namespaces. want are kinds that must be
// among them.
func dryRun(t *testing.T, text []byte, want ...string) {
	t.Helper()
	namespaces, all := splitNamespaces(t, text)
	kubectl(t, namespaces, "apply", "-f", "-")
	out := kubectl(t, all, "apply", "--dry-run=server", "--validate=strict", "-f", "-")
	if strings.Contains(out, "Warning") {
		t.Errorf("the API server warns:\n%s", out)
	}
	for _, kind := range want {
		if !strings.Contains(out, kind+".") && !strings.Contains(out, kind+"/") {
			t.Errorf("the API server did not check a %s:\n%s", kind, out)
		}
	}
}

// splitNamespaces returns the namespaces among documents, and all documents whose kind the API
// server knows.
func splitNamespaces(t *testing.T, text []byte) (namespaces, all []byte) {
	t.Helper()
	for doc := range strings.SplitSeq(string(text), "\n---\n") {
		var o struct{ Kind string }
		if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
			t.Fatalf("%v:\n%s", err, doc)
		}
		switch o.Kind {
		case "", "ServiceMonitor":
			continue
		case "Namespace":
			namespaces = fmt.Appendf(namespaces, "%s\n---\n", doc)
		}
		all = fmt.Appendf(all, "%s\n---\n", doc)
	}
	return namespaces, all
}

func kubectl(t *testing.T, stdin []byte, args ...string) string {
	t.Helper()
	cmd := exec.Command("kubectl", append([]string{"--kubeconfig", os.Getenv(clusterVar)}, args...)...)
	cmd.Stdin = bytes.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %v: %v\n%s", args, err, out)
	}
	return string(out)
}
