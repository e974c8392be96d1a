package snapshot

import (
	"context"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// TestBudget: snapshots of tools are refused when the content that they added reaches the
// disk limit, and those of forks count with them where the policy says so. The owner of
// the workspace can always take one.
func TestBudget(t *testing.T) {
	const limit = 10_000
	store := Open(Dir(t.TempDir()), nil)
	adapter := func(id, origin string, shared bool, content string) *Adapter {
		dir := plant(t, map[string]string{"f": strings.Repeat(content, limit/len(content))})
		policy := driver.Policy{Limits: driver.Limits{driver.ResourceDisk: {Max: limit}}, ShareDisk: shared}
		return &Adapter{
			Store: store, Workspace: id, Origin: origin, Budget: NewBudget(policy),
			Now: func(context.Context) (View, error) { return View{Tree: HostDir(dir, nil)}, nil },
		}
	}
	ofTool := map[string]string{ToolLabel: "true"}
	a := adapter("a", "", false, "one")
	first, err := a.Snapshot(t.Context(), &driver.SnapshotOptions{Labels: ofTool})
	must0(t, err)
	if _, err := a.Snapshot(t.Context(), &driver.SnapshotOptions{Labels: ofTool}); fault.Of(err) != fault.ResourceExhausted {
		t.Errorf("a snapshot beyond the limit: %v, want %v", err, fault.ResourceExhausted)
	}
	if _, err := a.Snapshot(t.Context(), &driver.SnapshotOptions{}); err != nil {
		t.Errorf("a snapshot of the owner: %v", err)
	}
	for _, shared := range []bool{false, true} {
		_, err := adapter("fork", first.ID, shared, "two").Snapshot(t.Context(), &driver.SnapshotOptions{Labels: ofTool})
		if got := fault.Of(err) == fault.ResourceExhausted; got != shared {
			t.Errorf("in a fork, shared %v: %v", shared, err)
		}
	}
	must0(t, a.deleteSnapshot(t.Context(), first.ID, &driver.SnapshotAccess{}))
	if _, err := a.Snapshot(t.Context(), &driver.SnapshotOptions{Labels: ofTool}); err != nil {
		t.Errorf("after one was deleted: %v", err)
	}
}
