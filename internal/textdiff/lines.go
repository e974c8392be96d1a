// Package textdiff compares texts line by line, by Myers' algorithm with a patience
// diff fallback.
package textdiff

import (
	"bytes"
	"slices"
)

// Split splits text after each newline; the last line may lack one.
func Split(data []byte) []string {
	lines := make([]string, 0, bytes.Count(data, []byte("\n"))+1)
	for len(data) > 0 {
		n := bytes.IndexByte(data, '\n') + 1
		if n == 0 {
			n = len(data)
		}
		lines = append(lines, string(data[:n]))
		data = data[n:]
	}
	return lines
}

// An Edit says that lines a[A0:A1] are replaced by b[B0:B1].
type Edit struct{ A0, A1, B0, B1 int }

// Lines returns the edits that turn a into b, in order. The list is the shortest
// one (Myers) up to maxDistance; for texts with more differences, lines that are
// unique in both are anchors, as in a patience diff.
func Lines(a, b []string) []Edit {
	d := differ{}
	ids := map[string]int{}
	number := func(lines []string) []int {
		out := make([]int, len(lines))
		for i, l := range lines {
			id, ok := ids[l]
			if !ok {
				id = len(ids)
				ids[l] = id
			}
			out[i] = id
		}
		return out
	}
	d.a, d.b = number(a), number(b)
	d.diffRange(0, len(a), 0, len(b))
	return d.edits
}

type differ struct {
	a, b  []int
	edits []Edit
}

// add appends an edit, merged with the previous one if they touch.
func (d *differ) add(e Edit) {
	if e.A0 == e.A1 && e.B0 == e.B1 {
		return
	}
	if n := len(d.edits); n > 0 && d.edits[n-1].A1 == e.A0 && d.edits[n-1].B1 == e.B0 {
		d.edits[n-1].A1, d.edits[n-1].B1 = e.A1, e.B1
		return
	}
	d.edits = append(d.edits, e)
}

func (d *differ) diffRange(a0, a1, b0, b1 int) {
	for a0 < a1 && b0 < b1 && d.a[a0] == d.b[b0] {
		a0, b0 = a0+1, b0+1
	}
	for a0 < a1 && b0 < b1 && d.a[a1-1] == d.b[b1-1] {
		a1, b1 = a1-1, b1-1
	}
	if a0 == a1 || b0 == b1 {
		d.add(Edit{a0, a1, b0, b1})
		return
	}
	if d.myersDiff(a0, a1, b0, b1) {
		return
	}
	anchors := d.uniqueAnchors(a0, a1, b0, b1)
	if len(anchors) == 0 {
		d.add(Edit{a0, a1, b0, b1})
		return
	}
	for _, at := range anchors {
		d.diffRange(a0, at[0], b0, at[1])
		a0, b0 = at[0], at[1]
	}
	d.diffRange(a0, a1, b0, b1)
}

// maxDistance is the maximum edit distance of myersDiff.
const maxDistance = 400

// myersDiff finds the shortest edit script by Myers' algorithm, and reports false
// if it is longer than maxDistance. v[k] is the furthest x on diagonal k.
func (d *differ) myersDiff(a0, a1, b0, b1 int) bool {
	n, m := a1-a0, b1-b0
	const off = maxDistance + 1
	v := make([]int, 2*off+1)
	var trace [][]int
	for dist := 0; dist <= min(n+m, maxDistance); dist++ {
		trace = append(trace, slices.Clone(v[off-dist-1:off+dist+2]))
		for k := -dist; k <= dist; k += 2 {
			x := v[off+k-1] + 1
			if k == -dist || k != dist && v[off+k-1] < v[off+k+1] {
				x = v[off+k+1]
			}
			for x < n && x-k < m && x-k >= 0 && d.a[a0+x] == d.b[b0+x-k] {
				x++
			}
			v[off+k] = x
			if x >= n && x-k >= m {
				d.addTrace(trace, dist, k, a0, b0)
				return true
			}
		}
	}
	return false
}

// addTrace follows the trace backwards and adds its edits.
func (d *differ) addTrace(trace [][]int, dist, k, a0, b0 int) {
	var steps []Edit
	for ; dist > 0; dist-- {
		v := trace[dist] // of diagonals -dist-1 to dist+1
		at := func(k int) int { return v[k+dist+1] }
		prev := k - 1
		if k == -dist || k != dist && at(k-1) < at(k+1) {
			prev = k + 1
		}
		px := at(prev)
		py := px - prev
		if prev == k+1 {
			steps = append(steps, Edit{a0 + px, a0 + px, b0 + py, b0 + py + 1})
		} else {
			steps = append(steps, Edit{a0 + px, a0 + px + 1, b0 + py, b0 + py})
		}
		k = prev
	}
	for _, e := range slices.Backward(steps) {
		d.add(e)
	}
}

// uniqueAnchors finds lines that occur once in each part, in their longest common
// order.
func (d *differ) uniqueAnchors(a0, a1, b0, b1 int) [][2]int {
	type seen struct{ inA, inB, a, b int }
	lines := map[int]*seen{}
	for i := a0; i < a1; i++ {
		s := lines[d.a[i]]
		if s == nil {
			s = &seen{}
			lines[d.a[i]] = s
		}
		s.inA, s.a = s.inA+1, i
	}
	for i := b0; i < b1; i++ {
		if s := lines[d.b[i]]; s != nil {
			s.inB, s.b = s.inB+1, i
		}
	}
	var pairs [][2]int
	for i := a0; i < a1; i++ {
		if s := lines[d.a[i]]; s.inA == 1 && s.inB == 1 {
			pairs = append(pairs, [2]int{s.a, s.b})
		}
	}
	return longestIncreasing(pairs)
}

// longestIncreasing returns the longest subsequence of pairs, sorted by their first
// element, with increasing second elements.
func longestIncreasing(pairs [][2]int) [][2]int {
	var tops, prev []int // tops: ends of the best runs by length; prev: what is before each pair
	for i, p := range pairs {
		at, _ := slices.BinarySearchFunc(tops, p[1], func(top, second int) int { return pairs[top][1] - second })
		if at == len(tops) {
			tops = append(tops, i)
		} else {
			tops[at] = i
		}
		before := -1
		if at > 0 {
			before = tops[at-1]
		}
		prev = append(prev, before)
	}
	if len(tops) == 0 {
		return nil
	}
	var run [][2]int
	for i := tops[len(tops)-1]; i >= 0; i = prev[i] {
		run = append(run, pairs[i])
	}
	slices.Reverse(run)
	return run
}
