package event

import "testing"

func TestSequenceOfALine(t *testing.T) {
	line := Marshal(Event{Kind: WorkspaceState, Sequence: 548, Fields: map[string]any{FieldTo: `","sequence":7,`}})
	for _, tt := range []struct {
		line string
		want uint64
	}{
		{string(line), 548},
		{`{"sequence":5,"event":"lifecycle.workspace.state"}` + "\n", 5},
		{`{"event":"lifecycle.workspace.state","ts":"2026-01-01T00:00:00Z","sequence":6}` + "\n", 6},
		{`{"event":"lifecycle.workspace.state"}` + "\n", 0},
		{`vent":"lifecycle.workspace.state","sequence":9,"fields":{}}` + "\n", 0}, // cut off at its start
		{`{"event":"lifecycle.workspace.state","sequence":x,`, 0},
		{"\n", 0},
	} {
		if got := sequenceOf([]byte(tt.line)); got != tt.want {
			t.Errorf("%s: got %d, want %d", tt.line, got, tt.want)
		}
	}
}
