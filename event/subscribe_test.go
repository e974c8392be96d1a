package event

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
)

func TestFilter(t *testing.T) {
	e := Event{Kind: WorkspaceSandbox, Workspace: "w", Session: "s"}
	tests := []struct {
		filter Filter
		want   bool
	}{
		{Filter{}, true},
		{Filter{Workspace: "w", Session: "s"}, true},
		{Filter{Workspace: "v"}, false},
		{Filter{Session: "r"}, false},
		{Filter{Kinds: []Kind{WorkspaceSandbox}}, true},
		{Filter{Kinds: []Kind{Operation, "lifecycle.*"}}, true},
		{Filter{Kinds: []Kind{"*"}}, true},
		{Filter{Kinds: []Kind{"lifecycle.w*"}}, false}, // a star stands after a dot
		{Filter{Kinds: []Kind{"lifecycle"}}, false},
		{Filter{Kinds: []Kind{Operation}}, false},
	}
	for _, tt := range tests {
		if got := tt.filter.Match(e); got != tt.want {
			t.Errorf("%+v matches: %v, want %v", tt.filter, got, tt.want)
		}
	}
}

func TestSubscribersSeeEverythingInOrder(t *testing.T) {
	s := NewStream()
	const n = 1000
	var wg sync.WaitGroup
	for range 3 {
		sub := s.Subscribe(Filter{Workspace: "w"}, &SubscribeOptions{Buffer: n})
		defer sub.Close()
		wg.Go(func() {
			for i := range n {
				if e := <-sub.C(); e.Fields["i"] != i {
					t.Errorf("got %v, want event %d", e, i)
					return
				}
			}
		})
	}
	for i := range n {
		s.Emit(Event{Kind: Operation, Workspace: "w", Fields: map[string]any{"i": i}})
		s.Emit(Event{Kind: Operation, Workspace: "other"})
	}
	wg.Wait()
}

func TestSlowReaderLosesTheOldest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStream()
		sub := s.Subscribe(Filter{}, &SubscribeOptions{Buffer: 3})
		defer sub.Close()
		s.Emit(Event{Kind: Operation})
		synctest.Wait() // the first is held out already
		for range 9 {
			s.Emit(Event{Kind: Operation}) // nobody reads, and nobody waits
		}
		var got []string
		for range 5 {
			e := <-sub.C()
			got = append(got, fmt.Sprintf("%d %s %v", e.Sequence, e.Kind, e.Fields))
		}
		want := []string{
			"1 workspace.operation map[]",
			"7 event.dropped map[count:6 first:2 reason:slow]",
			"8 workspace.operation map[]", "9 workspace.operation map[]", "10 workspace.operation map[]",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("events differ (-want +got):\n%s", diff)
		}
	})
}

// TestNothingIsLostInSilence has readers of all speeds count: what they got and
// what they were told of as dropped is all that was emitted.
func TestNothingIsLostInSilence(t *testing.T) {
	s := NewStream()
	const n = 5000
	var wg sync.WaitGroup
	for _, buffer := range []int{1, 2, 7, 100} {
		sub := s.Subscribe(Filter{}, &SubscribeOptions{Buffer: buffer})
		defer sub.Close()
		wg.Go(func() {
			for seen := uint64(0); seen < n; {
				e := <-sub.C()
				if e.Kind == Dropped {
					if first := e.Fields[FieldFirst].(uint64); first != seen+1 || e.Fields[FieldCount] != e.Sequence-seen {
						t.Errorf("after %d: dropped %v up to %d", seen, e.Fields, e.Sequence)
						return
					}
				} else if e.Sequence != seen+1 {
					t.Errorf("got %d after %d", e.Sequence, seen)
					return
				}
				seen = e.Sequence
			}
		})
	}
	for range n {
		s.Emit(Event{Kind: Operation})
	}
	wg.Wait()
}

func TestClose(t *testing.T) {
	s := NewStream()
	sub := s.Subscribe(Filter{}, nil)
	s.Emit(Event{Kind: Operation})
	sub.Close()
	sub.Close()
	for range sub.C() {
		t.Error("an event came after Close")
	}
	s.Emit(Event{Kind: Operation})
	if n := len(s.sinks); n != 0 {
		t.Errorf("%d sinks are left", n)
	}
}

func TestSince(t *testing.T) {
	ring := NewRing(3)
	if events, missing := ring.Since(0); len(events) != 0 || missing != 0 {
		t.Errorf("an empty ring gave %v, %d", events, missing)
	}
	s := NewStream(ring)
	for range 5 {
		s.Emit(Event{Kind: Operation})
	}
	tests := []struct {
		seq     uint64
		want    []uint64
		missing uint64
	}{
		{0, []uint64{3, 4, 5}, 2},
		{1, []uint64{3, 4, 5}, 1},
		{2, []uint64{3, 4, 5}, 0},
		{4, []uint64{5}, 0},
		{5, nil, 0},
		{6, []uint64{3, 4, 5}, 0},
		{^uint64(0), []uint64{3, 4, 5}, 0},
	}
	for _, tt := range tests {
		events, missing := ring.Since(tt.seq)
		if diff := cmp.Diff(tt.want, sequences(events)); diff != "" || missing != tt.missing {
			t.Errorf("Since(%d): %d missing, want %d; events differ (-want +got):\n%s", tt.seq, missing, tt.missing, diff)
		}
	}
}

