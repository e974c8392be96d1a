package snapshot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// GC is a mark-and-sweep garbage collection. It removes packs without referenced
// objects, and rewrites packs that are mostly unreferenced or small. If a manifest
// or tree can't be read it removes nothing, since the set of referenced objects is
// then unknown.
func (s *Store) GC(ctx context.Context) (GCResult, error) {
	locker, locks := s.be.(Locker)
	if locks {
		unlock, err := locker.Lock(ctx, false)
		if err != nil {
			return GCResult{}, err
		}
		defer unlock()
		if err := locker.Clean(ctx); err != nil {
			return GCResult{}, err
		}
	}
	if err := s.refreshIndex(ctx); err != nil {
		return GCResult{}, err
	}
	g := &gcRun{s: s, live: map[ID]bool{}, locks: locks}
	if err := g.markLive(ctx); err != nil {
		return g.res, fmt.Errorf("snapshot: gc: nothing was removed: %w", err)
	}
	err := g.sweepPacks(ctx)
	s.blocks.dropAll()
	return g.res, errors.Join(err, s.refreshIndex(ctx))
}

// A gcRun is the state of one GC.
type gcRun struct {
	s     *Store
	live  map[ID]bool
	locks bool
	res   GCResult
}

// markLive collects the objects that snapshots and leases reference.
func (g *gcRun) markLive(ctx context.Context) error {
	all, err := g.s.listAll(ctx)
	if err != nil {
		return err
	}
	g.res.Snapshots = len(all)
	for _, m := range all {
		if err := g.markTree(ctx, m.Root); err != nil {
			return fmt.Errorf("of snapshot %s: %w", m.ID, err)
		}
	}
	err = g.markLeased(ctx)
	g.res.Objects = len(g.live)
	return err
}

