package tail

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

func TestTheEndIsKept(t *testing.T) {
	for name, test := range map[string]struct {
		most   int
		writes []string
		want   string
	}{
		"nothing": {10, nil, ""}, "little": {10, []string{"abc", "def"}, "abcdef"}, "full": {6, []string{"abc", "def"}, "abcdef"},
		"much": {4, []string{"abc", "def"}, "cdef"}, "at once": {4, []string{"abcdef"}, "cdef"}, "after": {4, []string{"abcdefgh", "i"}, "fghi"},
		"empty": {4, []string{"abc", ""}, "abc"}, "space": {10, []string{"\n a b \n"}, "a b"}, "cut in a letter": {3, []string{"xé", "ab"}, "?ab"},
		"by default": {0, []string{strings.Repeat("x", 3*DefaultMost)}, strings.Repeat("x", DefaultMost)},
	} {
		b := Buffer{Most: test.most}
		for _, w := range test.writes {
			if n, err := b.Write([]byte(w)); n != len(w) || err != nil {
				t.Errorf("%s: write %q: %d, %v", name, w, n, err)
			}
		}
		if got := b.String(); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestManyWrite(t *testing.T) {
	b := Buffer{Most: 100}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 100 {
				fmt.Fprintf(&b, "%08d\n", i)
				_ = b.String()
			}
		})
	}
	wg.Wait()
	if got := b.String(); len(got) != 98 || !strings.HasSuffix(got, "99") {
		t.Errorf("%q, want the last hundred bytes without the ends of lines around them", got)
	}
}

func TestHeadAndTailAreKept(t *testing.T) {
	for _, n := range []int{0, 1, 9, 10, 11, 19, 20, 21, 1000} {
		for _, step := range []int{1, 3, 7, 1000} {
			h, whole := HeadTail{Most: 10}, ""
			for i := range n {
				whole += string(rune('a' + i%26))
			}
			for rest := whole; rest != ""; {
				k := min(step, len(rest))
				h.Add([]byte(rest[:k]))
				rest = rest[k:]
			}
			head, tail, dropped := h.Kept()
			want := whole
			if n > 10 {
				want = whole[:5] + whole[n-5:]
			}
			if got := string(head) + string(tail); got != want || dropped != int64(n-len(want)) {
				t.Errorf("%d bytes by %d: %q and %d dropped, want %q", n, step, got, dropped, want)
			}
		}
	}
}
