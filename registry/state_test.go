package registry

import (
	"slices"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
)

func TestMovesAreClosed(t *testing.T) {
	if len(moves) != len(states) {
		t.Errorf("the table has %d rows for %d states", len(moves), len(states))
	}
	for _, from := range states {
		if _, ok := moves[from]; !ok {
			t.Errorf("%s has no row", from)
		}
		for _, to := range moves[from] {
			if !slices.Contains(states, to) {
				t.Errorf("%s moves to %q, which is no state", from, to)
			}
		}
	}
}

func TestEveryStateCanEnd(t *testing.T) {
	for _, from := range states {
		if from == Destroyed {
			continue
		}
		steps := shortestRoute(from, Destroyed)
		if n := len(steps); n < 1 || n > 2 {
			t.Errorf("from %s it takes %v to be destroyed, want closed and destroyed", from, steps)
		}
		rec := Record{State: from}
		rec.moveToDestroyed()
		if rec.State != Destroyed {
			t.Errorf("burying a %s workspace leaves it %s", from, rec.State)
		}
	}
	if len(moves[Destroyed]) > 0 {
		t.Error("what is destroyed can move")
	}
}

func TestEveryStateCanBeReached(t *testing.T) {
	for _, to := range states {
		if rec := (Record{State: Intended}); to != Intended {
			rec.moveTo(shortestRoute(Intended, to)...)
		}
	}
}

// TestMovesOfTheDesign names the arrows of the design, so that one that is lost
// is missed.
func TestMovesOfTheDesign(t *testing.T) {
	for _, arrow := range [][2]State{
		{Intended, Opening}, {Opening, Ready}, {Ready, Evicted}, {Evicted, Ready}, {Ready, Paused}, {Paused, Ready},
		{Opening, Failed}, {Evicted, Failed}, {Closed, Destroyed},
	} {
		if !slices.Contains(moves[arrow[0]], arrow[1]) {
			t.Errorf("the move from %s to %s is missing", arrow[0], arrow[1])
		}
		if !strings.Contains(Diagram(), string(arrow[0])+" --> "+string(arrow[1])+"\n") {
			t.Errorf("the diagram lacks the move from %s to %s", arrow[0], arrow[1])
		}
	}
	for _, from := range states {
		if from != Closed && from != Destroyed && !slices.Contains(moves[from], Closed) {
			t.Errorf("%s can't be closed", from)
		}
	}
}

func TestAnIllegalMovePanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a move from intended to ready did not panic")
		}
	}()
	rec := Record{State: Intended}
	rec.moveTo(Ready)
}

func TestNeed(t *testing.T) {
	if err := Ready.requireState("reset", Failed); fault.Of(err) != fault.WrongState || !strings.Contains(err.Error(), "reset") ||
		!strings.Contains(err.Error(), "ready") || !strings.Contains(err.Error(), "failed") {
		t.Errorf("need: %v, want WrongState naming verb, state and what is allowed", err)
	}
	if err := Failed.requireState("reset", Failed); err != nil {
		t.Error(err)
	}
}
