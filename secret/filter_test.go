package secret

import (
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

// checkPlaces checks that a filter finds every head that a search at each place finds.
func checkPlaces(t *testing.T, f *Patterns, p []byte) {
	t.Helper()
	got := places(&f.first, p)
	for i := range len(p) - 3 {
		if _, head := f.heads[firstFour(p[i:])]; head && !slices.Contains(got, i) {
			t.Fatalf("%q: found at %v, want %d among them", p, got, i)
		}
	}
}

func providerHeads(tb testing.TB) *Patterns {
	tb.Helper()
	f, err := NewPatterns(Providers())
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

func TestFilterFindsEveryHead(t *testing.T) {
	f := providerHeads(t)
	for _, head := range []string{"ghp_", "AKIA", "t://", "BEGIN ", "4b1d", "_gitlab"} {
		for before := range 20 { // at every place of a stride, and around its ends
			for after := range 20 {
				checkPlaces(t, f, []byte(strings.Repeat("x", before)+head+strings.Repeat("y", after)))
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

func FuzzFilter(f *testing.F) {
	heads := providerHeads(f)
	f.Add([]byte("a ghp_0123 and postgres://u:p@h, then -----BEGIN RSA PRIVATE KEY----- and API_KEY=x"))
	f.Fuzz(func(t *testing.T, p []byte) { checkPlaces(t, heads, p) })
}
