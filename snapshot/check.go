package snapshot

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/croft-run/croft/fault"
)

// Check reads and verifies the store: every pack, every object, and that each
// snapshot's objects exist. What it finds is in the report; an error means that it
// could not finish.
func (s *Store) Check(ctx context.Context) (*Report, error) {
	unlock, err := s.lockShared(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	r := &Report{Problems: []Flaw{}}
	good, err := s.checkPacks(ctx, r)
	if err != nil {
		return r, err
	}
	if err := s.refreshIndex(ctx); err != nil {
		return r, err
	}
	return r, s.checkSnapshots(ctx, r, good)
}

// checkPacks verifies every object of every pack, and returns the good ones.
func (s *Store) checkPacks(ctx context.Context, r *Report) (map[ID]bool, error) {
	good := map[ID]bool{}
	packs, err := s.be.List(ctx, kindPacks)
	if err != nil {
		return nil, err
	}
	for _, e := range packs {
		r.Packs++
		f, err := readFooter(ctx, s.be, e.ID, e.Size)
		if err == nil {
			err = s.checkHead(ctx, e.ID)
		}
		if err != nil {
			if err := addProblem(r, "pack "+e.ID, "", err); err != nil {
				return nil, err
			}
			continue
		}
		if err := s.checkBlocks(ctx, r, e.ID, f, good); err != nil {
			return nil, err
		}
	}
	return good, nil
}

func (s *Store) checkHead(ctx context.Context, pack string) error {
	head, err := s.be.ReadRange(ctx, kindPacks+"/"+pack, 0, int64(len(packMagic)))
	if err == nil && string(head) != packMagic {
		err = corruptError("pack %s: it does not start with the pack magic", pack)
	}
	return err
}

func (s *Store) checkBlocks(ctx context.Context, r *Report, pack string, f *footer, good map[ID]bool) error {
	at := 0
	for i, b := range f.blocks {
		plain, err := readBlock(ctx, s.be, pack, b)
		if err != nil {
			if err := addProblem(r, "pack "+pack, "", err); err != nil {
				return err
			}
		}
		for ; at < len(f.entries) && f.entries[at].block == i; at++ {
			e := f.entries[at]
			if err != nil {
				continue
			}
			r.Objects++
			if got := sum(plain[e.off : e.off+e.size]); got != e.id {
				r.Problems = append(r.Problems, Flaw{What: "object " + e.id.String(), Error: fmt.Sprintf("its content in pack %s has the digest %s", pack, got)})
				continue
			}
			good[e.id] = true
		}
	}
	return nil
}

// addProblem adds a problem. An error that is not a property of the store is
// returned.
func addProblem(r *Report, what, snapshot string, err error) error {
	code := fault.Of(err)
	if fault.CauseOf(err) != fault.CauseCorrupt && code != fault.NotFound {
		return err
	}
	r.Problems = append(r.Problems, Flaw{What: what, Snapshot: snapshot, Error: err.Error()})
	return nil
}

// checkSnapshots verifies that every object of every snapshot is good.
func (s *Store) checkSnapshots(ctx context.Context, r *Report, good map[ID]bool) error {
	entries, err := s.be.List(ctx, kindSnapshots)
	if err != nil {
		return err
	}
	needed := map[ID]bool{}
	for _, e := range entries {
		m, err := s.readManifest(ctx, e)
		if fault.Of(err) == fault.NotFound {
			continue
		}
		r.Snapshots++
		if err == nil {
			g := &gcRun{s: s, live: map[ID]bool{}}
			err = g.markTree(ctx, m.Root)
			for id := range g.live {
				needed[id] = true
				if !good[id] {
					r.Problems = append(r.Problems, Flaw{What: "object " + id.String(), Snapshot: e.ID, Error: "the object is missing or damaged"})
				}
			}
		}
		if err != nil {
			if err := addProblem(r, "snapshot "+e.ID, e.ID, err); err != nil {
				return err
			}
		}
	}
	for id := range good {
		if !needed[id] {
			r.Unneeded++
		}
	}
	return nil
}

// sortByLocation sorts objects by pack and block, so that each block is read once.
func (s *Store) sortByLocation(ids []ID) []ID {
	s.mu.RLock()
	defer s.mu.RUnlock()
	slices.SortFunc(ids, func(a, b ID) int {
		x, y := s.index[a], s.index[b]
		return cmp.Or(cmp.Compare(x.pack, y.pack), cmp.Compare(x.block, y.block), cmp.Compare(x.off, y.off))
	})
	return ids
}
