package snapshot

import (
	"context"
	"fmt"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// budgetLabel marks a snapshot that counts against a disk budget; its value is the id
// of the workspace whose budget it is.
const budgetLabel = "croft.budget"

// A Budget bounds the snapshots of a workspace that its owner did not ask for: those of
// tools, such as an agent's, of forks, rollbacks and checkpoints.
type Budget struct {
	Max    int64 // bytes of content that these snapshots added to the store; 0 is no bound
	Shared bool  // forks count against the budget of the workspace that they were forked from
}

// NewBudget returns the budget of a policy: as much as its disk limit.
func NewBudget(p driver.Policy) Budget {
	return Budget{Max: p.Limits[driver.ResourceDisk].Max, Shared: p.ShareDisk}
}

// budgetOwner returns the id of the workspace whose budget counts.
func (a *Adapter) budgetOwner(ctx context.Context) (string, error) {
	if !a.Budget.Shared || a.Origin == "" {
		return a.Workspace, nil
	}
	m, err := a.Store.Get(ctx, a.Origin)
	switch {
	case fault.Of(err) == fault.NotFound:
		return a.Workspace, nil
	case err != nil:
		return "", err
	case m.Labels[budgetLabel] != "":
		return m.Labels[budgetLabel], nil
	case m.Labels[TemplateLabel] != "" || m.Workspace == "":
		return a.Workspace, nil
	}
	return m.Workspace, nil
}

// checkBudget adds the budget's label to the labels of a new snapshot, unless the owner
// of the workspace asked for the snapshot, and refuses it if the budget is used up.
func (a *Adapter) checkBudget(ctx context.Context, labels map[string]string) error {
	if a.Budget.Max == 0 || labels[CauseLabel] == "" && labels[ToolLabel] == "" {
		return nil
	}
	owner, err := a.budgetOwner(ctx)
	if err != nil {
		return err
	}
	all, err := a.Store.List(ctx)
	if err != nil && fault.CauseOf(err) != fault.CauseCorrupt {
		return err
	}
	used := int64(0)
	for _, m := range all {
		if m.Labels[budgetLabel] == owner {
			used += m.Added
		}
	}
	if used >= a.Budget.Max {
		err := fmt.Errorf("snapshot: take: %w: the snapshots of tools, forks and rollbacks added %d bytes, and the disk limit is %d",
			fault.ResourceExhausted, used, a.Budget.Max)
		return fault.Advise(err, "delete some snapshots")
	}
	labels[budgetLabel] = owner
	return nil
}
