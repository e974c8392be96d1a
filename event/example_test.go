package event_test

import (
	"fmt"

	"github.com/croft-run/croft/event"
)

// Keep the latest events in memory, and choose some of them.
func Example() {
	ring := event.NewRing(100)
	stream := event.NewStream(ring)
	stream.Emit(event.Event{Kind: "lifecycle.opened", Workspace: "a"})
	stream.Emit(event.Event{Kind: "lifecycle.opened", Workspace: "b"})
	only := event.Filter{Kinds: []event.Kind{"lifecycle.*"}, Workspace: "b"}
	for _, e := range ring.Events() {
		if only.Match(e) {
			fmt.Println(e.Sequence, e.Kind, e.Workspace)
		}
	}
	// Output: 2 lifecycle.opened b
}
