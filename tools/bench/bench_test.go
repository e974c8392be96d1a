package main

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestCompareMeasuresARatio(t *testing.T) {
	b := &bench{family: "f", budget: 20 * time.Millisecond, log: io.Discard}
	work := func(k int) side {
		return repeatSide(func() error {
			for range k {
				time.Sleep(200 * time.Microsecond)
			}
			return nil
		})
	}
	synctest.Test(t, func(t *testing.T) { // where only a sleep takes time
		if err := b.compareSides(t.Context(), "n", "r", 1, work(10), work(1)); err != nil {
			t.Fatal(err)
		}
	})
	r := b.rows[0]
	if r.Ratio != 10 || r.N != 5 || r.Family != "f" || r.Name != "n" || r.Ref != "r" {
		t.Errorf("got %+v, want a ratio of 10 after 5 turns", r)
	}
	var out strings.Builder
	printTable(&out, b.rows)
	if !strings.Contains(out.String(), "MISSED") {
		t.Errorf("a missed bound is not shown:\n%s", out.String())
	}
}

func TestUnknownFamily(t *testing.T) {
	err := run(t.Context(), []string{"-family", "nope"}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "grep") {
		t.Errorf("got %v, want an error that lists the families", err)
	}
}