func (g *gcRun) markTree(ctx context.Context, id ID) error {
	if g.live[id] {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	nodes, err := g.s.readTree(ctx, id)
	if err != nil {
		return err
	}
	g.live[id] = true
	for i := range nodes {
		n := &nodes[i]
		switch {
		case n.Type == driver.TypeDir:
			if err := g.markTree(ctx, n.Content); err != nil {
				return err
			}
		case n.Type != driver.TypeFile || n.Size == 0:
		case n.Size <= ChunkSize:
			g.live[n.Content] = true
		case !g.live[n.List]:
			chunks, err := g.s.readChunkList(ctx, n.List, n.Size)
			if err != nil {
				return err
			}
			g.live[n.List] = true
			for _, c := range chunks {
				if !c.IsZero() {
					g.live[c] = true
				}
			}
		}
	}
	return nil
}

// Packs below smallPack bytes are merged once there are minSmallPacks of them.
const (
	smallPack     = packSize / 8
	minSmallPacks = 8
)

func (g *gcRun) sweepPacks(ctx context.Context) error {
	g.s.mu.RLock()
	liveIn := map[uint32]int64{} // bytes
	for id := range g.live {
		if at, ok := g.s.index[id]; ok {
			liveIn[at.pack] += int64(at.size)
		}
	}
	var drop, sparse, tiny, spared []string
	for name, p := range g.s.packs {
		live, raw := liveIn[p.number], int64(0)
		for _, b := range p.blocks {
			raw += b.raw
		}
		switch {
		case live == 0:
			drop = append(drop, name)
		case live < raw/2:
			sparse = append(sparse, name)
		case g.s.condemned[name]:
			spared = append(spared, name)
		case p.size < smallPack:
			tiny = append(tiny, name)
		}
	}
	g.res.Packs = len(g.s.packs) - len(drop)
	g.s.mu.RUnlock()
	for _, name := range spared { // a snapshot taken meanwhile references it
		if err := g.s.be.Delete(ctx, kindCondemned+"/"+name); err != nil {
			return err
		}
	}
	if len(tiny) >= minSmallPacks {
		sparse = append(sparse, tiny...)
	}
	if len(sparse) > 0 {
		if err := g.rewritePacks(ctx, sparse); err != nil {
			return err
		}
		g.res.Rewritten = len(sparse)
		drop = append(drop, sparse...)
	}
	for _, name := range drop {
		if err := g.removePack(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// rewritePacks copies the live objects of packs into new packs.
func (g *gcRun) rewritePacks(ctx context.Context, packs []string) error {
	from := map[uint32]bool{}
	g.s.mu.RLock()
	for _, name := range packs {
		from[g.s.packs[name].number] = true
	}
	var move []ID
	for id := range g.live {
		if at, ok := g.s.index[id]; ok && from[at.pack] {
			move = append(move, id)
		}
	}
	before := len(g.s.packs)
	g.s.mu.RUnlock()
	w := &objectWriter{s: g.s, unlock: func() {}, base: ctx, fresh: map[ID]bool{}, moving: true}
	w.startGroup(ctx)
	defer w.close()
	for _, id := range g.s.sortByLocation(move) {
		data, err := g.s.readObject(ctx, id)
		if err != nil {
			return err
		}
		if err := w.putAs(id, data); err != nil {
			return err
		}
	}
	if err := w.flush(ctx); err != nil {
		return err
	}
	g.s.mu.RLock()
	g.res.Packs += len(g.s.packs) - before - len(packs)
	g.s.mu.RUnlock()
	g.res.Freed -= w.added
	return nil
}

// removePack removes a pack. On a backend without locks it condemns the pack first.
func (g *gcRun) removePack(ctx context.Context, name string) error {
	g.s.mu.RLock()
	size := g.s.packs[name].size
	g.s.mu.RUnlock()
	if !g.locks {
		ripe, err := g.condemnPack(ctx, name)
		if err != nil {
			return err
		}
		if !ripe {
			g.res.Condemned++
			return nil
		}
	}
	if err := g.s.be.Delete(ctx, kindPacks+"/"+name); err != nil {
		return err
	}
	if !g.locks {
		if err := g.s.be.Delete(ctx, kindCondemned+"/"+name); err != nil {
			return err
		}
	}
	g.res.Removed++
	g.res.Freed += size
	return nil
}

// condemnPack marks a pack, so that no writer references its objects from then on,
// and reports whether the mark is older than the grace period. Times are those of
// the backend's clock.
func (g *gcRun) condemnPack(ctx context.Context, name string) (ripe bool, err error) {
	now, err := g.backendTime(ctx)
	if err != nil {
		return false, err
	}
	marks, err := g.s.be.List(ctx, kindCondemned)
	if err != nil {
		return false, err
	}
	for _, m := range marks {
		if m.ID == name {
			return now.Sub(m.ModTime) >= g.s.grace, nil
		}
	}
	return false, g.s.createObject(ctx, kindCondemned+"/"+name, []byte(name))
}

// RemovalDue reports whether GC would remove packs that an earlier one condemned, by the clock of
// this host.
func (s *Store) RemovalDue(ctx context.Context) (bool, error) {
	if _, locks := s.be.(Locker); locks {
		return false, nil
	}
	marks, err := s.be.List(ctx, kindCondemned)
	return slices.ContainsFunc(marks, func(m Entry) bool { return s.now().Sub(m.ModTime) >= s.grace }), err
}

// backendTime reads the backend's clock, by the modification time of a new object.
func (g *gcRun) backendTime(ctx context.Context) (time.Time, error) {
	id := "clock" + driver.NewID()
	if err := g.s.createObject(ctx, kindCondemned+"/"+id, []byte("now")); err != nil {
		return time.Time{}, err
	}
	defer g.s.be.Delete(ctx, kindCondemned+"/"+id) //nolint:errcheck // it names no pack, and the next run ignores it
	marks, err := g.s.be.List(ctx, kindCondemned)
	for _, m := range marks {
		if m.ID == id {
			return m.ModTime, nil
		}
	}
	if err == nil {
		err = fmt.Errorf("snapshot: the backend does not list an object that was just written: %w", fault.Unavailable)
	}
	return time.Time{}, err
}

func (s *Store) createObject(ctx context.Context, name string, data []byte) error {
	out, err := s.be.Create(ctx, name)
	if err != nil {
		return err
	}
	defer out.Abort()
	if _, err := out.Write(data); err != nil {
		return err
	}
	return out.Commit(ctx)
}
