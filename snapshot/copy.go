package snapshot

import (
	"context"
	"fmt"

	"github.com/croft-run/croft/fault"
)

// CopyOptions are the options of Copy.
type CopyOptions struct {
	// Credentials includes known credential files (see secret.CredentialFiles). By
	// default they are left out, since the target store may have other readers.
	Credentials bool

	Progress func(files, bytes int64) // see TakeOptions
}

// Copy copies a snapshot, with its base, to another store, under a new id. Objects
// that the target store has are not written again.
func (s *Store) Copy(ctx context.Context, id string, to *Store, opts *CopyOptions) (*Manifest, error) {
	if opts == nil {
		opts = &CopyOptions{}
	}
	t, m, err := s.Whole(ctx, id)
	if err != nil {
		return nil, err
	}
	if len(m.Paths) > 0 {
		return nil, fmt.Errorf("snapshot: copy %s: %w: a snapshot of single paths can't be copied", id, fault.InvalidArgument)
	}
	return to.Take(ctx, t, &TakeOptions{Info: m.SnapshotInfo, Complete: true, NoCredentials: !opts.Credentials, Progress: opts.Progress})
}
