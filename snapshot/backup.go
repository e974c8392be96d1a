package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/croft-run/croft/fault"
)

// CauseBackup is the cause (CauseLabel) of snapshots that a backup took. They are removed
// when the backup is complete.
const CauseBackup = "backup"

// Backup calls put for every object of the store, with its name in a directory of Dir: its
// size, and a reader of its content. No object is removed meanwhile. A snapshot over
// directories of this host, such as the layers of a template, is written as a complete one
// under the same id. One whose directories are gone, or on another node, is left out, and
// returned.
func (s *Store) Backup(ctx context.Context, put func(name string, size int64, body io.Reader) error) (leftOut []string, err error) {
	unlock, err := s.lockShared(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	all, err := s.List(ctx)
	if err != nil {
		return nil, err
	}
	var temporary []string
	defer func() {
		for _, id := range temporary {
			err = errors.Join(err, s.be.Delete(context.WithoutCancel(ctx), kindSnapshots+"/"+id))
		}
	}()
	var manifests []*Manifest
	for _, m := range all {
		if m.Base != (Base{}) && len(m.Paths) == 0 {
			whole, err := s.takeWhole(ctx, m)
			if fault.Of(err) == fault.NotFound || s.checkHere(m) != nil {
				leftOut = append(leftOut, m.ID)
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("snapshot: back up %s: %w", m.ID, err)
			}
			temporary = append(temporary, whole.ID)
			m.Root, m.Base = whole.Root, Base{}
		}
		manifests = append(manifests, m)
	}
	packs, err := s.be.List(ctx, kindPacks)
	if err != nil {
		return nil, err
	}
	for _, e := range packs {
		name := kindPacks + "/" + e.ID
		if err := put(name, e.Size, &objectReader{ctx: ctx, be: s.be, name: name, size: e.Size}); err != nil {
			return nil, err
		}
	}
	for _, m := range manifests {
		data, err := encodeManifest(m)
		if err != nil {
			return nil, err
		}
		if err := put(kindSnapshots+"/"+m.ID, int64(len(data)), bytes.NewReader(data)); err != nil {
			return nil, err
		}
	}
	return leftOut, nil
}

// takeWhole takes a snapshot of the tree of another one with its base. Objects that the
// store has are not written again.
func (s *Store) takeWhole(ctx context.Context, m *Manifest) (*Manifest, error) {
	t, _, err := s.Whole(ctx, m.ID)
	if err != nil {
		return nil, err
	}
	info := m.SnapshotInfo
	info.Name, info.Labels = "", map[string]string{CauseLabel: CauseBackup}
	return s.Take(ctx, t, &TakeOptions{Info: info, Complete: true})
}

// RemoveBackups removes snapshots that a backup took and did not remove, because its
// process was killed. The caller knows that no backup is running.
func (s *Store) RemoveBackups(ctx context.Context) ([]string, error) {
	all, err := s.List(ctx)
	var removed []string
	for _, m := range all {
		if m.Labels[CauseLabel] != CauseBackup {
			continue
		}
		switch failed := s.Delete(ctx, m.ID); fault.Of(failed) {
		case fault.WrongState, fault.NotFound: // a restored workspace started from it; or it is gone
		default:
			if failed != nil {
				return removed, errors.Join(err, failed)
			}
			removed = append(removed, m.ID)
		}
	}
	return slices.Clip(removed), err
}

// objectReader reads an object of a backend from its beginning to its end.
type objectReader struct {
	ctx  context.Context // io.Reader has none
	be   Backend
	name string
	size int64
	off  int64
}

func (r *objectReader) Read(p []byte) (int, error) {
	if r.off == r.size {
		return 0, io.EOF
	}
	data, err := r.be.ReadRange(r.ctx, r.name, r.off, min(int64(len(p)), r.size-r.off))
	n := copy(p, data)
	r.off += int64(n)
	return n, err
}
