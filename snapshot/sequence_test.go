package snapshot

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestOrderOfAClockThatIsSetBack lists snapshots in the order in which they were
// taken, whatever the clock said, also by another process, by one that finds no note
// of the last one, and after ones that have only their time.
func TestOrderOfAClockThatIsSetBack(t *testing.T) {
	dir, tree := t.TempDir(), HostDir(plant(t, map[string]string{"f": "x"}), nil)
	now := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	start := func() *Store {
		return Open(Dir(filepath.Join(dir, "store")), &Options{CacheDir: filepath.Join(dir, "cache"), Now: func() time.Time { return now }})
	}
	var want []string
	take := func(s *Store) *Manifest {
		t.Helper()
		m, err := s.Take(t.Context(), tree, nil)
		must0(t, err)
		want = append(want, m.ID)
		return m
	}
	s := start()
	if first := take(s); first.Order != 0 {
		t.Errorf("with a clock that goes forth the order is %d, want it left to the time", first.Order)
	}
	take(s) // at the same instant
	now = now.Add(-time.Hour)
	if m := take(s); !m.Created.Equal(now) || m.Order == 0 {
		t.Errorf("after the clock was set back it is %v with the order %d", m.Created, m.Order)
	}
	now = now.Add(-24 * time.Hour)
	take(start())
	must0(t, os.Remove(filepath.Join(dir, "cache", "order")))
	take(start())
	must0(t, os.WriteFile(filepath.Join(dir, "cache", "order"), []byte("damaged"), 0o600))
	again := take(start())
	copied, err := start().Publish(t.Context(), *again)
	must0(t, err)
	want = append(want, copied.ID)
	now = now.Add(72 * time.Hour)
	if m := take(s); m.Order != 0 {
		t.Errorf("after the clock went on the order is %d, want it left to the time", m.Order)
	}
	list, err := start().List(t.Context())
	must0(t, err)
	var got []string
	for _, m := range slices.Backward(list) {
		got = append(got, m.ID)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the oldest first (-want +got):\n%s", diff)
	}
}
