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

// The order of snapshots is that of their times, except where the clock was set
// back: what is taken then has a number of its own, behind all that was taken
// before. The last number is noted beside the cache, once for the whole store.

// sequence is the place of a snapshot among others.
func (m *Manifest) sequence() int64 {
	if m.Order != 0 {
		return m.Order
	}
	return m.Created.UnixNano()
}

// compareNewestFirst compares snapshots: the newest comes first.
func compareNewestFirst(a, b *Manifest) int {
	return cmp.Or(cmp.Compare(b.sequence(), a.sequence()), b.Created.Compare(a.Created), strings.Compare(a.ID, b.ID))
}

// assignSequence puts a snapshot that is about to be published behind all others.
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

// loadSequence reads what this or another process noted. Where there is no note yet,
// the snapshots say it.
func (s *Store) loadSequence(ctx context.Context) int64 {
	if s.cache == "" {
		return 0
	}
	if text, err := os.ReadFile(s.sequencePath()); err == nil {
		if last, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil {
			return last
		}
	}
	all, _ := s.List(ctx) // those that can't be read have no say
	if len(all) == 0 {
		return 0
	}
	return all[0].sequence()
}

// saveSequence notes the last number. Like the cache it is a help: where it can't be
// written, snapshots are in the order of the clock.
func (s *Store) saveSequence(last int64) {
	if s.cache == "" {
		return
	}
	err := os.MkdirAll(s.cache, 0o700)
	if err == nil {
		err = atomicfile.Write(s.sequencePath(), strconv.AppendInt(nil, last, 10), atomicfile.Options{})
	}
	if err != nil {
		s.log.Warn("snapshot: the order can't be written", "error", err)
	}
}
