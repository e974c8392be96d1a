package kubernetes

import (
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
	"github.com/croft-run/croft/workspace/workspacetest"
)

// emptyDirHarness returns providers whose workspaces have an emptyDir, in the cluster of the tests
// or else on a fake node.
func emptyDirHarness(t *testing.T) workspacetest.Harness {
	t.Helper()
	emptyDir := func(c *Config) { c.Volume = VolumeEmptyDir }
	if os.Getenv(clusterVar) != "" {
		return workspacetest.Harness{
			Provider:  func(t testing.TB, dir string) driver.Provider { return newProvider(t, dir, emptyDir) },
			Leftovers: leftovers,
			Secrets:   []string{os.Getenv(tokenVar)},
		}
	}
	n := useFakeNode(t)
	return workspacetest.Harness{
		Provider: func(t testing.TB, dir string) driver.Provider {
			return n.provider(t, os.Getenv(fakeVar), dir, emptyDir)
		},
		Leftovers: func(_ testing.TB, dir string) []string { return n.leftovers(dir) },
	}
}

// TestConformanceEmptyDir runs the suite on workspaces without a claim; on the fake node, as
// TestConformance takes long enough in the cluster.
//
//croft:slow
func TestConformanceEmptyDir(t *testing.T) {
	if os.Getenv(clusterVar) != "" {
		t.Skip("skipped: it runs on the fake node, without a cluster")
	}
	workspacetest.Run(t, emptyDirHarness(t))
}

// TestFilesInAnEmptyDir: the files are found by another process, and are gone with the pod. Nothing
// else ends the pod.
func TestFilesInAnEmptyDir(t *testing.T) {
	h, dir := emptyDirHarness(t), t.TempDir()
	p, other := h.Provider(t, dir).(*Provider), h.Provider(t, dir).(*Provider)
	spec := driver.Spec{ID: driver.NewID(), Kind: Kind}
	ws, err := p.Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(h.Leftovers(t, dir), func(name string) bool { return strings.Contains(name, "claim") }) {
		t.Errorf("there is a claim: %v", h.Leftovers(t, dir))
	}
	if ws.Traits.Persists() || ws.Traits.ReadOnly.By != "" || ws.Life.Update != nil {
		t.Errorf("the traits claim what an emptyDir does not give: %+v", ws.Traits)
	}
	write(t, ws, "kept", "before")
	again, err := other.Resolve(t.Context(), ws.Ref)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(run(t, again, "cat kept").Stdout); got != "before" {
		t.Errorf("another process reads %q", got)
	}

	changed := spec
	changed.Policy.Env = map[string]string{"A": "b"}
	if _, err := p.Open(t.Context(), changed); fault.Of(err) != fault.Unsupported {
		t.Errorf("a policy that needs another pod: got %v, want Unsupported", err)
	}
	if got := string(run(t, again, "cat kept").Stdout); got != "before" {
		t.Errorf("after a policy that was refused the file has %q", got)
	}
	for _, bad := range []driver.Spec{
		{ID: driver.NewID(), Kind: Kind, Policy: driver.Policy{ReadOnly: true}},
		{ID: driver.NewID(), Kind: Kind, Policy: driver.Policy{Durable: true}},
	} {
		if _, err := p.Open(t.Context(), bad); fault.Of(err) != fault.Unsupported {
			t.Errorf("policy %+v: got %v, want Unsupported", bad.Policy, err)
		}
	}

	if err := p.removePod(t.Context(), objectName(spec.ID), ""); err != nil {
		t.Fatal(err)
	}
	_, err = other.Resolve(t.Context(), ws.Ref)
	if fault.Of(err) != fault.Failed || fault.CauseOf(err) != fault.CauseGone {
		t.Errorf("resolve after the end of the pod: got %v, want Failed with the cause gone", err)
	}
	if _, err := p.Open(t.Context(), spec); fault.CauseOf(err) != fault.CauseGone {
		t.Errorf("open after the end of the pod: got %v, want the cause gone", err)
	}
	if err := ws.Life.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := h.Leftovers(t, dir); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestUnknownVolume(t *testing.T) {
	_, err := New(&Config{REST: &rest.Config{Host: "http://127.0.0.1:1"}, Namespace: "n", Instance: "i", GuestImage: guestImage, Volume: "hostPath"})
	if fault.Of(err) != fault.InvalidArgument || !strings.Contains(err.Error(), VolumeEmptyDir) {
		t.Errorf("got %v, want InvalidArgument with what is allowed", err)
	}
	p, err := New(&Config{REST: &rest.Config{Host: "http://127.0.0.1:1"}, Namespace: "n", Instance: "i", GuestImage: guestImage})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: Kind, Config: []byte(`{"volume": "hostPath"}`)}); fault.Of(err) != fault.InvalidArgument {
		t.Errorf("got %v, want InvalidArgument", err)
	}
}
