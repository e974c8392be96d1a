package snapshot

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/croft-run/croft/internal/atomicfile"
)

// Snapshots are ordered by creation time. If the clock was set back, a new snapshot
// gets an explicit sequence number after all earlier ones. The last number is
// stored beside the cache, for the whole store. Hosts that share a store in a bucket
// have clocks that differ: there it is that of the newest snapshot.

// sequence is the sort key of a snapshot.
func (m *Manifest) sequence() int64 {
	if m.Order != 0 {
		return m.Order
	}
	return m.Created.UnixNano()
}

// compareNewestFirst sorts the newest snapshot first.
func compareNewestFirst(a, b *Manifest) int {
	return cmp.Or(cmp.Compare(b.sequence(), a.sequence()), b.Created.Compare(a.Created), strings.Compare(a.ID, b.ID))
}

// assignSequence orders a snapshot that is about to be published after all others.
func (s *Store) assignSequence(ctx context.Context, m *Manifest) {
	s.sequenceMu.Lock()
	defer s.sequenceMu.Unlock()
	last := max(s.lastSequence, s.loadSequence(ctx))
	m.Order = 0
	if m.sequence() <= last {
		m.Order = last + 1
	}
	s.lastSequence = m.sequence()
	s.saveSequence(s.lastSequence)
}

func (s *Store) sequencePath() string { return filepath.Join(s.cache, "order") }

// loadSequence reads the last sequence number; without the file it is that of the
// newest snapshot.
func (s *Store) loadSequence(ctx context.Context) int64 {
	_, local := s.be.(Locker)
	if s.cache == "" && local {
		return 0
	}
	if text, err := os.ReadFile(s.sequencePath()); err == nil && local {
		if last, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil {
			return last
		}
	}
	all, _ := s.listAll(ctx) // unreadable manifests are skipped
	if len(all) == 0 {
		return 0
	}
	return all[0].sequence()
}

// saveSequence stores the last sequence number, best effort: on failure, snapshots
// are ordered by the clock.
func (s *Store) saveSequence(last int64) {
	if _, local := s.be.(Locker); s.cache == "" || !local {
		return
	}
	err := os.MkdirAll(s.cache, 0o700)
	if err == nil {
		err = atomicfile.Write(s.sequencePath(), strconv.AppendInt(nil, last, 10), atomicfile.Options{})
	}
	if err != nil {
		s.log.Warn("snapshot: write the sequence number", "error", err)
	}
}
