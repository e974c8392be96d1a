package registry

import (
	"fmt"
	"slices"
	"strings"

	"github.com/croft-run/croft/fault"
)

// A State is a state of a workspace's life cycle.
type State string

// The states. Their values are stored and part of the API.
const (
	Intended  State = "intended"  // created; nothing was opened yet
	Opening   State = "opening"   // a provider opens it or attaches to it
	Ready     State = "ready"     // it is there
	Evicted   State = "evicted"   // the live instance vanished; the ref resolves to it again
	Paused    State = "paused"    // its processes are stopped
	Failed    State = "failed"    // it can't be opened or resolved; see Record.Error
	Closed    State = "closed"    // it exists, and no process holds it; Acquire opens it again
	Destroyed State = "destroyed" // ended; the record stays until the provider has removed everything
)

// states lists the states in the order of the life cycle.
var states = []State{Intended, Opening, Ready, Evicted, Paused, Failed, Closed, Destroyed}

// moves is the state machine of a workspace. A move that is not listed is a bug.
var moves = map[State][]State{
	Intended:  {Opening, Closed},
	Opening:   {Ready, Failed, Closed},
	Ready:     {Evicted, Paused, Closed},
	Evicted:   {Ready, Failed, Closed},
	Paused:    {Ready, Closed},
	Failed:    {Intended, Evicted, Closed}, // Reset: opened again without a ref, resolved with one
	Closed:    {Opening, Destroyed},
	Destroyed: {},
}

// States returns every state, in the order of the life cycle.
func States() []State { return slices.Clone(states) }

// Moves returns the states that may follow s.
func (s State) Moves() []State { return slices.Clone(moves[s]) }

// requireState returns an error if verb is not allowed in state s.
func (s State) requireState(verb string, allowed ...State) error {
	if slices.Contains(allowed, s) {
		return nil
	}
	err := fmt.Errorf("cannot %s a workspace that is %s: %w: it must be one of %v", verb, s, fault.WrongState, allowed)
	return fault.WithHint(err, fault.HintState, verb)
}

// moveTo moves the record through the given states. An illegal move is a defect of
// this package and panics.
func (r *Record) moveTo(next ...State) {
	for _, s := range next {
		if !slices.Contains(moves[r.State], s) {
			panic(fmt.Sprintf("registry: workspace %s: illegal move from %s to %s", r.ID, r.State, s))
		}
		r.State = s
	}
}

// shortestRoute returns the shortest sequence of legal moves between two states,
// without the first; nil if from equals to. A pair without a route is a defect and
// panics.
func shortestRoute(from, to State) []State {
	type path struct {
		at    State
		steps []State
	}
	seen := map[State]bool{from: true}
	for queue := []path{{at: from}}; len(queue) > 0; queue = queue[1:] {
		p := queue[0]
		if p.at == to {
			return p.steps
		}
		for _, next := range moves[p.at] {
			if !seen[next] {
				seen[next] = true
				queue = append(queue, path{next, append(slices.Clone(p.steps), next)})
			}
		}
	}
	panic(fmt.Sprintf("registry: no route from %s to %s", from, to))
}

// Diagram returns the table of moves as a Mermaid state diagram.
func Diagram() string {
	var b strings.Builder
	b.WriteString("stateDiagram-v2\n    [*] --> " + string(Intended) + "\n")
	for _, from := range states {
		for _, to := range moves[from] {
			fmt.Fprintf(&b, "    %s --> %s\n", from, to)
		}
	}
	b.WriteString("    " + string(Destroyed) + " --> [*]\n")
	return b.String()
}
