package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// A bench collects the rows of the families.
type bench struct {
	family     string
	budget     time.Duration
	large      bool   // trees that take minutes, too
	row        string // only rows that have this in their names; "" is all
	minRuns    int    // how often each side runs at least; 0 is 5
	log        io.Writer
	rows       []Row
	skippedRow bool // the last row was left out
	clean      []func()

	between func() // called between turns, outside of the time that is taken; nil is nothing
	before  func() // the same before each side
}

func (b *bench) runFamily(ctx context.Context, f family) error {
	defer b.runCleanups()
	return f.run(ctx, b)
}

// runCleanups runs the cleanups of the family.
func (b *bench) runCleanups() {
	for _, c := range slices.Backward(b.clean) {
		c()
	}
	b.clean, b.between, b.before, b.minRuns = nil, nil, nil, 0
}

// addCleanup runs f when the family ends.
func (b *bench) addCleanup(f func()) { b.clean = append(b.clean, f) }

// tempDir makes a directory that is removed when the family ends.
func (b *bench) tempDir() (string, error) {
	dir, err := os.MkdirTemp("", "croft-bench-")
	if err != nil {
		return "", err
	}
	b.addCleanup(func() { os.RemoveAll(dir) })
	return dir, nil
}

// A side is one of the two things that a row compares. It does the work n times.
type side func(n int) error

// repeatSide adapts work that is done once per call.
func repeatSide(f func() error) side {
	return func(n int) error {
		for range n {
			if err := f(); err != nil {
				return err
			}
		}
		return nil
	}
}

// compareSides adds a row: ours and a reference, alternating, for the time of the budget.
// bound is the promised ratio, 0 for none.
func (b *bench) compareSides(ctx context.Context, name, ref string, bound float64, ours, theirs side) error {
	if b.skippedRow = !strings.Contains(name, b.row); b.skippedRow {
		return nil
	}
	batch, err := batchSize(theirs)
	if err != nil {
		return fmt.Errorf("%s: %s: %w", name, ref, err)
	}
	if err := ours(batch); err != nil { // warm
		return fmt.Errorf("%s: %w", name, err)
	}
	var a, r []time.Duration
	least := cmp.Or(b.minRuns, 5)
	for start := time.Now(); len(a) < least || (time.Since(start) < b.budget && len(a) < 2000); {
		if err := ctx.Err(); err != nil {
			return err
		}
		// The order alternates, so that neither side always has warm caches.
		pair := []struct {
			f    side
			into *[]time.Duration
		}{{ours, &a}, {theirs, &r}}
		if len(a)%2 == 1 {
			slices.Reverse(pair)
		}
		for _, p := range pair {
			if b.before != nil {
				b.before()
			}
			t := time.Now()
			if err := p.f(batch); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			*p.into = append(*p.into, time.Since(t)/time.Duration(batch))
		}
		if b.between != nil {
			b.between()
		}
	}
	row := Row{Family: b.family, Name: name, Ref: ref, N: len(a), Bound: bound,
		OursNS: median(a), RefNS: median(r)}
	row.Ratio = float64(row.OursNS) / float64(max(row.RefNS, 1))
	b.addRow(row)
	return nil
}

// addRow adds a measured row.
func (b *bench) addRow(row Row) {
	b.rows = append(b.rows, row)
	fmt.Fprintf(b.log, "%s/%s: %.2f of %s (n=%d)\n", b.family, row.Name, row.Ratio, row.Ref, row.N)
}

// atMost bounds ours in the last row.
func (b *bench) atMost(most int64) {
	if !b.skippedRow {
		b.rows[len(b.rows)-1].Most = most
	}
}

// orAtMost sets a value of ours in the last row that is accepted even if the ratio is
// above the bound.
func (b *bench) orAtMost(fine int64) {
	if !b.skippedRow {
		b.rows[len(b.rows)-1].Fine = fine
	}
}

// batchSize finds a number of repetitions that takes a millisecond, which the clock can
// measure.
func batchSize(s side) (int, error) {
	for n := 1; ; n *= 4 {
		t := time.Now()
		if err := s(n); err != nil {
			return 0, err
		}
		if time.Since(t) > time.Millisecond || n >= 1<<20 {
			return n, nil
		}
	}
}

func median(d []time.Duration) int64 { return percentile(d, 50) }

// percentile returns the element of d that p percent are below.
func percentile(d []time.Duration, p int) int64 {
	s := slices.Sorted(slices.Values(d))
	return int64(s[len(s)*p/100])
}
