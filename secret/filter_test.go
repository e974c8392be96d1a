package secret

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// places lists where a filter says that a text may begin.
func places(f *filter, p []byte) []int {
	var out []int
	for i := f.next(p, 0); i+4 <= len(p); i = f.next(p, i+1) {
		out = append(out, i)
	}
	return out
}

// checkPlaces checks that a filter finds every head: in wide blocks, in others, and
// without groups.
func checkPlaces(t *testing.T, f *Patterns, p []byte) {
	t.Helper()
	wide, narrow, plain := f.first, f.first, f.first
	if hasWide {
		wide.wide = wideReach
	}
	narrow.wide = math.MaxInt
	plain.groups = nil
	for how, first := range []*filter{&wide, &narrow, &plain} {
		got := places(first, p)
		for i := range len(p) - 3 {
			if _, head := f.heads[four(p[i:])]; head && !slices.Contains(got, i) {
				t.Fatalf("%q: found at %v in way %d, want %d among them", p, got, how, i)
			}
		}
	}
}

func providerHeads(tb testing.TB) *Patterns {
	tb.Helper()
	f, err := NewPatterns(Providers())
	if err != nil {
		tb.Fatal(err)
	}
	if hasBlocks && f.first.groups == nil {
		tb.Error("the heads of the providers are in no groups")
	}
	return f
}

func TestGroupsFindWhatTheFilterFinds(t *testing.T) {
	f := providerHeads(t)
	for _, head := range []string{"ghp_", "AKIA", "t://", "BEGIN ", "4b1d", "_gitlab"} {
		for before := range 134 { // at every place of a block, and around its ends
			for after := range 70 {
				p := []byte(strings.Repeat("x", before) + head + strings.Repeat("y", after))
				checkPlaces(t, f, p)
			}
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		p := make([]byte, random.IntN(600))
		for i := range p {
			p[i] = "aehkps_-:/.ABEGIKNT041 "[random.IntN(23)]
		}
		checkPlaces(t, f, p)
	}
}

func TestGroupsAreLeftWhereTheyAreEverywhere(t *testing.T) {
	var texts [][4]byte
	for a := byte('a'); a <= 'z'; a++ {
		for b := byte('a'); b <= 'z'; b++ {
			texts = append(texts, [4]byte{a, b, b, a}, [4]byte{' ', a, b, ' '})
		}
	}
	if g := newGroups(texts); g != nil {
		t.Error("there are groups of texts that are found everywhere")
	}
	if g := newGroups([][4]byte{{'g', 'h', 'p', '_'}}); g == nil {
		t.Error("there is no group of a text that is rare")
	}
}

func FuzzFilter(f *testing.F) {
	heads := providerHeads(f)
	f.Add([]byte("a ghp_0123 and postgres://u:p@h, then -----BEGIN RSA PRIVATE KEY----- and API_KEY=x"))
	f.Fuzz(func(t *testing.T, p []byte) { checkPlaces(t, heads, p) })
}
