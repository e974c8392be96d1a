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

	Progress func(files, bytes int64) // see TakeOptions
}

// Copy copies a snapshot, whole, to another store, where it has an id of its own.
// What the other store has of it already is not written again.
func (s *Store) Copy(ctx context.Context, id string, to *Store, opts *CopyOptions) (*Manifest, error) {
	if opts == nil {
		opts = &CopyOptions{}
	}
	t, m, err := s.Whole(ctx, id)
	if err != nil {
		return nil, err
	}
	if len(m.Paths) > 0 {
		return nil, fmt.Errorf("snapshot: copy %s: %w: it is of some paths alone", id, fault.InvalidArgument)
	}
	return to.Take(ctx, t, &TakeOptions{Info: m.SnapshotInfo, Complete: true, NoCredentials: !opts.Credentials, Progress: opts.Progress})
}
