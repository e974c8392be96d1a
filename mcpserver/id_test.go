package mcpserver

import "testing"

// TestIDsThatAreSentBack: an id comes back as it was written, so it must be what
// JSON may hold.
func TestIDsThatAreSentBack(t *testing.T) {
	for id, want := range map[string]bool{`1`: true, `"a"`: true, `-1`: true, "\"\xff\"": false, `null`: false, `[1]`: false, ``: false} {
		if got := validID([]byte(id)); got != want {
			t.Errorf("validID(%q) = %v, want %v", id, got, want)
		}
	}
}
