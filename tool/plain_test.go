package tool_test

import (
	"strings"
	"testing"
)

func TestCommandOutputHasNoControlSequences(t *testing.T) {
	env := coding(t, "w")
	got := ok(t, env, "Bash", `{"command":"printf '\\033[31mred\\033[0m \\033]0;title\\007end\\n'"}`)
	if !strings.Contains(got, "red end\n") || strings.ContainsRune(got, 0x1b) {
		t.Errorf("output for the model: %q, want \"red end\"", got)
	}
}
