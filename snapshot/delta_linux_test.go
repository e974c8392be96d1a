package snapshot

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDelta makes the upper layer between two states of random trees: over the old state it
// shows the new one.
func TestDelta(t *testing.T) {
	base := memoryDir(t)
	s := Open(Memory(), &Options{CacheDir: filepath.Join(base, "cache")})
	for i := range rounds("CROFT_SNAPSHOT_TREES", 100) {
		r := rand.New(rand.NewPCG(uint64(i), 11))
		dir := filepath.Join(base, "tree", strconv.Itoa(i))
		lower, upper := dir+".lower", dir+".upper"
		for _, d := range []string{dir, lower, upper} {
			must0(t, os.MkdirAll(d, 0o755))
		}
		budget := 40
		grow(t, r, dir, &budget, 0)
		old := take(t, s, dir, nil)
		must0(t, Extract(t.Context(), s.StoredTree(old.Root), lower, nil))
		mutate(t, r, dir)
		now := take(t, s, dir, nil)
		delta, err := s.Delta(t.Context(), old.Root, now.Root, 1000)
		must0(t, err)
		must0(t, Extract(t.Context(), delta, upper, &RestoreOptions{Upper: true}))
		merged := Layer(HostDir(lower, nil), HostDir(upper, &HostOptions{Upper: true}))
		if diff := cmp.Diff(describe(t, s.StoredTree(now.Root)), describe(t, merged)); diff != "" {
			t.Fatalf("seed %d: the layers differ from the tree (-tree +layers):\n%s", i, diff)
		}
		if same, err := s.Delta(t.Context(), now.Root, now.Root, 0); err != nil || len(describe(t, same)) != 0 {
			t.Errorf("seed %d: the delta of equal trees: %v, %v", i, same, err)
		}
		if few, err := s.Delta(t.Context(), old.Root, now.Root, len(describe(t, delta))-1); err != nil || few != nil {
			t.Errorf("seed %d: a delta with more entries than allowed: %v, %v", i, few, err)
		}
		for _, d := range []string{dir, lower, upper} {
			openAll(d)
			must0(t, os.RemoveAll(d))
		}
	}
}
