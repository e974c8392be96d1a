package plot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/gofrs/flock"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/flockfile"
)

// A gate lets the changes of one root be committed while the policy on disk
// allows them. A change that began under an older policy obeys the present one:
// when a revocation is acknowledged, no change that it forbids is made any more.
//
// A commit holds the meta locked, shared. A change of the policy puts a new meta
// in its place and then waits for the locks on the old one.
type gate struct {
	h       *Handle
	meta    string // its path
	durable bool   // changes are on stable storage
}

// Gate returns what lets the changes be committed that go to a root under the
// policy of m: see boundary.Options.Commit.
func (h *Handle) Gate(m *Meta) func(change func() error) error {
	g := &gate{h: h, meta: h.g.metaPath(h.id), durable: m.Policy.Durable}
	return g.commit
}

func (g *gate) commit(change func() error) error {
	lock, err := lockMeta(g.meta)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: the workspace was destroyed", fault.Evicted)
	}
	if err != nil {
		return err
	}
	defer lock.Close() //nolint:errcheck // the lock ends with the descriptor
	if err := g.judge(); err != nil {
		return err
	}
	if !g.h.stands() {
		return fmt.Errorf("%w: the directory of the workspace is another one now, or none", fault.Evicted)
	}
	return change()
}

// judge asks the meta on disk whether a change may be made.
func (g *gate) judge() error {
	data, err := os.ReadFile(g.meta)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: the workspace was destroyed", fault.Evicted)
	}
	if err != nil {
		return err
	}
	m, err := g.h.g.parse(data, g.h.id)
	switch {
	case err != nil:
		return fmt.Errorf("%w: the meta of the workspace is not valid any more", fault.Evicted)
	case m.Policy.ReadOnly:
		return fmt.Errorf("%w: the workspace has become read-only", fault.PermissionDenied)
	case m.Policy.Durable && !g.durable:
		return fmt.Errorf("%w: the workspace has become durable", fault.Evicted)
	}
	return nil
}

// existing locks a file only where there is one.
var existing = flock.SetFlag(os.O_RDONLY)

// lockMeta takes the shared lock on the meta that is at path.
func lockMeta(path string) (*flock.Flock, error) {
	for {
		l := flock.New(path, existing)
		if err := l.RLock(); err != nil {
			return nil, errors.Join(err, l.Close())
		}
		locked, err := l.Stat()
		if err == nil {
			var now fs.FileInfo
			if now, err = os.Lstat(path); err == nil && os.SameFile(locked, now) {
				return l, nil
			}
		}
		l.Close() //nolint:errcheck // the lock ends with the descriptor
		if err != nil {
			return nil, err
		}
	}
}

// unsettled opens the meta that is to be replaced; settle, called when it was,
// waits for the commits under it.
func (g *Ground) unsettled(ctx context.Context, id string) (settle func(), err error) {
	old, err := flockfile.RLock(ctx, g.metaPath(id), existing)
	if err != nil {
		return nil, err
	}
	return func() {
		// The new policy is on disk, so this wait does not end with the context.
		if err := errors.Join(old.Lock(), old.Close()); err != nil {
			g.log.Warn(g.kind+": wait for changes under the old policy", "workspace", id, "error", err)
		}
	}, nil
}