// TestResume replays while others emit: what comes is the whole stream, once.
func TestResume(t *testing.T) {
	ring := NewRing(10_000)
	s := NewStream(ring)
	const n = 2000
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		for range n {
			s.Emit(Event{Kind: Operation})
		}
	})
	last := uint64(0)
	for last < n { // a client that reconnects all the time
		sub := s.Subscribe(Filter{}, &SubscribeOptions{Buffer: n, Replay: ring, After: last})
		for range min(100, n-last) {
			if e := <-sub.C(); e.Sequence != last+1 {
				t.Fatalf("got %d (%s) after %d", e.Sequence, e.Kind, last)
			}
			last++
		}
		sub.Close()
	}
}

func TestResumeTellsWhatIsMissing(t *testing.T) {
	tests := []struct {
		name        string
		ring        int
		emit, after uint64
		want        string
	}{
		{"expired", 2, 5, 1, "3 map[count:2 first:2 reason:expired]"},
		{"of another stream", 9, 5, 77, "0 map[count:0 reason:unknown]"},
		{"before a restart", 9, 0, 60, "100 map[count:40 first:61 reason:expired]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ring := NewRing(tt.ring)
			s := NewStream(ring)
			for range tt.emit {
				s.Emit(Event{Kind: Operation})
			}
			if tt.emit == 0 {
				s.Continue(100)
			}
			sub := s.Subscribe(Filter{}, &SubscribeOptions{Replay: ring, After: tt.after})
			defer sub.Close()
			e := <-sub.C()
			if got := fmt.Sprintf("%d %v", e.Sequence, e.Fields); got != tt.want || e.Kind != Dropped {
				t.Errorf("got %s %s, want %s", e.Kind, got, tt.want)
			}
		})
	}
}

func TestContinue(t *testing.T) {
	ring := NewRing(3)
	s := NewStream(ring)
	s.Continue(41)
	s.Emit(Event{})
	s.Continue(7)
	s.Emit(Event{})
	if diff := cmp.Diff([]uint64{42, 43}, sequences(ring.Events())); diff != "" {
		t.Errorf("sequences differ (-want +got):\n%s", diff)
	}
}

func TestLifecycleEvents(t *testing.T) {
	err := fmt.Errorf("local: read ../x: %w", fault.SandboxViolation)
	tests := []struct {
		event Event
		want  string
	}{
		{
			NewWorkspaceProfile("w", "s", Profile{Ecosystem: "go", PackageManager: "go", Install: "go mod download", Test: "go test ./..."}),
			`{"event":"lifecycle.workspace.profile","sequence":0,"ts":"0001-01-01T00:00:00Z","workspace":"w","session":"s","fields":{` +
				`"ecosystem":"go","format_command":null,"install_command":"go mod download","lint_command":null,"package_manager":"go","test_command":"go test ./..."}}`,
		},
		{
			NewWorkspaceSandbox("w", "", "/workspace"),
			`{"event":"lifecycle.workspace.sandbox","sequence":0,"ts":"0001-01-01T00:00:00Z","workspace":"w","fields":{"sandbox_root":"/workspace","workspace":"w"}}`,
		},
		{
			NewSandboxViolation("w", "s", Violation{Tool: "read", Path: "../x", Err: err}),
			`{"event":"lifecycle.sandbox.violation","sequence":0,"ts":"0001-01-01T00:00:00Z","workspace":"w","session":"s","fields":{` +
				`"code":"E_SANDBOX_VIOLATION","kind":"sandbox_violation","message":"local: read ../x: sandbox violation","path":"../x","session":"s","tool":"read","workspace":"w"}}`,
		},
		{
			NewSandboxViolation("w", "", Violation{Command: "cat /etc/passwd", Err: errors.New("secret inside")}),
			`{"event":"lifecycle.sandbox.violation","sequence":0,"ts":"0001-01-01T00:00:00Z","workspace":"w","fields":{` +
				`"code":"E_INTERNAL","command":"cat /etc/passwd","kind":"internal","message":"internal error","workspace":"w"}}`,
		},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, string(Marshal(tt.event))); diff != "" {
			t.Errorf("event differs (-want +got):\n%s", diff)
		}
	}
}

func TestCut(t *testing.T) {
	for _, in := range []string{strings.Repeat("ü", 400), strings.Repeat("\xff", 400), "short", "\xff", strings.Repeat("a", MaxText)} {
		got := Cut(in)
		if len(got) > MaxText || strings.ToValidUTF8(got, "") != got {
			t.Errorf("Cut(%.10q...) has %d bytes: %q", in, len(got), got)
		}
		if long := len(in) > MaxText; long != strings.HasSuffix(got, "...") {
			t.Errorf("Cut(%.10q...) ends in %q", in, got[max(0, len(got)-5):])
		}
	}
}

func BenchmarkEmitToSubscriber(b *testing.B) {
	s := NewStream(NewRing(1000))
	sub := s.Subscribe(Filter{}, nil)
	defer sub.Close()
	for b.Loop() {
		s.Emit(Event{Kind: Operation})
	}
}
