package event

import (
	"encoding/json"
	"testing"
	"time"
)

// TestPlainEventsAreEncodedAsOthers holds the quick way against json.Marshal.
func TestPlainEventsAreEncodedAsOthers(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678_900_000, time.UTC)
	for name, tt := range map[string]struct {
		event Event
		plain bool
	}{
		"nothing":     {Event{Kind: ToolCall}, true},
		"all":         {Event{Kind: ToolCall, Sequence: 7, Time: at, Workspace: "w", Session: "s", Fields: map[string]any{"z": "x y", "a": int64(-3), "b": 4, "c": uint64(5), "d": true}}, true},
		"no fields":   {Event{Kind: ToolCall, Time: at, Fields: map[string]any{}}, true},
		"escape":      {Event{Kind: ToolCall, Fields: map[string]any{FieldPath: "a\"b"}}, false},
		"page":        {Event{Kind: ToolCall, Fields: map[string]any{FieldPath: "a<b&c>"}}, false},
		"not ASCII":   {Event{Kind: ToolCall, Session: "ä"}, false},
		"key":         {Event{Kind: ToolCall, Fields: map[string]any{"\n": 1}}, false},
		"kind":        {Event{Kind: "\\"}, false},
		"other value": {Event{Kind: ToolCall, Fields: map[string]any{"x": []string{"y"}}}, false},
	} {
		line, ok := appendPlain(nil, tt.event)
		if ok != tt.plain {
			t.Errorf("%s: plain is %v, want %v", name, ok, tt.plain)
		}
		want, err := json.Marshal(tt.event)
		if err != nil {
			t.Fatal(err)
		}
		if ok && string(line) != string(want) {
			t.Errorf("%s: got %s, want %s", name, line, want)
		}
		if got := string(Marshal(tt.event)); got != string(want) {
			t.Errorf("%s: Marshal answers %s, want %s", name, got, want)
		}
	}
}
