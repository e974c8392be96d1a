package wsdir

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/gofrs/flock"

	"github.com/croft-run/croft/fault"
)

// A commitGuard lets the changes of one root be committed while the policy on disk
// allows them. A change that began under an older policy obeys the present one:
// when a revocation is acknowledged, no change that it forbids is made any more.
//
// A commit holds the lock of the state, shared; a change of the policy holds it
// exclusively.
type commitGuard struct {
	h       *Handle
	durable bool // changes are on stable storage
}

// CommitGuard returns what lets the changes be committed that go to a root under the
// policy of m: see boundary.Options.Commit.
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
		return fmt.Errorf("%w: the directory of the workspace is another one now, or none", fault.Evicted)
	}
	return change()
}

// checkPolicy asks the state on disk whether a change may be made.
func (g *commitGuard) checkPolicy() error {
	m, err := g.h.store.Read(g.h.id)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: the workspace was destroyed", fault.Evicted)
	case err != nil:
		return fmt.Errorf("%w: the state of the workspace is not valid any more", fault.Evicted)
	case m.Policy.ReadOnly:
		return fmt.Errorf("%w: the workspace has become read-only", fault.PermissionDenied)
	case m.Policy.Durable && !g.durable:
		return fmt.Errorf("%w: the workspace has become durable", fault.Evicted)
	}
	return nil
}
