package snapshot

import (
	"context"
	"fmt"

	"github.com/croft-run/croft/fault"
)

// CopyOptions are the options of Copy.
type CopyOptions struct {
	// Credentials takes files along that are known to hold credentials, which are
	// left out otherwise: others may read the store that the copy goes to.
	Credentials bool

	// Base returns what a snapshot with a base lies over: a copy is always whole.
	// Nil refuses those.
	Base func(b Base) (Tree, error)

	Progress func(files, bytes int64) // see TakeOptions
}

// Copy copies a snapshot to another store, where it has an id of its own. What
// the other store has of it already is not written again.
func (s *Store) Copy(ctx context.Context, id string, to *Store, opts *CopyOptions) (*Manifest, error) {
	if opts == nil {
		opts = &CopyOptions{}
	}
	t, m, err := s.Tree(ctx, id)
	if err != nil {
		return nil, err
	}
	if len(m.Paths) > 0 {
		return nil, fmt.Errorf("snapshot: copy %s: %w: it is of some paths alone", id, fault.InvalidArgument)
	}
	if m.Base != (Base{}) {
		if opts.Base == nil {
			return nil, fmt.Errorf("snapshot: copy %s: %w: nobody knows what it lies over, %s %q", id, fault.Unsupported, m.Base.Kind, m.Base.Name)
		}
		lower, err := opts.Base(m.Base)
		if err != nil {
			return nil, err
		}
		t = Layer(lower, t)
	}
	return to.Take(ctx, t, &TakeOptions{Info: m.SnapshotInfo, NoCredentials: !opts.Credentials, Progress: opts.Progress})
}
