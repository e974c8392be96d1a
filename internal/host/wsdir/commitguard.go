package wsdir

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/gofrs/flock"

	"github.com/croft-run/croft/fault"
)

// A commitGuard checks the policy on disk again, under a shared flock of the state, when a
// change commits. A change of the policy takes the flock exclusively. So when a revocation
// is acknowledged, no change that it forbids is committed any more, also if the change
// began under the older policy.
type commitGuard struct {
	h       *Handle
	durable bool // changes are on stable storage
}

// CommitGuard returns the function that commits changes to a root under the policy of m:
// see files.Options.Commit.
func (h *Handle) CommitGuard(m *State) func(change func() error) error {
	g := &commitGuard{h: h, durable: m.Policy.Durable}
	return g.commit
}

func (g *commitGuard) commit(change func() error) error {
	lock := flock.New(g.h.store.Path(g.h.id, lockName), existingFile)
	defer lock.Close() //nolint:errcheck // the lock ends with the descriptor
	err := lock.RLock()
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: the workspace was destroyed", fault.Evicted)
	}
	if err != nil {
		return err
	}
	if err := g.checkPolicy(); err != nil {
		return err
	}
	if !g.h.dirUnchanged() {
		return fmt.Errorf("%w: the directory of the workspace was replaced or removed", fault.Evicted)
	}
	return change()
}

// checkPolicy reports whether the policy in the state on disk allows a change.
func (g *commitGuard) checkPolicy() error {
	m, err := g.h.store.Read(g.h.id)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: the workspace was destroyed", fault.Evicted)
	case err != nil:
		return fmt.Errorf("%w: the state file of the workspace is not valid", fault.Evicted)
	case m.Policy.ReadOnly:
		return fmt.Errorf("%w: the workspace has become read-only", fault.PermissionDenied)
	case m.Policy.Durable && !g.durable:
		return fmt.Errorf("%w: the workspace has become durable", fault.Evicted)
	}
	return nil
}
